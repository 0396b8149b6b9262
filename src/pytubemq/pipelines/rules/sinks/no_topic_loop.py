"""Topics that sinks write to: none that the pipeline reads, so that no row comes again as a new one, without an end.

A topic is identified by its name and by the Masters that know it. Two lists of Masters are of one cluster if they have
an address in common; where one of them is not known yet, nothing is reported.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.frames.steps import input_of
from pytubemq.pipelines.rules.rule import Need, rule
from pytubemq.pipelines.sinks.columns import TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from pytubemq.pipelines.file.model import Sink, Source
    from pytubemq.pipelines.rules.rule import Context, Faults

_AGAIN: Final = "would be read and written again without end"


@rule(Need.FILE, sharper=Need.VALUES | Need.SESSION)
def check(context: Context) -> Faults:
    """Report sinks and dead letters in a topic that the pipeline reads."""
    pipeline = context.pipeline
    for index, sink in enumerate(pipeline.sinks):
        if sink.format == "tubemq":
            topic = sink.topic or option_of(sink.options, TOPIC)
            if topic is None:
                yield from _by_column(context, sink, f"sinks[{index}]")
            else:
                yield from _named(context, topic, sink.master, "rows", f"sinks[{index}].topic")
    letters = pipeline.dead_letter
    if letters is not None and letters.format == "tubemq":
        yield from _named(context, letters.topic, letters.master, "records", "dead_letter.topic")


def _named(context: Context, topic: str | None, master: str | None, what: str, path: str) -> Faults:
    why = read_again(context.pipeline.source, topic, master, text_of=context.text)
    if why is not None:
        name = context.known(topic or "")
        shown = "" if name == topic else f"{name} "
        yield context.fault(
            FaultCode.CONTRADICTION, path, f"{shown}{why}: its {what} {_AGAIN}", remedy(why, name)
        )  # fmt: skip


def _by_column(context: Context, sink: Sink, path: str) -> Faults:
    """Report a sink whose rows name their topics by the source's own column, handed on as it is."""
    pipeline, compiled = context.pipeline, context.compiled
    if compiled is None or compiled.source is None or pipeline.source.format != "tubemq":
        return
    rows = compiled.streams.get(input_of(pipeline, sink.input))
    if rows is not None and keeps_topic(rows, compiled.source):
        yield from came_from(context, sink, path)


def came_from(context: Context, sink: Sink, path: str) -> Faults:
    """Yield the fault of a sink whose rows name, as their topic, the one that they came from."""
    if one_cluster(context.pipeline.source, sink.master, text_of=context.text):
        text = f"its rows go to the topic in their column topic, the one that they were read from: they {_AGAIN}"
        yield context.fault(FaultCode.CONTRADICTION, path, text, "give the sink a topic, or set the column in a step")


def keeps_topic(rows: DataFrame, source: DataFrame) -> bool:
    """True if the column `topic` of some rows is the source's own, handed on as it is."""
    own = _ids(source, TOPIC)
    return bool(own & _ids(rows, TOPIC))


def _ids(rows: DataFrame, name: str) -> set[int]:
    """Return Spark's numbers of the columns of a name."""
    plan: Any = rows._jdf.queryExecution().analyzed()
    columns = plan.output()
    found = [columns.apply(at) for at in range(columns.size())]
    return {int(column.exprId().id()) for column in found if str(column.name()) == name}


def read_again(
    source: Source, topic: str | None, master: str | None, *, text_of: Callable[[str], str | None]
) -> str | None:
    """Return why the same pipeline would read what it writes to a topic; None if it would not.

    Args:
        source: of the pipeline.
        topic: that is written to.
        master: its Masters; the source's if None.
        text_of: gives a text without its references, and None if they are not known.
    """
    name = text_of(topic) if topic else None
    if source.format != "tubemq" or name is None or not one_cluster(source, master, text_of=text_of):
        return None
    given = text_of(option_of(source.options, "topic") or "") or ""
    if name in {text_of(each) for each in source.topics} | {each.strip() for each in given.split(",")}:
        return "is the topic that is read"
    pattern = text_of(option_of(source.options, "topicPattern") or source.topic_pattern or "")
    try:
        matches = bool(pattern) and re.fullmatch(pattern or "", name) is not None
    except re.error:
        return None
    return "matches source.topic_pattern" if matches else None


def remedy(why: str, topic: str) -> str:
    """Return what to do about it."""
    return f"name another, or leave it out of the pattern: (?!{topic}$)..." if "pattern" in why else "name another"


def one_cluster(source: Source, master: str | None, *, text_of: Callable[[str], str | None]) -> bool:
    """True if Masters are of the cluster that a source reads from."""
    ours = option_of(source.options, "master") or source.master
    if master is None or master == ours:
        return True
    here, there = _addresses(ours, text_of), _addresses(master, text_of)
    return bool(here & there)


def option_of(options: Mapping[str, str], name: str) -> str | None:
    """Return an option's value, by its name in any case."""
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


def _addresses(masters: str | None, text_of: Callable[[str], str | None]) -> frozenset[str]:
    """Return each Master's address in one form; nothing if they are not known."""
    from pytubemq.errors import TubeError
    from pytubemq.net.client.masters import parse_masters  # few files need it

    text = text_of(masters) if masters else None
    if not text:
        return frozenset()
    try:
        return frozenset(str(address).lower() for address in parse_masters(text))
    except TubeError:
        return frozenset()
