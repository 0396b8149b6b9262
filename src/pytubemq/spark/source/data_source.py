"""`format("tubemq")`: the data source that Spark finds; it checks the options and makes the readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pytubemq.errors import ConfigError, MissingExtraError
from pytubemq.spark.error_boundary import entrance
from pytubemq.spark.source.option_table import Scope
from pytubemq.spark.source.options import SourceOptions, parse_options
from pytubemq.spark.source.read_schema import source_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from pytubemq.spark.sink.writer import TubeMqStreamWriter, TubeMqWriter
    from pytubemq.spark.source.batch import TubeMqReader
    from pytubemq.spark.source.stream import TubeMqStreamReader


class TubeMqDataSource(DataSource):
    """Topics as a table (`spark.read`) or a stream (`spark.readStream`)."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "tubemq"

    @entrance
    def schema(self) -> StructType:
        """Return the source's columns; wrong options are found here first."""
        return source_schema(_checked(self.options))

    @entrance
    def reader(self, schema: StructType) -> TubeMqReader:
        """Return the batch reader."""
        from pytubemq.spark.source.batch import TubeMqReader

        options = _checked(self.options, Scope.BATCH)
        _check_schema(options, schema)
        return TubeMqReader(options)

    @entrance
    def streamReader(self, schema: StructType) -> TubeMqStreamReader:
        """Return the stream reader."""
        from pytubemq.spark.source.stream import TubeMqStreamReader

        options = _checked(self.options, Scope.STREAM)
        _check_schema(options, schema)
        return TubeMqStreamReader(options)

    @entrance
    def writer(self, schema: StructType, overwrite: bool) -> TubeMqWriter:
        """Return the batch writer."""
        from pytubemq.spark.sink.writer import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    @entrance
    def streamWriter(self, schema: StructType, overwrite: bool) -> TubeMqStreamWriter:
        """Return the writer of one micro-batch."""
        from pytubemq.spark.sink.writer import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)


def _checked(options: Mapping[str, str], scope: Scope = Scope.BOTH) -> SourceOptions:
    try:
        import pyarrow  # noqa: F401  # named here, on the driver, rather than in a task's traceback
    except ImportError as error:
        raise MissingExtraError("spark", 'format("tubemq")') from error
    return parse_options(options, scope)


def _check_schema(options: SourceOptions, schema: StructType) -> None:
    ours = source_schema(options)
    if [(field.name, field.dataType) for field in schema] != [(field.name, field.dataType) for field in ours]:
        raise ConfigError(
            f'format("tubemq") has its own schema: {ours.simpleString()}',
            hint="leave out .schema(...); to read fewer columns use the option columns",
        )
