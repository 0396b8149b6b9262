"""A few real messages at a stage of the pipeline.

The invariant: nothing is written and no progress is touched; what is read is bounded by the messages asked for. What a
topic gives is read by the same reader and decoded by the same decoder whether Spark calls them or this process does.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.model.suggest import suggest
from pytubemq.pipelines.file.model import INPUT
from pytubemq.pipelines.frames.source import ERROR, source_options, visible_of
from pytubemq.pipelines.frames.steps import apply_steps, input_of, make_tables
from pytubemq.pipelines.report.json_rows import plain_rows
from pytubemq.pipelines.run.session import session_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pytubemq.pipelines.file.model import Pipeline

MESSAGES: Final = "source"
REJECTED: Final = "rejected"


def stages(pipeline: Pipeline) -> tuple[str, ...]:
    """List what can be shown: the messages, decoded rows, each step, each sink's rows, and what was rejected."""
    named = [step.name for step in pipeline.steps] + [sink.name for sink in pipeline.sinks]
    return (MESSAGES, INPUT, *dict.fromkeys(named), REJECTED)


def check_stage(pipeline: Pipeline, stage: str) -> str:
    """Return the stage, if there is one of that name.

    Raises:
        ConfigError: there is none; naming those that there are.
    """
    known = stages(pipeline)
    if stage in known:
        return stage
    suggestion = suggest(stage, known)
    hint = f"did you mean {suggestion}?" if suggestion else f"the stages are {', '.join(known)}"
    raise ConfigError(f"pipeline {pipeline.name} has no stage {stage!r}", hint=hint)


def tap_needs_spark(pipeline: Pipeline, stage: str) -> bool:
    """True if the rows at a stage need a session: those of a step, and all of another source than a topic."""
    return pipeline.source.format != "tubemq" or _rows_of(pipeline, stage) not in (MESSAGES, INPUT, REJECTED)


def _rows_of(pipeline: Pipeline, stage: str) -> str:
    """Return the stage that a stage's rows come from: a sink has those of a step, or of the input."""
    if stage in (MESSAGES, INPUT, REJECTED) or any(step.name == stage for step in pipeline.steps):
        return stage
    return next(input_of(pipeline, sink.input) for sink in pipeline.sinks if sink.name == stage)


def tap(
    pipeline: Pipeline,
    stage: str = INPUT,
    *,
    messages: int = 10,
    newest: bool = False,
    spark: SparkSession | None = None,
) -> list[Any]:
    """Return the rows at a stage for `messages` messages, as mappings for JSON.

    Args:
        pipeline: what to look into.
        stage: one of `stages`.
        messages: how many messages are read; from the pipeline's own start, or the last ones of each partition.
        newest: the last ones.
        spark: the session for stages that need one (`tap_needs_spark`); as a run would have it, if None.

    Raises:
        TubeError: the source cannot be read, or a step does not compile.
    """
    check_stage(pipeline, stage)
    source = (
        _newest(pipeline, messages) if newest else replace(pipeline.source, start=pipeline.source.start or "earliest")
    )
    pipeline = replace(pipeline, source=source)
    if stage == MESSAGES:
        pipeline = replace(pipeline, decode=None)
    step = _rows_of(pipeline, stage)
    if tap_needs_spark(pipeline, stage):
        with contextlib.nullcontext(spark) if spark is not None else session_of(pipeline) as session:
            return _by_spark(session, pipeline, step, messages)
    return [row for batch in _read_here(pipeline, messages) for row in plain_rows(_at(pipeline, step, batch))]


def _by_spark(spark: SparkSession, pipeline: Pipeline, step: str, messages: int) -> list[Any]:
    from pytubemq.pipelines.frames.source import open_source

    opened = open_source(spark, pipeline, streaming=False)
    few = opened.rows.limit(messages)
    if step == REJECTED:
        return rows_of(opened.rejected(few)) if opened.decoded else []
    if step == MESSAGES:
        return rows_of(few)
    make_tables(spark, pipeline)
    return rows_of(apply_steps(opened.accepted(few), pipeline, until=step)[step])


def _read_here(pipeline: Pipeline, rows: int) -> Iterator[pa.RecordBatch]:
    """Read the first rows of the source, as the tasks of Spark would read them one after the other."""
    from pytubemq.spark.source.batch import TubeMqReader
    from pytubemq.spark.source.option_table import Scope
    from pytubemq.spark.source.options import parse_options
    from pytubemq.spark.source.read.source_connection import Cluster

    options = parse_options(source_options(pipeline, streaming=False), Scope.BATCH)
    reader = TubeMqReader(options)
    try:
        for batch in chain.from_iterable(map(reader.read, reader.partitions())):
            yield batch.slice(0, rows)
            rows -= len(batch)
            if rows <= 0:
                return
    finally:
        Cluster(options.masters).forget()


def _at(pipeline: Pipeline, step: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Select rows of a batch: those that were rejected, those that were not, or all."""
    import pyarrow as pa

    names = batch.schema.names
    if ERROR not in names:
        return batch.slice(0, 0) if step == REJECTED else batch
    errors = batch.column(ERROR)
    if step == REJECTED:
        return pa.RecordBatch.from_struct_array(errors.drop_null())
    return batch.filter(errors.is_null()).select(visible_of(pipeline, names))


def rows_of(rows: DataFrame) -> list[Any]:
    """Convert rows to mappings for JSON."""
    return list(plain_rows(rows.toArrow()))


def _newest(pipeline: Pipeline, messages: int) -> Any:
    """Return the source from so many messages before its end."""
    from pytubemq.pipelines.operate.backfill import ends_of

    ends = ends_of(pipeline)
    each = -(-messages // max(1, len(ends)))
    start = {str(key): max(low, high - each * OFFSET_UNIT) for key, (low, high) in ends.items()}
    return replace(pipeline.source, start=start, end=None)
