"""References to the environment and to files: what they name is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.secrets import is_there, references
from pytubemq.pipelines.file.texts import texts_of
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report references that name nothing now, which a run would refuse."""
    for path, _, value in texts_of(context.pipeline):
        for reference in references(value):
            if reference.kind in {"env", "file"} and not is_there(reference):
                what = "environment variable" if reference.kind == "env" else "file"
                text = f"the {what} {reference.name} does not exist now"
                hint = "it must exist for dry-run and run"
                yield context.fault(FaultCode.REFERENCE_NOT_THERE, path, text, hint)
