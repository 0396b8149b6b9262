"""The writers of sinks and of dead letters, by their formats."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError
from pytubemq.pipelines.analysis.sink_values import wrong_values
from pytubemq.pipelines.file.model import Guarantee, SinkFormat
from pytubemq.pipelines.file.secrets import resolve

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import DeadLetter, Sink
    from pytubemq.pipelines.sinks.port import SinkWriter


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


def make_dead_letters(dead_letter: DeadLetter, *, beside: str) -> SinkWriter:
    """The writer of the dead letters.

    Args:
        dead_letter: what the file says of them.
        beside: the directory, beside the state, of those that have no place of their own.

    Raises:
        ConfigError: something lacks, or is nothing that the format takes.
    """
    spec = dead_letter.as_sink()
    _refuse_wrong(spec)
    if spec.path is None and spec.format in (SinkFormat.PARQUET, SinkFormat.TUBEMQ):
        spec = replace(spec, path=beside)
    if spec.format is SinkFormat.TUBEMQ:
        from pytubemq.pipelines.sinks.tubemq.dead_letters import TopicLetters

        return TopicLetters(spec)
    if spec.format is SinkFormat.JDBC:
        from pytubemq.pipelines.sinks.jdbc.dead_letters import DatabaseLetters

        return DatabaseLetters(spec)
    return make_sink(spec)


def _refuse_wrong(spec: Sink) -> None:
    wrong = next(wrong_values(spec, text_of=resolve), None)
    if wrong is not None:
        raise ConfigError(f"sink {spec.name}: {wrong.key}: {wrong.message}", hint=wrong.hint)


def _make(spec: Sink) -> SinkWriter:
    if spec.format is SinkFormat.PARQUET:
        from pytubemq.pipelines.sinks.parquet.writer import ParquetBatches

        return ParquetBatches(spec)
    if spec.format is SinkFormat.DELTA:
        from pytubemq.pipelines.sinks.delta.writer import DeltaSink

        return DeltaSink(spec)
    if spec.format is SinkFormat.ICEBERG:
        from pytubemq.pipelines.sinks.iceberg.writer import IcebergSink

        return IcebergSink(spec)
    if spec.format is SinkFormat.JDBC:
        from pytubemq.pipelines.sinks.jdbc.writer import JdbcSink

        return JdbcSink(spec)
    if spec.format is SinkFormat.KAFKA:
        from pytubemq.pipelines.sinks.kafka.writer import KafkaSink

        return KafkaSink(spec)
    if spec.format is SinkFormat.TUBEMQ:
        from pytubemq.pipelines.sinks.tubemq.writer import TubeMqSink

        return TubeMqSink(spec)
    from pytubemq.pipelines.sinks.console.writer import ConsoleSink

    return ConsoleSink(spec)
