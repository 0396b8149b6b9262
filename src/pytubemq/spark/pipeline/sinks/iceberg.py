"""Iceberg: each batch one snapshot that carries the pipeline's name and the batch id.

The invariant: before a batch is appended the snapshots are asked for it; a snapshot is made whole or not at all,
so a batch that comes again is found or was never there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.run.faults import said
from pytubemq.spark.pipeline.sinks import sql
from pytubemq.spark.pipeline.sinks.columns import fitted, reconcile
from pytubemq.spark.pipeline.sinks.upsert import last_of_each_key
from pytubemq.spark.pipeline.spec.model import Guarantee
from pytubemq.spark.pipeline.spec.secrets import resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.spark.pipeline.sinks.port import SinkContext
    from pytubemq.spark.pipeline.spec.model import Sink

PACKAGE: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
PROPERTY: Final = "tubemq-batch"
"""In a snapshot's summary: pipeline, sink and batch id."""


class IcebergSink:
    """The sink `iceberg`: a table of a catalog that the session knows."""

    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, spec: Sink) -> None:
        if not spec.table:
            raise ConfigError(
                f"sink {spec.name}: iceberg needs a table",
                hint="add table: catalog.database.table, and the catalog's conf",
            )
        self.spec = spec
        self._table = resolve(spec.table)

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """See that the session has Iceberg and the table's catalog, and that the columns fit the table's."""
        catalog = self._table.partition(".")[0]
        kind = spark.conf.get(f"spark.sql.catalog.{catalog}", None)
        if kind is None or "iceberg" not in kind:
            raise ConfigError(
                f"sink {self.spec.name}: the Spark session has no Iceberg catalog {catalog}",
                hint=f"set in the pipeline's spark: packages: [{PACKAGE}] and conf: spark.sql.catalog.{catalog} = "
                "org.apache.iceberg.spark.SparkCatalog, with its type and warehouse",
            )
        table = self._columns(spark)
        if schema is not None and table is not None:
            reconcile(schema, table, self.spec.on_schema_change, sink=self.spec.name)

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """One snapshot with the batch's rows; with keys one MERGE, which is the same however often it is done."""
        spark = rows.sparkSession
        rows = self._fitted(rows, spark)
        if self.spec.keys:
            return self._merge(rows, spark)
        writer = rows.writeTo(self._table).option(f"snapshot-property.{PROPERTY}", self._label(batch_id, context))
        for key, value in self.spec.options.items():
            writer = writer.option(key, resolve(value))
        writer.append()
        written = self.done(batch_id, context)
        return rows.count() if written is None else written

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """The rows of the snapshot that carries the batch, if there is one."""
        if self.spec.keys or self._columns(context.spark) is None:
            return None
        label = sql.text(self._label(batch_id, context))
        found = context.spark.sql(
            f"SELECT summary['added-records'] AS added FROM {self._table}.snapshots "
            f"WHERE summary[{sql.text(PROPERTY)}] = {label}"
        ).collect()
        return int(found[0].added or 0) if found else None

    def _merge(self, rows: DataFrame, spark: SparkSession) -> int:
        view = "_tubemq_batch"
        latest = last_of_each_key(rows, self.spec.keys).persist()
        latest.createOrReplaceTempView(view)
        try:
            spark.sql(sql.merge(self._table, view, self.spec.keys, rows.columns))
            return latest.count()
        finally:
            latest.unpersist()
            spark.catalog.dropTempView(view)

    def _fitted(self, rows: DataFrame, spark: SparkSession) -> DataFrame:
        table = self._columns(spark)
        if table is None:
            parts = f" PARTITIONED BY ({sql.column_list(self.spec.partition_by)})" if self.spec.partition_by else ""
            columns = sql.columns_ddl(rows.schema)
            spark.sql(f"CREATE TABLE IF NOT EXISTS {self._table} ({columns}) USING iceberg{parts}")
            return rows
        change = reconcile(rows.schema, table, self.spec.on_schema_change, sink=self.spec.name)
        if change.added:
            spark.sql(f"ALTER TABLE {self._table} ADD COLUMNS ({sql.columns_ddl(change.added)})")
        for field in change.widened:
            name, kind = sql.quoted(field.name), field.dataType.simpleString()
            spark.sql(f"ALTER TABLE {self._table} ALTER COLUMN {name} TYPE {kind}")
        return fitted(rows, change.columns, policy=self.spec.on_schema_change)

    def _columns(self, spark: SparkSession) -> StructType | None:
        from pyspark.errors import AnalysisException, PySparkException

        try:
            return spark.table(self._table).schema
        except AnalysisException as error:
            if "NOT_FOUND" in (error.getCondition() or ""):
                return None
            raise ConfigError(f"sink {self.spec.name}: {self._table}: {said(error)}") from error
        except PySparkException as error:
            raise ConfigError(f"sink {self.spec.name}: {self._table}: {said(error)}") from error

    def _label(self, batch_id: int, context: SinkContext) -> str:
        return f"{context.pipeline_id}/{self.spec.name}/{batch_id}"
