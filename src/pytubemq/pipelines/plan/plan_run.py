"""A run planned in advance: the rules asked, the source and the state looked at. What a run refuses, it refuses.

The invariant: nothing is written, and Spark is not started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.operate.status import read_status
from pytubemq.pipelines.plan.cluster_state import look
from pytubemq.pipelines.plan.planned import build_plan
from pytubemq.pipelines.rules.registry import BEFORE_SPARK, refuse
from pytubemq.pipelines.rules.rule import Context, Need
from pytubemq.pipelines.sinks.tubemq.repeat_safety import repeating
from pytubemq.pipelines.state.files import SPEC, has_run, open_files, read_object
from pytubemq.pipelines.state.state_location import state_location

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.file.source_positions import Places
    from pytubemq.pipelines.plan.planned import Plan


def plan_run(pipeline: Pipeline, places: Places | None = None, *, offline: bool = False) -> Plan:
    """Return the plan of a run: what it would read, where rows would go, what each sink guarantees, what has changed.

    Args:
        pipeline: as `open_pipeline` returns it, or made in Python.
        places: where the file has each key, for errors. A pipeline without them is also checked as a file would be.
        offline: ask no cluster; partitions and waiting messages are not known then.

    Raises:
        PipelineFileError: a rule found errors.
        ConfigError: the state directory cannot be reached.
        TubeError: the cluster cannot be reached, or a topic does not exist.
    """
    state = open_files(state_location(pipeline))
    sees = BEFORE_SPARK & ~Need.CLUSTER if offline else BEFORE_SPARK
    already = Need.NOTHING if places is None else Need.FILE
    refuse(Context(pipeline, places or unplaced(pipeline), sees, state), already=already)
    files = state if has_run(state) else None
    return build_plan(
        pipeline,
        looked=None if offline or pipeline.source.format != "tubemq" else look(pipeline, files),
        last=read_object(files, SPEC) or None if files is not None else None,
        repeating=() if offline else repeating(pipeline),
        running=files is not None and read_status(files).runs,
    )
