"""A task: one range of one partition, or small ranges of several, read on an executor.

The invariant: what a task yields follows from its ranges and the options alone; it takes nothing that another attempt
of the same task, running at the same time, could be without.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pytubemq.errors import TubeError
from pytubemq.model.offset import messages_between
from pytubemq.spark.error_boundary import make_printable
from pytubemq.spark.source.planning.plan import BrokerKind, Hole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from pytubemq.client.partition_state import Known
    from pytubemq.spark.source.options import SourceOptions
    from pytubemq.spark.source.planning.plan import Ends, OffsetRange
    from pytubemq.spark.source.read.task_reports import ReportTo, TaskReport


class RangePartition(InputPartition):
    """A task: ranges that are read one after the other, all of one kind of Broker."""

    def __init__(
        self,
        ranges: Sequence[OffsetRange],
        kind: BrokerKind = BrokerKind.OURS,
        known: Known | None = None,
        report_to: ReportTo | None = None,
    ) -> None:
        """Create the task; `known` is what the driver knows of the cluster, its visit token among it."""
        super().__init__(ranges)
        self.ranges = tuple(ranges)
        self.kind = kind
        self.known = known
        self.report_to = report_to

    def __repr__(self) -> str:
        return f"RangePartition({self.ranges}, {self.kind})"


def read_range(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task. A batch without rows has one task without a range."""
    if not isinstance(partition, RangePartition):
        return
    try:
        yield from _rows(options, partition)
    except TubeError as error:
        make_printable(error)
        raise


def _rows(options: SourceOptions, partition: RangePartition) -> Iterator[pa.RecordBatch]:
    batches = raw_batches(options, partition)
    if not options.decode:
        yield from batches
        return
    from pytubemq.spark.source.read_schema import decoded_columns

    decoded = decoded_columns(options)
    for batch in batches:
        yield from decoded.decode(batch)


def raw_batches(options: SourceOptions, partition: RangePartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task as they are in the topic, without duplicates if asked: the source's columns."""
    from pytubemq.spark.source.planning.loss import lose
    from pytubemq.spark.source.read_schema import raw_columns

    columns = raw_columns(options)

    def on_loss(gone: OffsetRange, there: Ends) -> None:
        lose(Hole(gone.partition, gone.start, gone.end, there), options)

    read = _once if options.dedup else _fetched
    reports: list[TaskReport] = []
    for wanted in partition.ranges:
        begun_s = time.monotonic()
        yield from read(options, partition, wanted, columns, on_loss)
        rows = messages_between(wanted.start, wanted.end)
        reports.append((str(wanted.partition), rows, time.monotonic() - begun_s))
    if partition.report_to is not None:
        partition.report_to.send(reports)


def _once(
    options: SourceOptions,
    partition: RangePartition,
    wanted: OffsetRange,
    columns: Sequence[str],
    on_loss: Callable[[OffsetRange, Ends], None],
) -> Iterator[pa.RecordBatch]:
    """Yield a range without the duplicates in it."""
    from pytubemq.spark.source.read.dedup import NEEDS, deduplicated

    with_needs = (*columns, *(name for name in NEEDS if name not in columns))
    batches = deduplicated(
        _fetched(options, partition, wanted, with_needs, on_loss),
        wanted,
        scope=(options.masters, options.filters),
        look_back=lambda before: _fetched(options, partition, before, NEEDS, None),
        rows=options.dedup_look_back,
    )
    return (batch.select(columns) for batch in batches) if with_needs != columns else batches


def _fetched(
    options: SourceOptions,
    partition: RangePartition,
    wanted: OffsetRange,
    columns: Sequence[str],
    on_loss: Callable[[OffsetRange, Ends], None] | None,
) -> Iterator[pa.RecordBatch]:
    """Yield a range as it is in the topic; without `on_loss` missing rows are left out, whatever the options say."""
    fail_on_data_loss = options.fail_on_data_loss and on_loss is not None
    if partition.kind is BrokerKind.JAVA:
        from pytubemq.spark.source.java.ranges import java_batches
        from pytubemq.spark.source.options import JavaReads

        return java_batches(
            options.masters,
            wanted,
            columns,
            time_zone=options.time_zone,
            fail_on_data_loss=fail_on_data_loss,
            known=partition.known,
            read_group=options.read_group,
            flushed_only=options.java_reads is JavaReads.FLUSHED,
            on_loss=on_loss,
        )
    from pytubemq.spark.source.read.fetch import fetched_batches
    from pytubemq.spark.source.read.source_connection import Cluster

    return fetched_batches(
        Cluster(options.masters, known=partition.known),
        wanted,
        columns,
        time_zone=options.time_zone,
        fail_on_data_loss=fail_on_data_loss,
        filters=options.filters,
        on_loss=on_loss,
    )
