"""From messages to typed columns: `make_decoder`, for the source, for DataFrames, for SQL and without Spark.

A message is unwrapped (InLongMsg), cut into records (a line delimiter) and each record is decoded by a format. Arrow
goes in and Arrow comes out, whole batches at a time. The invariant: each record is either in the rows or among the
rejected, and a bad record never changes what becomes of its neighbours. Importing this package loads neither pyspark
nor pyarrow, so that a pipeline file is checked without them (`options`, `columns`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytubemq.decode.decoder import Decoded, Decoder
    from pytubemq.decode.make import make_decoder
    from pytubemq.decode.rejected import REJECTED_SCHEMA

__all__ = ["REJECTED_SCHEMA", "Decoded", "Decoder", "make_decoder"]

_HOMES = {
    "REJECTED_SCHEMA": "rejected",
    "Decoded": "decoder",
    "Decoder": "decoder",
    "make_decoder": "make",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
