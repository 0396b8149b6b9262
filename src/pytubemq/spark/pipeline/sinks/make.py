"""Which class carries out which sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.spec.model import Guarantee, SinkFormat

if TYPE_CHECKING:
    from pytubemq.spark.pipeline.sinks.port import SinkWriter
    from pytubemq.spark.pipeline.spec.model import DeadLetter, Sink

DEAD_LETTER = "dead_letter"
"""The name under which the dead letters stand in ledger and events."""


def make_sink(spec: Sink) -> SinkWriter:
    """The writer of a sink.

    Raises:
        ConfigError: the sink lacks something, or cannot keep the guarantee that it is asked for.
    """
    writer = _make(spec)
    if spec.guarantee is Guarantee.EXACTLY_ONCE and writer.guarantee is not Guarantee.EXACTLY_ONCE:
        raise ConfigError(
            f"sink {spec.name}: {spec.format.value} gives each row at least once, not exactly once",
            hint="leave `guarantee` out, or take another sink",
        )
    return writer


def dead_letter_spec(dead_letter: DeadLetter) -> Sink:
    """The dead letters as a sink like another."""
    from pytubemq.spark.pipeline.spec.model import Sink

    return Sink(
        name=DEAD_LETTER,
        format=dead_letter.format,
        path=dead_letter.path,
        table=dead_letter.table,
        topic=dead_letter.topic,
        url=dead_letter.url,
        options=dead_letter.options,
    )


def _make(spec: Sink) -> SinkWriter:
    if spec.format is SinkFormat.PARQUET:
        from pytubemq.spark.pipeline.sinks.parquet import ParquetBatches

        return ParquetBatches(spec)
    raise ConfigError(f"sink {spec.name}: the runner has no sink {spec.format.value}")
