"""Rows that are others when a batch is done again, where a sink knows rows by their number: the error for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Sink

ROWS_DIFFER: Final = "its rows depend on random numbers or the clock, so a repeated batch has different rows"
REMEDY: Final = (
    "use a time from the message, name a column with idempotency_key, or set options: {idempotent: false} for at "
    "least once"
)


def rows_differ(sink: Sink) -> ConfigError:
    """Return why such rows are refused."""
    return ConfigError(f"sink {sink.name}: {ROWS_DIFFER}", hint=REMEDY)
