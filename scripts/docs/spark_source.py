"""The tables of docs/reference/spark-source.md, from those of options and columns that the source itself uses."""

from __future__ import annotations

from typing import Final

from pytubemq.spark.source.option_table import OPTIONS, Scope
from pytubemq.spark.source.schema import ALL_COLUMNS
from scripts.docs.markdown import cell, table

COLUMN_DOCS: Final = {
    "topic": ("string", "the topic"),
    "brokerId": ("int", "the Broker that holds the partition"),
    "partition": ("int", "the partition's id on that Broker"),
    "offset": (
        "bigint",
        "the message's offset in its partition; consecutive messages are 28 apart, the protocol's unit. Null where "
        "a Java Broker does not report it",
    ),
    "timestamp": ("timestamp", "when the Broker appended it; null where a Broker does not report it (Java Brokers)"),
    "msgTime": (
        "timestamp",
        "the `$msgTime$` that the producer set: minute resolution, a clock in the zone of the option `timeZone`; null "
        "when there is none",
    ),
    "msgType": ("string", "the `$msgType$`, by which `filters` choose; null when there is none"),
    "attributes": (
        "map<string,string>",
        "the producer's own attributes; null in a malformed message, which does not contain the attributes that it "
        "claims: its `msgType` and `msgTime` are null, too, and its `body` is the whole payload",
    ),
    "body": ("binary", "the message"),
    "messageId": ("bigint", "the Broker's id of the message; only with the option `columns`"),
}
_READS: Final = {Scope.BOTH: "batch, stream", Scope.BATCH: "batch", Scope.STREAM: "stream"}


def tables() -> dict[str, str]:
    """Return the options and the columns."""
    options = [
        (f"`{one.name}`", one.default, _READS[one.scope], cell(one.takes), cell(one.doc), one.since) for one in OPTIONS
    ]
    columns = [(f"`{name}`", *COLUMN_DOCS[name]) for name in ALL_COLUMNS]
    return {
        "options": table(("option", "default", "for", "takes", "what it does", "since"), options),
        "columns": table(("column", "type", "what it is"), columns),
    }
