"""The batch reader: two positions on the driver, ranges on the executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pytubemq.spark.source.cluster import Cluster
from pytubemq.spark.source.options import Positions, SourceOptions
from pytubemq.spark.source.plan import ranges, resolve
from pytubemq.spark.source.task import RangePartition, read_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


class TubeMqReader(DataSourceReader):
    """Reads what lies between two positions once."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """One task per partition that has something to read."""
        options = self._options
        ends = Cluster(options.masters).ends(options.topics)
        start = resolve(options.starting or Positions("earliest", {}), ends)
        end = resolve(options.ending or Positions("latest", {}), ends)
        wanted = ranges(start, end, ends, fail_on_data_loss=options.fail_on_data_loss)
        return [RangePartition(part) for part in wanted]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor: the rows of one task, one Arrow batch per fetch."""
        return read_range(self._options, partition)
