"""The columns of `format("tubemq")`, written once: Spark's schema, and by it the Arrow schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

    from pytubemq.spark.source.decoded_columns import DecodedColumns
    from pytubemq.spark.source.options import SourceOptions

COLUMNS: Final = (
    "topic",
    "brokerId",
    "partition",
    "offset",
    "timestamp",
    "msgTime",
    "msgType",
    "attributes",
    "body",
)
"""Those that a read has unless others are chosen."""
ALL_COLUMNS: Final = (*COLUMNS, "messageId")
"""Those that can be chosen."""


def spark_schema(columns: Sequence[str] = COLUMNS) -> StructType:
    """The Spark schema of the chosen columns, in the order given."""
    from pyspark.sql import types

    text = types.StringType()
    of = {
        "topic": types.StructField("topic", text, nullable=False),
        "brokerId": types.StructField("brokerId", types.IntegerType(), nullable=False),
        "partition": types.StructField("partition", types.IntegerType(), nullable=False),
        "offset": types.StructField("offset", types.LongType()),
        "timestamp": types.StructField("timestamp", types.TimestampType()),
        "msgTime": types.StructField("msgTime", types.TimestampType()),
        "msgType": types.StructField("msgType", text),
        "attributes": types.StructField("attributes", types.MapType(text, text)),
        "body": types.StructField("body", types.BinaryType(), nullable=False),
        "messageId": types.StructField("messageId", types.LongType()),
    }
    return types.StructType([of[name] for name in columns])


def decoded_columns(options: SourceOptions) -> DecodedColumns:
    """The decoder that the options ask for.

    Raises:
        ConfigError: an option of it is wrong.
    """
    from pytubemq.spark.source.decoded_columns import DecodedColumns

    found = DecodedColumns.from_options(options.decode)
    assert found is not None
    return found


def raw_columns(options: SourceOptions) -> tuple[str, ...]:
    """The raw columns that are fetched."""
    return tuple(decoded_columns(options).raw_columns) if options.decode else options.columns


def source_schema(options: SourceOptions) -> StructType:
    """The Spark schema of what is read: raw columns, or decoded ones."""
    if options.decode:
        return decoded_columns(options).schema(spark_schema(ALL_COLUMNS))
    return spark_schema(options.columns)
