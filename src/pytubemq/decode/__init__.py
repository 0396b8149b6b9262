"""Decoding of messages to typed columns, without Spark: `make_decoder`.

A message is unwrapped (InLongMsg), cut into records (a line delimiter) and each record is decoded by a format. Arrow
goes in and Arrow comes out, whole batches at a time. The invariant: each record is either in the rows or among the
rejected, and a bad record never changes the result of its neighbours. Importing this package does not load pyarrow, so
that a pipeline file is checked without it (`format_options`, `columns`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytubemq.decode.dead_letter_columns import DEAD_LETTER_ARROW
    from pytubemq.decode.decoder import Decoded, Decoder
    from pytubemq.decode.factory import make_decoder

__all__ = ["DEAD_LETTER_ARROW", "Decoded", "Decoder", "make_decoder"]

_HOMES = {
    "DEAD_LETTER_ARROW": "dead_letter_columns",
    "Decoded": "decoder",
    "Decoder": "decoder",
    "make_decoder": "factory",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
