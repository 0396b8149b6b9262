"""Delta: each batch one commit that carries the pipeline's name and the batch id.

The invariant: Delta itself refuses a commit of an application (`txnAppId`) whose number (`txnVersion`) it has seen, so
a batch that comes again adds nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.run.faults import said
from pytubemq.spark.pipeline.sinks import sql
from pytubemq.spark.pipeline.sinks.columns import fitted, reconcile
from pytubemq.spark.pipeline.sinks.upsert import last_of_each_key
from pytubemq.spark.pipeline.spec.model import Guarantee
from pytubemq.spark.pipeline.spec.secrets import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.spark.pipeline.sinks.port import SinkContext
    from pytubemq.spark.pipeline.spec.model import Sink

PACKAGE: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
LOOKED_BACK: Final = 1000
"""Commits of the table among which a batch is looked for."""
_CONF: Final = "spark.databricks.delta."


class DeltaSink:
    """The sink `delta`: a path, or a table of the session's catalog."""

    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, spec: Sink) -> None:
        if not (spec.path or spec.table):
            raise ConfigError(f"sink {spec.name}: delta needs a path or a table", hint="add path: or table:")
        self.spec = spec
        self._table = f"delta.{sql.quoted(resolve(spec.path))}" if spec.path else resolve(spec.table or "")

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """See that the session has Delta, and that the columns fit the table's."""
        from py4j.protocol import Py4JError

        jvm: Any = spark.sparkContext._jvm
        try:
            jvm.org.apache.spark.util.Utils.classForName("io.delta.sql.DeltaSparkSessionExtension", True, False)
        except (Py4JError, TypeError) as error:
            raise ConfigError(
                f"sink {self.spec.name}: the Spark session has no Delta",
                hint=f"add to the pipeline's spark: packages: [{PACKAGE}], or the jars of that version",
            ) from error
        table = self._columns(spark)
        if schema is not None and table is not None:
            reconcile(schema, table, self.spec.on_schema_change, sink=self.spec.name)

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """One commit with the batch's rows, or none if it has been made."""
        spark = context.spark
        rows = self._fitted(rows, spark)
        if self.spec.keys:
            self._merge(rows, batch_id, context)
        else:
            writer = rows.write.format("delta").mode("append").option("userMetadata", self._label(batch_id, context))
            writer = writer.option("txnAppId", self._application(context)).option("txnVersion", str(batch_id))
            writer = writer.options(**{key: resolve(value) for key, value in self.spec.options.items()})
            writer.save(self._location(spark))
        written = self.done(batch_id, context)
        return rows.count() if written is None else written

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """The rows of the commit that carries the batch, if there is one."""
        if self._columns(context.spark) is None:
            return None
        history = context.spark.sql(f"DESCRIBE HISTORY {self._table} LIMIT {LOOKED_BACK}")
        label = self._label(batch_id, context)
        for row in history.where(history.userMetadata == label).select("operationMetrics").take(1):
            return rows_taken(row.operationMetrics or {})
        return None

    def _merge(self, rows: DataFrame, batch_id: int, context: SinkContext) -> None:
        conf = {
            f"{_CONF}write.txnAppId": self._application(context),
            f"{_CONF}write.txnVersion": str(batch_id),
            f"{_CONF}commitInfo.userMetadata": self._label(batch_id, context),
        }
        spark = rows.sparkSession
        view = "_tubemq_batch"
        last_of_each_key(rows, self.spec.keys).createOrReplaceTempView(view)
        for key, value in conf.items():
            spark.conf.set(key, value)
        try:
            spark.sql(sql.merge(self._table, view, self.spec.keys, rows.columns))
        finally:
            for key in conf:
                spark.conf.unset(key)
            spark.catalog.dropTempView(view)

    def _fitted(self, rows: DataFrame, spark: SparkSession) -> DataFrame:
        table = self._columns(spark)
        if table is None:
            parts = f" PARTITIONED BY ({sql.column_list(self.spec.partition_by)})" if self.spec.partition_by else ""
            columns = sql.columns_ddl(rows.schema)
            spark.sql(f"CREATE TABLE IF NOT EXISTS {self._table} ({columns}) USING delta{parts}")
            return rows
        change = reconcile(rows.schema, table, self.spec.on_schema_change, sink=self.spec.name)
        if change.added:
            spark.sql(f"ALTER TABLE {self._table} ADD COLUMNS ({sql.columns_ddl(change.added)})")
        if change.widened:
            spark.sql(f"ALTER TABLE {self._table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        for field in change.widened:
            name, kind = sql.quoted(field.name), field.dataType.simpleString()
            spark.sql(f"ALTER TABLE {self._table} ALTER COLUMN {name} TYPE {kind}")
        return fitted(rows, change.columns, policy=self.spec.on_schema_change)

    def _columns(self, spark: SparkSession) -> StructType | None:
        from pyspark.errors import AnalysisException

        try:
            return spark.table(self._table).schema
        except AnalysisException as error:
            condition = error.getCondition() or ""
            if "NOT_FOUND" in condition or "DELTA_MISSING" in condition or "DELTA_TABLE_NOT" in condition:
                return None
            if "PATH_NOT" in condition or "DELTA_PATH_DOES_NOT_EXIST" in condition:
                return None
            raise ConfigError(f"sink {self.spec.name}: {self._table}: {said(error)}") from error

    def _location(self, spark: SparkSession) -> str:
        if self.spec.path:
            return resolve(self.spec.path)
        return str(spark.sql(f"DESCRIBE DETAIL {self._table}").select("location").collect()[0].location)

    def _application(self, context: SinkContext) -> str:
        return f"{context.pipeline_id}/{self.spec.name}"

    def _label(self, batch_id: int, context: SinkContext) -> str:
        return f"{self._application(context)}/{batch_id}"


def rows_taken(metrics: Mapping[str, str]) -> int:
    """The rows of the batch that a commit with these metrics took.

    A MERGE tells those of its source; its output has rows, too, that stood beside changed ones and were only copied.
    """
    return int(metrics.get("numSourceRows") or metrics.get("numOutputRows") or 0)
