"""Numbered rows: sinks into topics that know a row by its number in the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Sink

IDEMPOTENT: Final = "idempotent"
"""The option, in lower case."""


def is_by_number(sink: Sink) -> bool:
    """True unless rows have a key in a column, or none at all."""
    return sink.idempotency_key is None and is_idempotent(sink)


def is_idempotent(sink: Sink) -> bool:
    """True if a sink identifies rows at all: it does unless its options say otherwise."""
    given = {name.lower(): value for name, value in sink.options.items()}
    return given.get(IDEMPOTENT, "true").strip().lower() != "false"
