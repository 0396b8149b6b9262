"""A few real messages at a stage of the pipeline.

The invariant: nothing is written and no progress is touched; what is read is bounded by the messages asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.spark.pipeline.watch.plain import plain_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pytubemq.spark.pipeline.spec.model import Pipeline

MESSAGES: Final = "source"
INPUT: Final = "input"
REJECTED: Final = "rejected"
MOST_MESSAGES: Final = 10_000


def stages(pipeline: Pipeline) -> tuple[str, ...]:
    """What can be looked at: the messages, decoded rows, each step, each sink's rows, and what was rejected."""
    named = [step.name for step in pipeline.steps] + [sink.name for sink in pipeline.sinks]
    return (MESSAGES, INPUT, *dict.fromkeys(named), REJECTED)


def check_stage(pipeline: Pipeline, stage: str) -> str:
    """The stage, if there is one of that name.

    Raises:
        ConfigError: there is none; naming those that there are.
    """
    import difflib

    known = stages(pipeline)
    if stage in known:
        return stage
    near = difflib.get_close_matches(stage, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"the stages are {', '.join(known)}"
    raise ConfigError(f"pipeline {pipeline.name} has no stage {stage!r}", hint=hint)


def tap(spark: SparkSession, pipeline: Pipeline, stage: str, *, messages: int, newest: bool = False) -> list[Any]:
    """The rows at a stage that `messages` messages come to, as mappings for JSON.

    Args:
        spark: a session with the settings of a run.
        pipeline: what to look into.
        stage: one of `stages`.
        messages: how many messages are read; from the pipeline's own start, or the last ones of each partition.
        newest: the last ones.

    Raises:
        TubeError: the source cannot be read, or a step does not compile.
    """
    from pytubemq.spark.pipeline.run.source import open_source
    from pytubemq.spark.pipeline.run.steps import apply_steps, input_of, make_tables

    check_stage(pipeline, stage)
    source = (
        _newest(pipeline, messages) if newest else replace(pipeline.source, start=pipeline.source.start or "earliest")
    )
    pipeline = replace(pipeline, source=source)
    if stage == MESSAGES:
        pipeline = replace(pipeline, decode=None)
    opened = open_source(spark, pipeline, streaming=False)
    few = opened.rows.limit(messages)
    if stage == REJECTED:
        return rows_of(opened.rejected(few)) if opened.decoded else []
    if stage == MESSAGES:
        return rows_of(few)
    make_tables(spark, pipeline)
    sinks = {sink.name: input_of(pipeline, sink.input) for sink in pipeline.sinks}
    step = stage if stage == INPUT or any(one.name == stage for one in pipeline.steps) else sinks[stage]
    return rows_of(apply_steps(opened.accepted(few), pipeline, until=step)[step])


def rows_of(rows: DataFrame) -> list[Any]:
    """The rows as mappings for JSON."""
    return list(plain_rows(rows.toArrow()))


def _newest(pipeline: Pipeline, messages: int) -> Any:
    """The source, from so many messages before its end."""
    from pytubemq.spark.pipeline.watch.backfill import ends_of

    ends = ends_of(pipeline)
    each = -(-messages // max(1, len(ends)))
    start = {str(key): max(low, high - each * OFFSET_UNIT) for key, (low, high) in ends.items()}
    return replace(pipeline.source, start=start, end=None)
