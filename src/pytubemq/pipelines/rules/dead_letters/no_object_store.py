"""Dead letters beside the state: not where no directory can be renamed in one step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import DeadLetter, OnError
from pytubemq.pipelines.file.sink_table import sink_kind
from pytubemq.pipelines.rules.rule import Need, rule
from pytubemq.pipelines.sinks.object_stores import WHY, object_store

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE, sharper=Need.VALUES)
def check(context: Context) -> Faults:
    """Report a state in an object store where dead letters have no place of their own."""
    decode, letters = context.pipeline.decode, context.pipeline.dead_letter or DeadLetter()
    kind = sink_kind(letters.format).dead_letters
    if decode is None or decode.on_error is not OnError.DEAD_LETTER or letters.path is not None:
        return
    store = object_store(context.known(context.pipeline.state or ""))
    if store is not None and kind is not None and kind.beside_state:
        text = f"dead letters would be stored in {store}: {WHY}"
        hint = "give dead_letter format: delta, or a path outside of it"
        yield context.fault(FaultCode.GUARANTEE_IMPOSSIBLE, "state", text, hint)
