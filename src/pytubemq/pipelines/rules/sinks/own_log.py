"""Log of Spark's file sink (`layout: log`): it is of the sink's own progress, as Spark skips batches that are in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import LOG
from pytubemq.pipelines.rules.rule import Need, rule
from pytubemq.pipelines.sinks.files import HadoopFiles
from pytubemq.pipelines.state.fed_queries import checkpoint_of, log_query
from pytubemq.pipelines.state.log_owner import NOT_OURS, REMEDY, LogOwner

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


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
                text = f"{owner.path} {NOT_OURS}"
                yield context.fault(FaultCode.OTHER_PROGRESS, f"sinks[{index}].path", text, REMEDY)
