"""A task: one range of one partition, read on an executor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from pytubemq.spark.source.options import SourceOptions
    from pytubemq.spark.source.plan import OffsetRange


class RangePartition(InputPartition):
    """A task: one range of one partition."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


def read_range(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a task. A batch without rows has one task without a range."""
    from pytubemq.spark.source.arrow import BatchBuilder
    from pytubemq.spark.source.cluster import Cluster

    if not isinstance(partition, RangePartition):
        return
    wanted = partition.wanted
    builder = BatchBuilder(wanted.partition, options.columns, options.time_zone)
    for batch in Cluster(options.masters).fetches(wanted, fail_on_data_loss=options.fail_on_data_loss):
        yield builder.build(batch.messages, malformed=batch.malformed)
