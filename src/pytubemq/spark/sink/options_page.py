"""The page docs/reference/spark-sink.md, made from the tables of options, columns and attributes."""

from __future__ import annotations

from typing import Final

from pytubemq.spark.sink.columns import TAKES
from pytubemq.spark.sink.identity import BATCH, KEY, PART, QUERY, SEQUENCE
from pytubemq.spark.sink.option_table import OPTIONS

COLUMN_DOCS: Final = {
    "body": "the message, at least one byte; needed",
    "topic": "where the row goes; needed unless the option `topic` names one for all",
    "msgType": "the message's type, by which consumers filter; null: none",
    "msgTime": "the message's time, by the minute; text is `yyyyMMddHHmm`; null: none",
    "attributes": "the message's own attributes; without `,`, keys not empty and without `=`, no null values",
    "key": "rows with the same key go to the same partition, in their order within a Spark partition; null: anywhere",
    "partition": "the partition: its id, or as text `brokerId:topic:partitionId`; goes before `key`; null: anywhere",
    "idempotencyKey": "with `idempotent=true`: what tells the rows of a batch apart; not null",
}
ATTRIBUTE_DOCS: Final = {
    QUERY: "the query: a hash of its id (or of `queryId`), 16 hexadecimal digits",
    BATCH: "the batch's number (or `batchId`)",
    PART: "by number: the Spark partition",
    SEQUENCE: "by number: the row's number in its Spark partition, from 0",
    KEY: "by key: a hash of the key, 32 hexadecimal digits",
}
_HEAD: Final = """\
# The Spark sink: every option, column and attribute

Written by `scripts/write_spark_pages.py` from the tables that the sink itself goes by.
How it is used: [Write a topic with Spark](../how-to/spark-sink.md).

## Options of `format("tubemq")` when writing

Names are case-insensitive. One that does not exist is refused with the nearest one that does; so are options that
contradict each other.

"""


def page() -> str:
    """The whole page, in Markdown."""
    lines = ["| option | default | for | takes | what it does |", "| --- | --- | --- | --- | --- |"]
    for one in OPTIONS:
        where = "batch, stream" if one.where == "both" else one.where
        lines.append(f"| `{one.name}` | {one.default} | {where} | {one.takes} | {one.doc} |")
    lines += ["", "## Columns", "", "A column that is not one of these is refused.", ""]
    lines += ["| column | type | what it is |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {' or '.join(kinds)} | {COLUMN_DOCS[name]} |" for name, kinds in TAKES.items()]
    lines += ["", "## Attributes of messages that are written with `idempotent=true`", ""]
    lines += ["| attribute | what it is |", "| --- | --- |"]
    lines += [f"| `{name}` | {doc} |" for name, doc in ATTRIBUTE_DOCS.items()]
    return _HEAD + "\n".join(lines) + "\n"
