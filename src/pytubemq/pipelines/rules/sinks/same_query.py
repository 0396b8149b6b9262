"""Query that feeds a sink: the one that fed it so far, for another has not read what the sink has.

Spark decides which steps keep state, so it decides about queries, too. Before Spark is asked the words of the steps
decide where they leave no doubt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.analysis.sql_names import words_of
from pytubemq.pipelines.analysis.step_state import keeps_state, surely_keep_state
from pytubemq.pipelines.events import MAIN
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.frames.steps import input_of
from pytubemq.pipelines.rules.rule import Need, rule
from pytubemq.pipelines.state.fed_queries import fed_before, moves, query_of

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline, Sink, Step
    from pytubemq.pipelines.rules.rule import Context, Faults

REMEDY: Final = (
    "give the sink a new name, and a new place: as a new sink it begins at source.start; or undo the change of the "
    "steps, or forget all progress with `pytubemq pipeline reset`"
)


@rule(Need.PROGRESS, sharper=Need.SESSION)
def check(context: Context) -> Faults:
    """Report a sink that another query fed."""
    assert context.state is not None
    paths = {sink.name: f"sinks[{index}]" for index, sink in enumerate(context.pipeline.sinks)}
    feeds = context.compiled.feeds if context.compiled is not None else _feeds_by_words(context.pipeline)
    for sink, before, now in moves(fed_before(context.state), feeds):
        text = (
            f"the query {before} has written to it and now {now} would, which has its own progress: rows would be "
            "written twice, or not at all"
        )
        yield context.fault(FaultCode.OTHER_PROGRESS, paths.get(sink, sink), text, REMEDY)


def _feeds_by_words(pipeline: Pipeline) -> dict[str, str]:
    """Return by sink the query that is to feed it; without those of which only Spark knows."""
    return {sink.name: query for sink in pipeline.sinks if (query := _query_by_words(pipeline, sink)) is not None}


def _query_by_words(pipeline: Pipeline, sink: Sink) -> str | None:
    step = input_of(pipeline, sink.input)
    query = query_of(sink, step, stateful=step in surely_keep_state(pipeline))
    plain = all(step.sql is not None and not keeps_state(step) and not _joins(step) for step in pipeline.steps)
    return query if query != MAIN or plain else None


def _joins(step: Step) -> bool:
    return bool({"join", "distinct", "intersect", "except", "over"} & set(words_of(step.sql or "")))
