"""The tables of docs/reference/spark-sink.md, from those of options and columns that the sink itself uses."""

from __future__ import annotations

from typing import Final

from pytubemq.spark.sink.columns import TAKES
from pytubemq.spark.sink.identity import BATCH, KEY, PART, QUERY, SEQUENCE
from pytubemq.spark.sink.option_table import OPTIONS
from scripts.docs.markdown import table

COLUMN_DOCS: Final = {
    "body": "the message, at least one byte; needed",
    "topic": "where the row goes; needed unless the option `topic` names one for all",
    "msgType": "the message's type, by which consumers filter; null: none",
    "msgTime": "the message's time, by the minute; text is `yyyyMMddHHmm`; null: none",
    "attributes": "the message's own attributes; without `,`, keys not empty and without `=`, no null values",
    "key": "rows with the same key go to the same partition, in their order within a Spark partition; null: anywhere",
    "partition": "the partition: its id, or as text `brokerId:topic:partitionId`; goes before `key`; null: anywhere",
    "idempotencyKey": "with `idempotent=true`: what identifies the rows of a batch; not null",
}
ATTRIBUTE_DOCS: Final = {
    QUERY: "the query: a hash of its id (or of `queryId`), 16 hexadecimal digits",
    BATCH: "the batch's number (or `batchId`)",
    PART: "by number: the Spark partition",
    SEQUENCE: "by number: the row's number in its Spark partition, from 0",
    KEY: "by key: a hash of the key, 32 hexadecimal digits",
}


def tables() -> dict[str, str]:
    """Return the options, the columns and the attributes."""
    options = [
        (f"`{one.name}`", one.default, "batch, stream" if one.where == "both" else one.where, one.takes, one.doc)
        for one in OPTIONS
    ]
    columns = [(f"`{name}`", " or ".join(kinds), COLUMN_DOCS[name]) for name, kinds in TAKES.items()]
    attributes = [(f"`{name}`", doc) for name, doc in ATTRIBUTE_DOCS.items()]
    return {
        "options": table(("option", "default", "for", "takes", "what it does"), options),
        "columns": table(("column", "type", "what it is"), columns),
        "attributes": table(("attribute", "what it is"), attributes),
    }
