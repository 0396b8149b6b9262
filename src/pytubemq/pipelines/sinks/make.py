"""Which class carries out which sink."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError
from pytubemq.pipelines.analysis.sink_values import wrong_values
from pytubemq.pipelines.file.model import Guarantee, SinkFormat
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.sinks.port import DEAD_LETTER

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import DeadLetter, Sink
    from pytubemq.pipelines.sinks.port import SinkWriter

__all__ = ["DEAD_LETTER", "dead_letter_spec", "make_dead_letters", "make_sink"]


def make_sink(spec: Sink) -> SinkWriter:
    """The writer of a sink.

    Raises:
        ConfigError: the sink lacks something, has what its format does not take, or cannot keep the guarantee that it
            is asked for.
    """
    _refuse_wrong(spec)
    writer = _make(spec)
    if spec.guarantee is Guarantee.EXACTLY_ONCE and writer.guarantee is not Guarantee.EXACTLY_ONCE:
        raise ConfigError(
            f"sink {spec.name}: {spec.format.value} gives each row at least once, not exactly once",
            hint="leave `guarantee` out, or take another sink",
        )
    return writer


def dead_letter_spec(dead_letter: DeadLetter) -> Sink:
    """The dead letters as a sink like another."""
    from pytubemq.pipelines.file.model import Sink

    return Sink(
        name=DEAD_LETTER,
        format=dead_letter.format,
        path=dead_letter.path,
        table=dead_letter.table,
        topic=dead_letter.topic,
        url=dead_letter.url,
        master=dead_letter.master,
        options=dead_letter.options,
    )


def make_dead_letters(dead_letter: DeadLetter, *, beside: str) -> SinkWriter:
    """The writer of the dead letters.

    Args:
        dead_letter: what the file says of them.
        beside: the directory, beside the state, of those that have no place of their own.

    Raises:
        ConfigError: something lacks, or is nothing that the format takes.
    """
    spec = dead_letter_spec(dead_letter)
    _refuse_wrong(spec)
    if spec.path is None and spec.format in (SinkFormat.PARQUET, SinkFormat.TUBEMQ):
        spec = replace(spec, path=beside)
    if spec.format is SinkFormat.TUBEMQ:
        from pytubemq.pipelines.sinks.dead_letter_writers import TopicLetters

        return TopicLetters(spec)
    if spec.format is SinkFormat.JDBC:
        from pytubemq.pipelines.sinks.dead_letter_writers import DatabaseLetters

        return DatabaseLetters(spec)
    return make_sink(spec)


def _refuse_wrong(spec: Sink) -> None:
    wrong = next(wrong_values(spec, text_of=resolve), None)
    if wrong is not None:
        raise ConfigError(f"sink {spec.name}: {wrong.key}: {wrong.message}", hint=wrong.hint)


def _make(spec: Sink) -> SinkWriter:
    if spec.format is SinkFormat.PARQUET:
        from pytubemq.pipelines.sinks.parquet import ParquetBatches

        return ParquetBatches(spec)
    if spec.format is SinkFormat.DELTA:
        from pytubemq.pipelines.sinks.delta.sink import DeltaSink

        return DeltaSink(spec)
    if spec.format is SinkFormat.ICEBERG:
        from pytubemq.pipelines.sinks.iceberg.sink import IcebergSink

        return IcebergSink(spec)
    if spec.format is SinkFormat.JDBC:
        from pytubemq.pipelines.sinks.jdbc.sink import JdbcSink

        return JdbcSink(spec)
    if spec.format is SinkFormat.KAFKA:
        from pytubemq.pipelines.sinks.kafka import KafkaSink

        return KafkaSink(spec)
    if spec.format is SinkFormat.TUBEMQ:
        from pytubemq.pipelines.sinks.tubemq import TubeMqSink

        return TubeMqSink(spec)
    from pytubemq.pipelines.sinks.console import ConsoleSink

    return ConsoleSink(spec)
