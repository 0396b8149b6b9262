"""Decoding in DataFrames and in SQL. Importing this package loads neither pyspark nor pyarrow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytubemq.spark.functions.dataframe import decode_dataframe
    from pytubemq.spark.functions.sql import register

__all__ = ["decode_dataframe", "register"]

_HOMES = {"decode_dataframe": "dataframe", "register": "sql"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
