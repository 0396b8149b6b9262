"""The source's own columns, before anything is decoded, and their Spark schema."""

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
"""The columns of a read unless others are chosen."""
ALL_COLUMNS: Final = (*COLUMNS, "messageId")
"""The columns that can be chosen."""


def spark_schema(columns: Sequence[str] = COLUMNS) -> StructType:
    """Return the Spark schema of the chosen columns, in the order given."""
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
