"""The kind of the Delta sink: a table that is given rows, or has them replaced by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import Guarantee
from pytubemq.pipelines.file.sink_kind import DeadLetterKind, Promise, SinkKind, Wrong
from pytubemq.pipelines.sinks.shared_keys import KEYS, ON_SCHEMA_CHANGE, PARTITION_BY, PATH, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.file.sink_kind import Intake

PACKAGE: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
_WITH_KEYS: Final = "with keys"
_WITHOUT_KEYS: Final = "without keys"


def _case(sink: Sink, intake: Intake) -> str:
    return _WITH_KEYS if sink.keys else _WITHOUT_KEYS


def _wrong(sink: Sink) -> Iterator[Wrong]:
    if sink.path and sink.table:
        yield Wrong("table", "is given together with path", "keep one", at_key=True, code=FaultCode.CONTRADICTION)


KIND: Final = SinkKind(
    name="delta",
    keys=(PATH, TABLE, PARTITION_BY, KEYS, ON_SCHEMA_CHANGE),
    needs=(("path", "table"),),
    promises={
        _WITHOUT_KEYS: Promise(
            Guarantee.EXACTLY_ONCE,
            "rows and batch id are written in one commit (txnAppId, txnVersion); Delta skips a version that it has",
        ),
        _WITH_KEYS: Promise(
            Guarantee.EXACTLY_ONCE,
            "rows replace those with the same keys in one commit; a repeated batch replaces them with the same rows",
        ),
    },
    case=_case,
    wrong=_wrong,
    set_by_runner=frozenset({"txnappid", "txnversion", "usermetadata"}),
    key_of_option={"path": "path"},
    settings={
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",  # 50 tasks for each look at a table, else
    },
    has_upsert=True,
    dead_letters=DeadLetterKind(keys=(PATH, TABLE), needs=(("path", "table"),)),
    packages=(PACKAGE,),
    template="""
sinks:
  - name: lake
    format: delta
    path: tables/{name}
    partition_by: [day]
    guarantee: exactly_once
    on_schema_change: add-columns          # or fail, ignore, widen

spark:
  packages: [{packages}]
""",
)
