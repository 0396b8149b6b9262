"""Keys and options of a sink, and of the dead letters: those that its kind needs and takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.analysis.wrong_sink_values import with_texts, wrong_dead_letters, wrong_values
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.sink_kind import Wrong
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE, sharper=Need.VALUES)
def check(context: Context) -> Faults:
    """Report values that are missing, and those that the kind does not take."""
    for index, sink in enumerate(context.pipeline.sinks):
        yield from _faults(context, wrong_values(with_texts(sink, context.known)), f"sinks[{index}]")
    letters = context.pipeline.dead_letter
    if letters is not None:
        yield from _faults(context, wrong_dead_letters(with_texts(letters, context.known)), "dead_letter")


def _faults(context: Context, found: Iterator[Wrong], path: str) -> Faults:
    for wrong in found:
        at = f"{path}.{wrong.key}" if wrong.key else path
        yield context.fault(wrong.code, at, wrong.message, wrong.hint, at_key=wrong.at_key)
