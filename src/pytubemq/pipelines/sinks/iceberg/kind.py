"""The kind of the Iceberg sink: a table of a catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.model import Guarantee
from pytubemq.pipelines.file.sink_kind import Promise, SinkKind, Wrong
from pytubemq.pipelines.sinks.shared_keys import ON_SCHEMA_CHANGE, PARTITION_BY, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.model import Sink

PACKAGE: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


def _wrong(sink: Sink) -> Iterator[Wrong]:
    table = sink.table or ""
    if table and "${" not in table and not all(table.partition(".")):
        yield Wrong("table", f"{table!r} names no catalog", "write catalog.database.table")


KIND: Final = SinkKind(
    name="iceberg",
    keys=(TABLE, PARTITION_BY, ON_SCHEMA_CHANGE),
    needs=(("table",),),
    promises={
        "": Promise(
            Guarantee.EXACTLY_ONCE,
            "the snapshot that adds the rows has the batch id; a replay looks for it before it adds another",
        ),
    },
    wrong=_wrong,
    set_by_runner=frozenset({"path"}),
    packages=(PACKAGE,),
    template="""
sinks:
  - name: lake
    format: iceberg
    table: local.db.{name}
    partition_by: [day]
    guarantee: exactly_once

spark:
  packages: [{packages}]
  conf:
    # spark.sql.catalog.local itself stays unset: Iceberg has no catalog that Spark 4.2 can load
    spark.sql.catalog.local.type: hadoop
    spark.sql.catalog.local.warehouse: tables  # a directory, or hdfs://...
""",
)
