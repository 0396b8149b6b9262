"""What the tests of sinks do in the session that has all jars: each function takes a session and plain values."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.java_gateway import ensure_callback_server_started

from pytubemq.errors import TubeError
from pytubemq.pipelines import read
from pytubemq.pipelines.file.model import OnSchemaChange, Sink
from pytubemq.pipelines.run.engine import run_pipeline
from pytubemq.pipelines.sinks.iceberg.table import iceberg_table
from pytubemq.pipelines.sinks.jdbc.database import Database
from pytubemq.pipelines.sinks.sink_factory import make_sink
from pytubemq.pipelines.sinks.sink_writer import SinkContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


def sink_of(values: dict[str, Any]) -> Sink:
    """A sink from plain values."""
    given: dict[str, Any] = {}
    for name, value in values.items():
        given[name] = tuple(value) if isinstance(value, list) else value
    given["on_schema_change"] = OnSchemaChange(given.get("on_schema_change", "fail"))
    return replace(Sink("out", given.pop("format")), **given)


def frame(spark: SparkSession, rows: list[list[Any]], schema: str, select: Sequence[str] = ("*",)) -> DataFrame:
    """Rows in two partitions, as a batch has them."""
    return spark.createDataFrame([tuple(row) for row in rows], schema).repartition(2).selectExpr(*select)


def write(
    spark: SparkSession,
    sink: dict[str, Any],
    batches: list[dict[str, Any]],
    pipeline_id: str = "p-00000000-aaaa-bbbb-cccc-0123456789ab",
    select: str | None = None,
) -> dict[str, Any]:
    """Check a sink, give it batches, and ask for each whether it is done; then read with `select`, if given.

    A batch is `{"id": 0, "rows": [...], "schema": "...", "asked": true, "select": [...]}`; what is refused is text.
    """
    writer = make_sink(sink_of(sink))
    context = SinkContext(spark, pipeline_id)
    told: list[Any] = []
    try:
        first = frame(spark, [], batches[0]["schema"], batches[0].get("select", ("*",))) if batches else None
        writer.check(spark, None if first is None else first.schema)
    except TubeError as error:
        return {"refused": str(error)}
    for batch in batches:
        rows = frame(spark, batch["rows"], batch["schema"], batch.get("select", ("*",)))
        before = writer.done(batch["id"], context) if batch.get("asked") else None
        try:
            written = writer.write(rows, batch["id"], context)
        except TubeError as error:
            written = -1
            told.append(str(error))
        told.append({"before": before, "written": written, "after": writer.done(batch["id"], context)})
    return {"told": told, "rows": query(spark, select) if select else None}


def run_sql(
    spark: SparkSession, url: str, options: dict[str, str], statements: list[str], query_timeout_s: int = 60
) -> str | None:
    """Carry statements out through the driver's connection, as the sink does; what is refused is told as text."""
    try:
        with Database(spark.sparkContext._jvm, url, options, query_timeout_s=query_timeout_s).connected() as connection:
            for statement in statements:
                connection.run(statement)
            connection.commit()
    except TubeError as error:
        return str(error)
    return None


def iceberg(spark: SparkSession, table: str) -> list[list[str]]:
    """The rows of an Iceberg table, read by Iceberg itself, each value as text, sorted."""
    jvm: Any = spark.sparkContext._jvm
    with iceberg_table(spark, table) as opened:
        found = jvm.org.apache.iceberg.data.IcebergGenerics.read(opened._table).build()
        width = len(opened.columns)
        rows = [[str(row.get(at)) for at in range(width)] for row in found.iterator()]
        found.close()
    return sorted(rows)


def describe(spark: SparkSession, settings: dict[str, str]) -> None:
    """Settings of the session, as those of a catalog."""
    for name, value in settings.items():
        spark.conf.set(name, value)


def query(spark: SparkSession, select: str) -> list[list[Any]]:
    """The rows of a query, sorted."""
    return sorted([list(row) for row in spark.sql(select).collect()], key=str)


def jdbc(spark: SparkSession, url: str, table: str, options: dict[str, str]) -> list[list[Any]]:
    """The rows of a table of a database, sorted."""
    return sorted([list(row) for row in spark.read.jdbc(url, table, properties=options).collect()], key=str)


def kafka(spark: SparkSession, servers: str, topic: str) -> list[list[Any]]:
    """Keys and values of a Kafka topic, sorted."""
    read = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    rows = read.load().selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").collect()
    return sorted([list(row) for row in rows], key=str)


def run_pipelines(spark: SparkSession, files: list[str], stand: list[str] | None = None) -> list[dict[str, int]]:
    """Run pipelines until each has taken what there is; the rows that each gave its sinks.

    One after the other, so that none is slowed down by what another one does. With `stand` the next one begins when a
    file of that name is there, made by a pipeline that is held.
    """
    # else each thread may start one; it has no types
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    threads = ThreadPoolExecutor(len(files))
    running = []
    for number, file in enumerate(files):
        one = threads.submit(run_pipeline, read(file), spark=spark.newSession(), once=True)
        running.append(one)
        while not one.done() and not (stand and Path(stand[number]).exists()):
            wait([one], timeout=0.02)
        if one.done():
            one.result()
    return [dict(one.result().totals.rows_out) for one in running]
