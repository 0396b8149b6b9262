"""Parquet, a directory for each batch: `<path>/batch=<pipeline>-<sink>-<batch id>/part-*.parquet`.

The invariant: a batch's directory has its name only when it is whole. Executors write below `_staging`, the driver
renames; a batch that comes again finds its name taken and is left alone. It rests on the file system's rename of a
directory, which is one step on local disks and HDFS; where it is a copy (object stores), a kill in the middle of it
could leave a part, so paths there are refused, and Delta or Iceberg is the sink to take.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines.analysis.guarantees import promise_of
from pytubemq.pipelines.failpoints import reach
from pytubemq.pipelines.file.model import LOG
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.sinks.columns import fitted, reconcile
from pytubemq.pipelines.sinks.files import HadoopFiles
from pytubemq.pipelines.sinks.parquet.kind import BATCH, hides
from pytubemq.pipelines.sinks.partition_columns import refuse_parts
from pytubemq.pipelines.sinks.rows import write_counted
from pytubemq.pipelines.sinks.sink_writer import batch_label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.sinks.sink_writer import SinkContext, SinkWriter

STAGING: Final = "_staging"
SCHEMA: Final = "_schema.json"
"""The table's columns, as Spark writes a schema in JSON; names that begin with _ are no data to readers."""


def make_writer(spec: Sink) -> SinkWriter:
    """Make the writer of a sink."""
    return ParquetBatches(spec)


class ParquetBatches:
    """The sink `parquet` with layout `batches`."""

    def __init__(self, spec: Sink) -> None:
        self.spec = spec
        self.guarantee = promise_of(spec).guarantee
        self._root = resolve(spec.path or "").rstrip("/")

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """Check that the directory is there or can be made, and that the columns fit those written so far."""
        if schema is not None:
            self._refuse_own(schema.names)
        files = HadoopFiles(spark)
        if why := files.refusal(self._root):
            raise self._unreachable(why)
        table = self._table(files)
        if schema is not None and table is not None:
            reconcile(schema, table, self.spec.on_schema_change, sink=self.spec.name)
        if schema is not None:
            try:
                refuse_parts(self.spec.partition_by, schema)
            except ConfigError as error:
                raise ConfigError(f"sink {self.spec.name}: {error.message}", hint=error.hint) from error

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Stage the files, then give their directory the batch's name."""
        files = HadoopFiles(context.spark)
        self._refuse_own(rows.columns)
        rows, columns = self._fitted(rows, files)
        staged = f"{self._root}/{STAGING}/{self._name(batch_id, context)}-{uuid.uuid4().hex[:8]}"
        self._sweep(files, batch_id, context)

        def stage(counted: DataFrame) -> None:
            writer = counted.write.options(**{k: resolve(v) for k, v in self.spec.options.items()})
            if self.spec.partition_by:
                writer = writer.partitionBy(*self.spec.partition_by)
            writer.parquet(staged)

        count = write_counted(rows, stage)
        if count == 0:
            files.delete(staged)
            return 0
        reach(f"sink-staged:{self.spec.name}", batch_id)
        if columns is not None:  # not before its rows could be made: a step that fails leaves no columns behind
            files.write(f"{self._root}/{SCHEMA}", columns.json())
        if not files.rename(staged, self._target(batch_id, context)) and self.done(batch_id, context) is None:
            raise self._unreachable("a directory could not be renamed there")
        return count

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """Return the rows in the batch's directory, if it is there."""
        target = self._target(batch_id, context)
        if not HadoopFiles(context.spark).exists(target):
            return None
        return context.spark.read.parquet(target).count()

    def _fitted(self, rows: DataFrame, files: HadoopFiles) -> tuple[DataFrame, StructType | None]:
        """Fit the rows to the table's columns, and return those columns if this batch changes them."""
        table = self._table(files)
        if table is None:
            files.make_directory(self._root)
            return rows, rows.schema
        change = reconcile(rows.schema, table, self.spec.on_schema_change, sink=self.spec.name)
        made = fitted(rows, change.columns, policy=self.spec.on_schema_change)
        return made, None if change.is_none else change.columns

    def _refuse_own(self, names: Iterable[str]) -> None:
        own = [name for name in names if name.lower() == BATCH]
        if own and self.spec.layout != LOG:
            why, hint = hides(own[0])
            raise ConfigError(f"sink {self.spec.name}: {why}", hint=hint)

    def _table(self, files: HadoopFiles) -> StructType | None:
        from pyspark.sql.types import StructType

        text = files.read(f"{self._root}/{SCHEMA}")
        return StructType.fromJson(json.loads(text)) if text else None

    def _sweep(self, files: HadoopFiles, batch_id: int, context: SinkContext) -> None:
        """Take away what tries that were killed left of this batch."""
        for name in files.names(f"{self._root}/{STAGING}"):
            if name.startswith(f"{self._name(batch_id, context)}-"):
                files.delete(f"{self._root}/{STAGING}/{name}")

    def _name(self, batch_id: int, context: SinkContext) -> str:
        return f"{batch_label(context.pipeline_id)}-{self.spec.name}-{batch_id:06d}"

    def _target(self, batch_id: int, context: SinkContext) -> str:
        return f"{self._root}/{BATCH}={self._name(batch_id, context)}"

    def _unreachable(self, why: str) -> ConfigError:
        return ConfigError(
            f"sink {self.spec.name}: {self._root} cannot be written: {why}",
            hint="check that the directory can be written, from the driver and from every executor",
        )
