"""The columns of `format("tubemq")`, written once: Spark's schema, and by it the Arrow schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

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
    }
    return types.StructType([of[name] for name in columns])
