"""Records for the dead letters: something is decoded, and what cannot be goes to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import OnError
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report a section `dead_letter` that can get no record."""
    decode = context.pipeline.decode
    if context.pipeline.dead_letter is None:
        return
    if decode is None:
        text = "gets no record, because nothing is decoded"
        yield context.fault(FaultCode.CONTRADICTION, "dead_letter", text, "add decode", at_key=True)
    elif decode.on_error is not OnError.DEAD_LETTER:
        text = f"gets no record with decode.on_error: {decode.on_error.value}"
        yield context.fault(FaultCode.NOTHING_REJECTED, "dead_letter", text, "delete one of them", at_key=True)
