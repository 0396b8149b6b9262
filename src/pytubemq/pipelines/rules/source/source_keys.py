"""Keys of the source: those of its format, and one way to name what is read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Source
    from pytubemq.pipelines.rules.rule import Context, Faults

_OF_TUBEMQ: Final = {
    "master": "master", "user": "user", "secret_file": "secret_file", "topics": "topic",
    "topic_pattern": "topic_pattern", "commit_group": "commit_group",
    "filters": "filters", "dedup": "dedup", "columns": "columns", "end": "end",
}  # fmt: skip


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report keys of another format, keys that exclude each other, and missing ones."""
    source = context.pipeline.source
    if source.format == "tubemq":
        yield from _of_topics(context, source)
    elif context.apart is None:  # else the runner has put files in the place of the file's source
        yield from _of_other_formats(context, source)


def _of_other_formats(context: Context, source: Source) -> Faults:
    for field, key in _OF_TUBEMQ.items():
        if getattr(source, field):
            shown = "topics" if field == "topics" and "source.topics" in context.places.by_path else key
            text = f"is a key of topics, and the format is {source.format}"
            yield context.fault(FaultCode.CONTRADICTION, f"source.{shown}", text, "delete one of them", at_key=True)


def _of_topics(context: Context, source: Source) -> Faults:
    if source.topics and source.topic_pattern:
        text = "is given together with topic"
        yield context.fault(FaultCode.CONTRADICTION, "source.topic_pattern", text, "keep one of them", at_key=True)
    given = {name.lower() for name in source.options}
    if not source.topics and source.topic_pattern is None and not given & {"topic", "topicpattern"}:
        yield context.fault(FaultCode.MISSING_KEY, "source", "needs topic, topics or topic_pattern")
    for key in ("path", "schema"):
        if getattr(source, key) is not None:
            text = "is a key of formats other than tubemq"
            hint = "columns of messages are named in decode.schema" if key == "schema" else "a topic has no path"
            yield context.fault(FaultCode.CONTRADICTION, f"source.{key}", text, hint, at_key=True)
    if source.topic_pattern is not None and "${" not in source.topic_pattern:
        try:
            re.compile(source.topic_pattern)
        except re.error as error:
            yield context.fault(
                FaultCode.BAD_VALUE, "source.topic_pattern", f"is not a regular expression: {error.msg}"
            )
