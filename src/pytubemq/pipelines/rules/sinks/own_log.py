"""Log of Spark's file sink (`layout: log`): it is of the sink's own progress, as Spark skips batches that are in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import LOG
from pytubemq.pipelines.rules.rule import Need, rule
from pytubemq.pipelines.sinks.files import HadoopFiles
from pytubemq.pipelines.state.fed_queries import checkpoint_of, log_query
from pytubemq.pipelines.state.log_owner import LogOwner

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults

REMEDY: Final = "give the sink a new path, or move away the files there; layout batches does not have this limit"


@rule(Need.PROGRESS | Need.SESSION)
def check(context: Context) -> Faults:
    """Report a log that another progress has written."""
    assert context.state is not None
    assert context.compiled is not None
    for index, sink in enumerate(context.pipeline.sinks):
        if sink.layout == LOG:
            files = HadoopFiles(context.compiled.session)
            owner = LogOwner(files, context.state, checkpoint_of(log_query(sink)), sink)
            if owner.is_foreign():
                text = (
                    f"{owner.path} has the log of another query, or of this one before its progress was reset; Spark "
                    "would silently skip all batches whose numbers are in it"
                )
                yield context.fault(FaultCode.OTHER_PROGRESS, f"sinks[{index}].path", text, REMEDY)
