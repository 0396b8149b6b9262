"""Steps that keep state, in a run over a part of a pipeline's rows: a backfill, a redrive of dead letters.

The invariant: such a run ends, and its state is thrown away; so it never has rows that wait in a state for later ones,
as those of the newest window do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError
from pytubemq.pipelines.frames.steps import input_of
from pytubemq.pipelines.plan.planned import surely_keep_state

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytubemq.pipelines.file.model import Pipeline


def refuse_state(pipeline: Pipeline, what: str) -> None:
    """Refuse what the words of the steps tell already; Spark says the last word when the run is started.

    Args:
        pipeline: with steps and sinks.
        what: names the run, as `a backfill`.

    Raises:
        ConfigError: a sink takes rows of a step that keeps state.
    """
    taken = {input_of(pipeline, sink.input).lower() for sink in pipeline.sinks}
    stateful = [step for step in surely_keep_state(pipeline) if step.lower() in taken]
    if stateful:
        raise state_refused(pipeline, stateful, what)


def state_refused(pipeline: Pipeline, steps: Collection[str], what: str) -> ConfigError:
    """Why such a run does not begin.

    Args:
        pipeline: with the sinks.
        steps: those that keep state, and whose rows a sink takes.
        what: names the run.
    """
    lower = {step.lower() for step in steps}
    behind = [sink.name for sink in pipeline.sinks if input_of(pipeline, sink.input).lower() in lower]
    others = [sink.name for sink in pipeline.sinks if sink.name not in behind]
    whole = "for those, run the file from `source.start` with another name and state, into other places"
    return ConfigError(
        f"step {', '.join(sorted(steps))} of pipeline {pipeline.name} keeps state, which {what} cannot: its newest "
        f"windows would never come out, and others stand beside those that sink {', '.join(behind)} has",
        hint=f"take a copy of the file without {', '.join(behind)}, of the same name and state, for "
        f"{', '.join(others)}; {whole}"
        if others
        else whole.removeprefix("for those, "),
    )
