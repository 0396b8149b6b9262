"""The page docs/reference/spark-source.md, made from the tables of options and columns."""

from __future__ import annotations

from typing import Final

from pytubemq.spark.source.option_table import OPTIONS, Scope
from pytubemq.spark.source.schema import ALL_COLUMNS

COLUMN_DOCS: Final = {
    "topic": ("string", "the topic"),
    "brokerId": ("int", "the Broker that holds the partition"),
    "partition": ("int", "the partition's id on that Broker"),
    "offset": (
        "bigint",
        "where the message stands in its partition; consecutive messages are 28 apart, the protocol's unit. Null where "
        "a Java Broker does not let it be known",
    ),
    "timestamp": ("timestamp", "when the Broker appended it; null where a Broker does not tell (Java Brokers)"),
    "msgTime": (
        "timestamp",
        "the `$msgTime$` that the producer set: minute resolution, a clock in the zone of the option `timeZone`; null "
        "when there is none",
    ),
    "msgType": ("string", "the `$msgType$`, by which `filters` choose; null when there is none"),
    "attributes": (
        "map<string,string>",
        "the producer's own attributes; null where a message does not contain the attributes that it claims: `msgType` "
        "and `msgTime` are null then, too, and `body` is the whole payload",
    ),
    "body": ("binary", "the message"),
    "messageId": ("bigint", "the Broker's id of the message; only with the option `columns`"),
}
_READS: Final = {Scope.BOTH: "batch, stream", Scope.BATCH: "batch", Scope.STREAM: "stream"}
_HEAD: Final = """\
# The Spark source: every option and column

Written by `scripts/write_spark_pages.py` from the tables that the source itself goes by.
How it is used: [Read a topic with Spark](../how-to/spark.md).

## Options of `format("tubemq")` when reading

Names are case-insensitive. One that does not exist is refused with the nearest one that does; so are options that
contradict each other, and options of streams in a batch.

"""


def page() -> str:
    """The whole page, in Markdown."""
    lines = ["| option | default | for | takes | what it does | since |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [
        f"| `{one.name}` | {one.default} | {_READS[one.scope]} | {_cell(one.takes)} | {_cell(one.doc)} | {one.since} |"
        for one in OPTIONS
    ]
    lines += ["", "## Columns", "", "| column | type | what it is |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {COLUMN_DOCS[name][0]} | {COLUMN_DOCS[name][1]} |" for name in ALL_COLUMNS]
    lines += ["", "With the option `decode` the columns are those of the decoded messages instead."]
    return _HEAD + "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
