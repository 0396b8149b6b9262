"""Source, decode, dead letters, trigger, state and Spark's settings: what excludes what."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pytubemq.errors import MessageError
from pytubemq.model.names import check_topic
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.keys import DECODE
from pytubemq.pipelines.file.model import Guarantee, OnError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.faults import Fault
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.file.places import Places

_OF_TUBEMQ: Final = {
    "master": "master", "topics": "topic", "topic_pattern": "topic_pattern", "commit_group": "commit_group",
    "filters": "filters", "dedup": "dedup", "columns": "columns", "end": "end",
}  # fmt: skip
_REFUSED: Final = {
    "spark.sql.execution.arrow.compression.codec": (
        "lz4", "Spark's Java LZ4 holds a Python writer up for minutes", "delete it, or use zstd"
    ),
    "spark.speculation": (
        "true", "a second attempt of a task may write beside the first", "delete it; the runner keeps it off"
    ),
}  # fmt: skip


def check(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """Faults of the parts around steps and sinks."""
    yield from _source(pipeline, places)
    yield from _dead_letter(pipeline, places)
    yield from _spark(pipeline, places)
    yield from _state(pipeline, places)


def _source(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    source = pipeline.source
    if source.format != "tubemq":
        for field, key in _OF_TUBEMQ.items():
            if getattr(source, field):
                shown = "topics" if field == "topics" and "source.topics" in places.by_path else key
                text = f"is a key of topics, and the format is {source.format}"
                yield places.fault(FaultCode.CONTRADICTION, f"source.{shown}", text, "delete one of them", at_key=True)
        return
    if source.topics and source.topic_pattern:
        text = "stands beside topic"
        yield places.fault(FaultCode.CONTRADICTION, "source.topic_pattern", text, "keep one of them", at_key=True)
    if not source.topics and source.topic_pattern is None:
        yield places.fault(FaultCode.MISSING_KEY, "source", "needs topic, topics or topic_pattern")
    for key in ("path", "schema"):
        if getattr(source, key) is not None:
            text = "is a key of other formats than tubemq"
            hint = "columns of messages are named in decode.schema" if key == "schema" else "a topic has no path"
            yield places.fault(FaultCode.CONTRADICTION, f"source.{key}", text, hint, at_key=True)
    for index, topic in enumerate(source.topics):
        path = "source.topic" if "source.topic" in places.by_path else f"source.topics[{index}]"
        yield from _topic(topic, path, places)
    if source.topic_pattern is not None and "${" not in source.topic_pattern:
        try:
            re.compile(source.topic_pattern)
        except re.error as error:
            yield places.fault(FaultCode.BAD_VALUE, "source.topic_pattern", f"is no regular expression: {error.msg}")
    if source.limit.max_delay_s is not None and source.limit.min_rows is None:
        text = "bounds the wait for min_rows, which is not there"
        yield places.fault(FaultCode.CONTRADICTION, "source.limit.max_delay", text, "add min_rows", at_key=True)
    rows, least = source.limit.rows, source.limit.min_rows
    if rows is not None and least is not None and least > rows:
        text = f"{least} is more than a batch may hold, limit.rows {rows}"
        yield places.fault(FaultCode.CONTRADICTION, "source.limit.min_rows", text)


def _topic(topic: str, path: str, places: Places) -> Iterator[Fault]:
    if "${" in topic:
        return
    try:
        check_topic(topic)
    except MessageError as error:
        yield places.fault(FaultCode.BAD_VALUE, path, error.message, error.hint)


def _dead_letter(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    decode, letters = pipeline.decode, pipeline.dead_letter
    if letters is None:
        said = "decode.on_error" in places.by_path
        if decode is not None and (said or decode.format != "raw") and decode.on_error is OnError.DEAD_LETTER:
            keys = {path.split(".")[1] for path in places.by_path if path.startswith("decode.")}
            if any(DECODE.key(key) is None for key in keys):
                return  # perhaps it is said, with a slip that is told as such
            text = "dead_letter" if said else "what cannot be decoded goes to the dead letters"
            hint = f"they are kept as Parquet in {pipeline.state or '.pytubemq/' + pipeline.name}/dead_letter"
            key = "decode.on_error" if said else "decode"
            text += ", and the file has no section dead_letter"
            yield places.fault(FaultCode.DEFAULT_DEAD_LETTER, key, text, hint, at_key=not said)
        return
    if decode is None:
        text = "gets no record, as nothing is decoded"
        yield places.fault(FaultCode.CONTRADICTION, "dead_letter", text, "add decode", at_key=True)
    elif decode.on_error is not OnError.DEAD_LETTER:
        text = f"gets no record with decode.on_error: {decode.on_error.value}"
        yield places.fault(FaultCode.NOTHING_REJECTED, "dead_letter", text, "delete one of them", at_key=True)
    yield from _limits(pipeline, places)


def _limits(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    from pytubemq.pipelines.plan.planned import surely_keep_state  # it needs this package's values itself

    stateful = {step.lower() for step in surely_keep_state(pipeline)}
    last = pipeline.steps[-1].name if pipeline.steps else "input"
    apart = [sink.name for sink in pipeline.sinks if sink.layout == "log" or (sink.input or last).lower() in stateful]
    for key in ("max_ratio", "max_rows"):
        if apart and getattr(pipeline.dead_letter, key) is not None:
            text = f"does not hold back {', '.join(apart)}, which read{'s' if len(apart) == 1 else ''} the source apart"
            yield places.fault(FaultCode.LIMIT_OF_MAIN, f"dead_letter.{key}", text, "on_error: fail holds for all")


def _state(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """A sink that is exactly once by a progress of which the file does not say where it is kept."""
    if pipeline.state is not None:
        return
    from pytubemq.pipelines.analysis.guarantees import promise_of  # it needs this package's values itself

    exact = [
        (sink.guarantee is None, index)  # where it is written comes first
        for index, sink in enumerate(pipeline.sinks)
        if (sink.guarantee or promise_of(sink).guarantee) is Guarantee.EXACTLY_ONCE
    ]
    if exact:
        by_default, index = min(exact)
        key = f"sinks[{index}]" if by_default else f"sinks[{index}].guarantee"
        text = f"{'is ' if by_default else ''}exactly_once without `state`"
        hint = f"progress is kept in .pytubemq/{pipeline.name} beside the file"
        yield places.fault(FaultCode.DEFAULT_STATE, key, text, hint)


def _spark(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    for name, value in pipeline.spark.conf.items():
        refused = _REFUSED.get(name)
        if refused is not None and value.strip().lower() == refused[0]:
            path = f"spark.conf.{name}"
            yield places.fault(FaultCode.SPARK_SETTING_REFUSED, path, f"{value} is refused: {refused[1]}", refused[2])
