"""`format("tubemq")`: the data source that Spark finds; it checks the options and makes the readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pytubemq.errors import ConfigError, MissingExtraError
from pytubemq.spark.source.options import SourceOptions, parse_options
from pytubemq.spark.source.schema import spark_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from pytubemq.spark.source.batch import TubeMqReader
    from pytubemq.spark.source.stream import TubeMqStreamReader


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
        from pytubemq.spark.source.batch import TubeMqReader

        options = _checked(self.options)
        _check_schema(options, schema)
        if options.max_rows_per_trigger is not None:
            raise ConfigError("maxRowsPerTrigger is an option of readStream", hint="leave it out with spark.read")
        return TubeMqReader(options)

    def streamReader(self, schema: StructType) -> TubeMqStreamReader:
        """The stream reader."""
        from pytubemq.spark.source.stream import TubeMqStreamReader

        options = _checked(self.options)
        _check_schema(options, schema)
        if options.ending is not None:
            raise ConfigError("endingOffsets is an option of spark.read", hint="leave it out with readStream")
        return TubeMqStreamReader(options)


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
