"""Delta: each batch one commit that carries the pipeline's name and the batch id.

The invariant: Delta itself refuses a commit of an application (`txnAppId`) whose number (`txnVersion`) it has seen, so
a batch that comes again adds nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines import sql
from pytubemq.pipelines.analysis.guarantees import promise_of
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.sinks.columns import fitted, reconcile
from pytubemq.pipelines.sinks.delta.kind import PACKAGE
from pytubemq.pipelines.sinks.delta.table import DeltaTable
from pytubemq.pipelines.sinks.partition_columns import refuse_other_parts
from pytubemq.pipelines.sinks.upsert import last_of_each_key
from pytubemq.pipelines.spark_faults import of_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.sinks.sink_writer import SinkContext, SinkWriter

LOOKED_BACK: Final = 1000
"""Commits of the table among which a batch is looked for."""
_CONF: Final = "spark.databricks.delta."


def make_writer(spec: Sink) -> SinkWriter:
    """Make the writer of a sink."""
    return DeltaSink(spec)


class DeltaSink:
    """The sink `delta`: a path, or a table of the session's catalog."""

    def __init__(self, spec: Sink) -> None:
        self.spec = spec
        self.guarantee = promise_of(spec).guarantee

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """Check that the session has Delta, that the place can be written, and that Delta takes the columns.

        A table is made there, or changed, as the first batch would do it, and taken away.
        """
        self._refuse_without_delta(spark)
        table = self._table(spark)
        with self._translated_errors():
            columns = table.columns()
            if why := table.refusal():
                raise ConfigError(
                    f"{table.name} cannot be written: {why}",
                    hint="check that the directory can be written, from the driver and from every executor",
                )
            if columns is not None and self.spec.partition_by:
                refuse_other_parts(self.spec.partition_by, table.parts())
        if schema is None:
            return
        change = None
        if columns is not None:
            change = reconcile(schema, columns, self.spec.on_schema_change, sink=self.spec.name)
        with self._translated_errors():
            if self.spec.keys:
                last_of_each_key(spark.createDataFrame([], schema), self.spec.keys)
            if change is None:
                table.try_make(schema, self.spec.partition_by)
            elif not change.is_none:
                table.try_follow(change)

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Commit the batch's rows at once, or nothing if that has been done."""
        table = self._table(context.spark)
        rows = self._fitted(rows, table)
        if self.spec.keys:
            self._merge(rows, batch_id, context)
        else:
            given = {key: resolve(value) for key, value in self.spec.options.items()}
            own = {"txnAppId": self._application(context), "txnVersion": str(batch_id)}
            table.append(rows, {**given, **own, "userMetadata": self._label(batch_id, context)})
        written = self.done(batch_id, context)
        return rows.count() if written is None else written

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """Return the rows of the commit that carries the batch, if there is one."""
        table = self._table(context.spark)
        if table.columns() is None:
            return None
        history = context.spark.sql(f"DESCRIBE HISTORY {table.name} LIMIT {LOOKED_BACK}")
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
            spark.sql(sql.merge(self._table(spark).name, view, self.spec.keys, rows.columns))
        finally:
            for key in conf:
                spark.conf.unset(key)
            spark.catalog.dropTempView(view)

    def _fitted(self, rows: DataFrame, table: DeltaTable) -> DataFrame:
        columns = table.columns()
        if columns is None:
            table.make(rows.schema, self.spec.partition_by)
            return rows
        change = reconcile(rows.schema, columns, self.spec.on_schema_change, sink=self.spec.name)
        table.follow(change)
        return fitted(rows, change.columns, policy=self.spec.on_schema_change)

    def _table(self, spark: SparkSession) -> DeltaTable:
        path = resolve(self.spec.path) if self.spec.path else None
        return DeltaTable(spark, path=path, name=resolve(self.spec.table or ""))

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise what is refused with the sink's name, and what Spark and Hadoop raise in our terms."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            yield
        except (Py4JJavaError, PySparkException) as error:
            hint = "correct the sink's path or table, its keys or partition_by, or the columns in a step"
            raise of_spark(error, f"sink {self.spec.name}", hint=hint) from error
        except ConfigError as error:
            raise ConfigError(f"sink {self.spec.name}: {error.message}", hint=error.hint) from error

    def _refuse_without_delta(self, spark: SparkSession) -> None:
        from py4j.protocol import Py4JError

        jvm: Any = spark.sparkContext._jvm
        try:
            jvm.org.apache.spark.util.Utils.classForName("io.delta.sql.DeltaSparkSessionExtension", True, False)
        except (Py4JError, TypeError) as error:
            raise ConfigError(
                f"sink {self.spec.name}: the Spark session has no Delta",
                hint=f"add to the pipeline's spark: packages: [{PACKAGE}], or the jars of that version",
            ) from error

    def _application(self, context: SinkContext) -> str:
        return f"{context.pipeline_id}/{self.spec.name}"

    def _label(self, batch_id: int, context: SinkContext) -> str:
        return f"{self._application(context)}/{batch_id}"


def rows_taken(metrics: Mapping[str, str]) -> int:
    """Return the number of the batch's rows that a commit with these metrics took.

    A MERGE counts those of its source; its output has rows, too, that were next to changed ones and only copied.
    """
    return int(metrics.get("numSourceRows") or metrics.get("numOutputRows") or 0)
