"""Iceberg: each batch one snapshot that carries the pipeline's name and the batch id.

The invariant: executors write files that nobody looks at; the driver adds them to the table in one commit, after it has
asked the table's snapshots for the batch; so a batch that comes again is found, or was never there.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError, TubeError
from pytubemq.pipelines.analysis.guarantees import promise_of
from pytubemq.pipelines.failpoints import reach
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.sinks.columns import fitted, reconcile
from pytubemq.pipelines.sinks.files import HadoopFiles
from pytubemq.pipelines.sinks.iceberg.table import iceberg_table
from pytubemq.pipelines.sinks.partition_columns import OF_ICEBERG, refuse_other_parts, refuse_parts
from pytubemq.pipelines.sinks.sink_writer import batch_label
from pytubemq.pipelines.spark_faults import PipelineError, of_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.sinks.iceberg.table import IcebergTable
    from pytubemq.pipelines.sinks.sink_writer import SinkContext, SinkWriter

PROPERTY: Final = "tubemq-batch"
"""In a snapshot's summary: pipeline, sink and batch id."""
_TIMES: Final = "spark.sql.parquet.outputTimestampType"


def make_writer(spec: Sink) -> SinkWriter:
    """Make the writer of a sink."""
    return IcebergSink(spec)


class IcebergSink:
    """The sink `iceberg`: a table of a catalog that the session's settings describe."""

    def __init__(self, spec: Sink) -> None:
        if spec.keys:
            raise ConfigError(
                f"sink {spec.name}: the runner adds rows to Iceberg tables, it cannot replace them by keys",
                hint="leave keys out, or use delta or jdbc",
            )
        self.spec = spec
        self.guarantee = promise_of(spec).guarantee
        self._name = resolve(spec.table or "")

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """Check that the catalog can be opened, that Iceberg takes the columns, and that files can be put there."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            with iceberg_table(spark, self._name) as table:
                columns = table.columns if table.exists else None
                self._check_table(table, columns or schema, HadoopFiles(spark))
        except (Py4JJavaError, PySparkException) as error:
            hint = (
                "check that the catalog's settings are right, that it can be reached, and that Iceberg has a type for "
                "each column: cast it in a step, or leave it out"
            )
            raise of_spark(error, f"sink {self.spec.name}: {self._name}", hint=hint) from error
        except TubeError as error:
            raise ConfigError(f"sink {self.spec.name}: {error.message}", hint=error.hint) from error
        if schema is not None and columns is not None:
            reconcile(schema, columns, self.spec.on_schema_change, sink=self.spec.name)

    def _check_table(self, table: IcebergTable, columns: StructType | None, files: HadoopFiles) -> None:
        """Check that a table of these columns can be made, or is divided as asked, and that files can be put there."""
        if columns is None:
            return
        place: str | None
        if table.exists:
            refuse_other_parts(self.spec.partition_by, table.partition_columns)
            refuse_parts(table.partition_columns, columns, only=OF_ICEBERG)
            place = table.data
        else:
            refuse_parts(self.spec.partition_by, columns, only=OF_ICEBERG)
            place = table.trial(columns, self.spec.partition_by)
        if place is not None and (why := files.refusal(place)):
            raise ConfigError(
                f"{place} cannot be written: {why}",
                hint="Spark writes the files there: check that the directory can be written, and that the session has "
                "Hadoop's file system for it (spark.hadoop.fs.SCHEME.impl, and its package)",
            )

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Write files, then add them in one snapshot that carries the batch."""
        with iceberg_table(rows.sparkSession, self._name) as table:
            rows = self._fitted(rows, table)
            before = table.rows_of(PROPERTY, self._label(batch_id, context))
            return self._added(rows, table, batch_id, context) if before is None else before

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """Return the rows of the snapshot that carries the batch, if there is one."""
        with iceberg_table(context.spark, self._name) as table:
            return table.rows_of(PROPERTY, self._label(batch_id, context)) if table.exists else None

    def _added(self, rows: DataFrame, table: IcebergTable, batch_id: int, context: SinkContext) -> int:
        from py4j.protocol import Py4JJavaError

        files = HadoopFiles(rows.sparkSession)
        directory = self._directory(files, table, batch_id, context)
        self._write_files(rows, directory, table)
        reach(f"sink-staged:{self.spec.name}", batch_id)
        try:
            added = table.add_files(directory, PROPERTY, self._label(batch_id, context))
        except Py4JJavaError as error:
            raise PipelineError(
                f"sink {self.spec.name}: Iceberg refused the commit: {error.java_exception.getMessage()}"
            ) from error
        if not added:
            files.delete(directory)
        return added

    def _directory(self, files: HadoopFiles, table: IcebergTable, batch_id: int, context: SinkContext) -> str:
        """Name a new directory for the batch's files, and delete those of tries that were not committed."""
        name = f"{batch_label(context.pipeline_id)}-{self.spec.name}-{batch_id:06d}-"
        for old in files.names(table.data):
            if old.startswith(name):
                files.delete(f"{table.data}/{old}")
        return f"{table.data}/{name}{uuid.uuid4().hex[:8]}"

    def _write_files(self, rows: DataFrame, directory: str, table: IcebergTable) -> None:
        spark = rows.sparkSession
        parts = table.partition_columns
        times = spark.conf.get(_TIMES)
        spark.conf.set(_TIMES, "TIMESTAMP_MICROS")
        try:
            writer = rows.write.options(**{key: resolve(value) for key, value in self.spec.options.items()})
            (writer.partitionBy(*parts) if parts else writer).parquet(directory)
        finally:
            spark.conf.set(_TIMES, str(times))

    def _fitted(self, rows: DataFrame, table: IcebergTable) -> DataFrame:
        if not table.exists:
            table.create(rows.schema, self.spec.partition_by)
            return rows
        change = reconcile(rows.schema, table.columns, self.spec.on_schema_change, sink=self.spec.name)
        table.change(change)
        return fitted(rows, change.columns, policy=self.spec.on_schema_change)

    def _label(self, batch_id: int, context: SinkContext) -> str:
        return f"{context.pipeline_id}/{self.spec.name}/{batch_id}"
