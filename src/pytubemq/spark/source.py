"""`format("tubemq")`: the data source that Spark finds, and its batch reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pytubemq.errors import ConfigError, MissingExtraError
from pytubemq.spark.options import Positions, SourceOptions, parse_options
from pytubemq.spark.plan import OffsetRange, ranges, resolve
from pytubemq.spark.schema import spark_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pytubemq.spark.stream import TubeMqStreamReader


class RangePartition(InputPartition):
    """A task: one range of one partition."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class TubeMqDataSource(DataSource):
    """Topics as a table (`spark.read`) or a stream (`spark.readStream`)."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "tubemq"

    def schema(self) -> StructType:
        """The source's columns; also where wrong options are found first."""
        return spark_schema(_checked(self.options).columns)

    def reader(self, schema: StructType) -> TubeMqReader:
        """The batch reader."""
        options = _checked(self.options)
        _check_schema(options, schema)
        if options.max_rows_per_trigger is not None:
            raise ConfigError("maxRowsPerTrigger is an option of readStream", hint="leave it out with spark.read")
        return TubeMqReader(options)

    def streamReader(self, schema: StructType) -> TubeMqStreamReader:
        """The stream reader."""
        from pytubemq.spark.stream import TubeMqStreamReader

        options = _checked(self.options)
        _check_schema(options, schema)
        if options.ending is not None:
            raise ConfigError("endingOffsets is an option of spark.read", hint="leave it out with readStream")
        return TubeMqStreamReader(options)


class TubeMqReader(DataSourceReader):
    """Reads what lies between two positions once."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """One task per partition that has something to read."""
        from pytubemq.spark.cluster import Cluster

        options = self._options
        ends = Cluster(options.masters).ends(options.topics)
        start = resolve(options.starting or Positions("earliest", {}), ends)
        end = resolve(options.ending or Positions("latest", {}), ends)
        wanted = ranges(start, end, ends, fail_on_data_loss=options.fail_on_data_loss)
        return [RangePartition(part) for part in wanted]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor: the rows of one task, one Arrow batch per fetch."""
        return read_range(self._options, partition)


def read_range(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a task. A batch without rows has one task without a range."""
    from pytubemq.spark.arrow import BatchBuilder
    from pytubemq.spark.cluster import Cluster

    if not isinstance(partition, RangePartition):
        return
    wanted = partition.wanted
    builder = BatchBuilder(wanted.partition, options.columns, options.time_zone)
    for messages in Cluster(options.masters).fetches(wanted, fail_on_data_loss=options.fail_on_data_loss):
        yield builder.build(messages)


def _checked(options: Mapping[str, str]) -> SourceOptions:
    try:
        import pyarrow  # noqa: F401  # named here, on the driver, rather than in a task's traceback
    except ImportError as error:
        raise MissingExtraError("spark", 'format("tubemq")') from error
    return parse_options(options)


def _check_schema(options: SourceOptions, schema: StructType) -> None:
    ours = spark_schema(options.columns)
    if [(field.name, field.dataType) for field in schema] != [(field.name, field.dataType) for field in ours]:
        raise ConfigError(
            f'format("tubemq") has its own schema: {ours.simpleString()}',
            hint="leave out .schema(...); to read fewer columns use the option columns",
        )
