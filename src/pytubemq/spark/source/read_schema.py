"""The columns that a read returns by its options, decoded or not, and the ones that it must fetch for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.spark.source.schema import ALL_COLUMNS, spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pytubemq.spark.source.decoded_columns import DecodedColumns
    from pytubemq.spark.source.options import SourceOptions


def decoded_columns(options: SourceOptions) -> DecodedColumns:
    """Return the decoder that the options name; they must name one.

    Raises:
        ConfigError: an option of it is wrong.
    """
    # decoding loads pyarrow and the format's libraries, which a read of plain columns does not need
    from pytubemq.spark.source.decoded_columns import DecodedColumns

    found = DecodedColumns.from_options(options.decode)
    assert found is not None
    return found


def raw_columns(options: SourceOptions) -> tuple[str, ...]:
    """Return the source's columns that are fetched."""
    return tuple(decoded_columns(options).raw_columns) if options.decode else options.columns


def source_schema(options: SourceOptions) -> StructType:
    """Return the Spark schema of the rows: the source's columns, or decoded ones."""
    if options.decode:
        return decoded_columns(options).schema(spark_schema(ALL_COLUMNS))
    return spark_schema(options.columns)
