"""Names of steps, tables and sinks: each is one, and stands for one thing, as Spark reads them: case is ignored.

The invariant: a name stands for one thing in the ledger, in Spark's views and in the names of files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import DEAD_LETTER, INPUT, NAME
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.pipelines.rules.rule import Context, Faults

_LETTERS = "the name of the dead letters"


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report invalid names, and names that two things would share; a sink may be called as its step."""
    pipeline = context.pipeline
    taken = {INPUT: "the source's rows"}
    yield from _each_once(context, "table", (table.name for table in pipeline.tables), taken)
    taken.setdefault(DEAD_LETTER, _LETTERS)
    yield from _each_once(context, "step", (step.name for step in pipeline.steps), taken)
    yield from _each_once(context, "sink", (sink.name for sink in pipeline.sinks), {DEAD_LETTER: _LETTERS})


def _each_once(context: Context, kind: str, names: Iterable[str], taken: dict[str, str]) -> Faults:
    for index, name in enumerate(names):
        path = f"{kind}s[{index}]"
        if not NAME.fullmatch(name):
            text = f"{name!r} cannot be the name of a {kind}"
            hint = "use letters, digits and _, at most 64, and no digit at the beginning"
            yield context.fault(FaultCode.BAD_VALUE, f"{path}.name", text, hint)
        if name.lower() in taken:
            text = f"{name} is {taken[name.lower()]} already"
            yield context.fault(FaultCode.DUPLICATE_NAME, f"{path}.name", text)
        taken.setdefault(name.lower(), "the name of another sink" if kind == "sink" else f"the name of a {kind}")
