"""Spark's tasks from a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.spark.source.planning.loss import lose
from pytubemq.spark.source.planning.plan import ROWS_TOGETHER, BrokerKind, Planned, split, together
from pytubemq.spark.source.read.task import RangePartition

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from pytubemq.spark.source.options import SourceOptions
    from pytubemq.spark.source.planning.survey import Survey
    from pytubemq.spark.source.read.task_reports import ReportTo


def tasks(
    planned: Planned, survey: Survey, options: SourceOptions, *, report_to: ReportTo | None = None
) -> list[InputPartition]:
    """Create one task per range, or for several small ones, each with what it needs to know of the cluster.

    Raises:
        OffsetMovedError: the plan has a hole and data loss is an error.
    """
    for hole in planned.holes:
        lose(hole, options)
    java = {one.partition for one in planned.ranges if survey.kind(one.partition) is BrokerKind.JAVA}
    ranges = split(planned.ranges, max_rows=options.max_task_rows, min_tasks=options.min_tasks, whole=java)
    if not ranges:
        return []
    known = survey.known()
    alone = [RangePartition([one], BrokerKind.JAVA, known, report_to) for one in ranges if one.partition in java]
    ours = [one for one in ranges if one.partition not in java]
    most_rows = min(ROWS_TOGETHER, options.max_task_rows or ROWS_TOGETHER) if options.min_tasks is None else 0
    shared = together(ours, most_rows=most_rows)
    return [*alone, *(RangePartition(few, BrokerKind.OURS, known, report_to) for few in shared)]
