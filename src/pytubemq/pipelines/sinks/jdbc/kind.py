"""The kind of the JDBC sink: a table of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.key import Key, Kind
from pytubemq.pipelines.file.model import Guarantee
from pytubemq.pipelines.file.sink_kind import DeadLetterKind, Promise, SinkKind, Wrong
from pytubemq.pipelines.sinks.shared_keys import KEYS, ON_SCHEMA_CHANGE, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.file.sink_kind import Intake

REFUSED: Final = {
    "jdbc:oracle:": "Oracle has no BIGINT and ends a transaction when a table is made",
    "jdbc:sqlserver:": "SQL Server has no CREATE TABLE ... AS SELECT",
}
"""Databases that Spark can write to and this sink cannot, and why."""
_URL: Final = Key("url", Kind.TEXT, "")
_WITH_KEYS: Final = "with keys"
_WITHOUT_KEYS: Final = "without keys"
_TRANSACTIONS: Final = "a database whose transactions cover the table (tested: PostgreSQL, Derby)"


def _case(sink: Sink, intake: Intake) -> str:
    return _WITH_KEYS if sink.keys else _WITHOUT_KEYS


def _wrong(sink: Sink) -> Iterator[Wrong]:
    url = sink.url or ""
    if url and "${" not in url and not url.startswith("jdbc:"):
        yield Wrong("url", "does not begin with jdbc:", "write it as jdbc:postgresql://host/db")
    why = next((why for start, why in REFUSED.items() if url.startswith(start)), None)
    if why is not None:
        text = f"names a database that is not supported: {why}, so a batch cannot be moved there in one transaction"
        yield Wrong("url", text, "use another database, or write files and load them into it")


KIND: Final = SinkKind(
    name="jdbc",
    keys=(_URL, TABLE, KEYS, ON_SCHEMA_CHANGE),
    needs=(("url",), ("table",)),
    promises={
        _WITH_KEYS: Promise(
            Guarantee.EXACTLY_ONCE,
            "rows replace those with the same keys, and the batch id is written, in one transaction",
            _TRANSACTIONS,
        ),
        _WITHOUT_KEYS: Promise(
            Guarantee.EXACTLY_ONCE,
            "rows are moved out of a staging table, and the batch id is written, in one transaction",
            _TRANSACTIONS,
        ),
    },
    case=_case,
    wrong=_wrong,
    key_of_option={"url": "url", "dbtable": "table"},
    has_upsert=True,
    dead_letters=DeadLetterKind(keys=(_URL, TABLE), needs=(("url",), ("table",)), chosen_by="url", own_writer=True),
    packages=("org.postgresql:postgresql:42.7.7",),
    template="""
sinks:
  - name: lake
    format: jdbc
    url: jdbc:postgresql://127.0.0.1/{name}
    table: {name}
    keys: [id]                             # a row replaces the one of its keys; left out, rows are added
    guarantee: exactly_once
    options:
      user: "${{env:PGUSER:-postgres}}"
      password: "${{env:PGPASSWORD:-}}"      # secrets by reference: they are in no file and no report

spark:
  packages: [{packages}]
""",
)
