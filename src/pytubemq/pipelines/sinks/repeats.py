"""Rows that are others when a batch is done again, before sinks that tell rows by their number: refused early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.sink_table import sink_kind
from pytubemq.pipelines.sinks.rows import is_deterministic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pytubemq.pipelines.file.model import Sink


def check_repeats(sink: Sink, rows: DataFrame, *, whole: bool) -> None:
    """Refuse a sink by number whose rows are made at random or by the clock.

    Args:
        sink: any.
        rows: what it will get, as a plan.
        whole: whether Spark runs the plan itself as a stream, and so keeps the time of each batch; else the steps are
            put on each batch, where a clock tells another time when the batch is done again.

    Raises:
        ConfigError: they are.
    """
    if sink_kind(sink.format).by_number(sink) and not is_deterministic(rows, keeps_time=whole):
        raise rows_differ(sink)


def rows_differ(sink: Sink) -> ConfigError:
    """Why such rows are refused."""
    return ConfigError(
        f"sink {sink.name}: its rows are made at random or by the clock, so a batch done again has other rows",
        hint="take a time that the message has, name a column with idempotency_key, or set options: "
        "{idempotent: false} for at least once",
    )
