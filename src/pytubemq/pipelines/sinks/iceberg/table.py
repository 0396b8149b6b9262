"""An Iceberg table through Iceberg's own Java library in the driver: its columns, its snapshots, files added to it.

The invariant: files come into the table by one commit, or not at all.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from pytubemq.errors import ConfigError
from pytubemq.pipelines.sinks.columns import spelled
from pytubemq.pipelines.sinks.iceberg.catalog import iceberg_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.sinks.columns import Change

MAPPING: Final = "schema.name-mapping.default"
"""The table's property by which its readers find the columns of files that have names and no field ids, as Spark's."""
DATA: Final = "data/tubemq"
"""Below a table's location: the directory of our files."""
LOOKED_BACK: Final = 1000
"""Snapshots among which a batch is looked for."""


@contextmanager
def iceberg_table(spark: SparkSession, name: str) -> Iterator[IcebergTable]:
    """Open the table `catalog.database.table`, for as long as the block lasts.

    Raises:
        ConfigError: the session does not describe the catalog, or has no Iceberg.
        PipelineError: the catalog cannot be opened.
    """
    catalog_name, _, rest = name.partition(".")
    with iceberg_catalog(spark, catalog_name) as catalog:
        yield IcebergTable(spark, catalog, rest)


class IcebergTable:
    """A table of an open catalog, by its name `database.table`; there or still to be made."""

    def __init__(self, spark: SparkSession, catalog: Any, name: str) -> None:
        self._spark: Any = spark
        self._jvm = cast("Any", spark.sparkContext._jvm)
        self._catalog: Any = catalog
        self._identifier: Any = self._jvm.org.apache.iceberg.catalog.TableIdentifier.parse(name)
        self._table: Any = None
        if self._catalog.tableExists(self._identifier):
            self._table = self._catalog.loadTable(self._identifier)

    @property
    def exists(self) -> bool:
        """True if it has been made."""
        return self._table is not None

    @property
    def columns(self) -> StructType:
        """Its columns, as Spark's."""
        from pyspark.sql.types import StructType

        converted = self._jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(self._table.schema())
        return StructType.fromJson(json.loads(converted.json()))

    @property
    def partition_columns(self) -> list[str]:
        """The columns that its files are parted by.

        Raises:
            ConfigError: it is parted by something else than columns as they are.
        """
        names = []
        for part in self._table.spec().fields():
            if not part.transform().isIdentity():
                raise ConfigError(
                    f"the Iceberg table {self._identifier.toString()} is partitioned by {part.transform().toString()}",
                    hint="the runner adds files to tables that are partitioned by plain columns, or not at all",
                )
            names.append(str(self._table.schema().findColumnName(part.sourceId())))
        return names

    @property
    def data(self) -> str:
        """The directory below which our files lie."""
        return f"{self._table.location()}/{DATA}"

    def trial(self, columns: StructType, partition_by: Sequence[str]) -> str | None:
        """Return where its files would lie if it were made with these columns; nothing is made.

        None where the catalog does not say so as long as the database is not there.

        Raises:
            Py4JJavaError, UnsupportedOperationException: Iceberg has no type for a column, or the catalog refuses it.
        """
        from py4j.java_gateway import is_instance_of
        from py4j.protocol import Py4JJavaError

        schema, spec = self._layout(columns, partition_by)
        try:
            begun = self._catalog.newCreateTableTransaction(self._identifier, schema, spec)
        except Py4JJavaError as error:
            gateway, namespace = self._spark.sparkContext._gateway, self._identifier.namespace()
            of_columns = is_instance_of(gateway, error.java_exception, "java.lang.IllegalStateException")
            if of_columns or namespace.isEmpty() or self._catalog.namespaceExists(namespace):
                raise
            return None
        return f"{begun.table().location()}/{DATA}"

    def create(self, columns: StructType, partition_by: Sequence[str]) -> None:
        """Make it, and its database."""
        schema, spec = self._layout(columns, partition_by)
        namespace = self._identifier.namespace()
        if not namespace.isEmpty() and not self._catalog.namespaceExists(namespace):
            self._catalog.createNamespace(namespace)
        self._table = self._catalog.createTable(self._identifier, schema, spec)
        self._map_names()

    def change(self, change: Change) -> None:
        """Add and widen columns."""
        self._map_names()
        if change.is_none:
            return
        update = self._table.updateSchema()
        convert = self._jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert
        for field in change.added:
            update.addColumn(field.name, convert(self._type(field.dataType)))
        for field in change.widened:
            update.updateColumn(field.name, convert(self._type(field.dataType)))
        update.commit()
        self._table.refresh()

    def rows_of(self, name: str, value: str) -> int | None:
        """Return how many rows the snapshot with this property added; None if there is no such snapshot."""
        snapshot = self._table.currentSnapshot()
        for _ in range(LOOKED_BACK):
            if snapshot is None:
                return None
            if snapshot.summary().get(name) == value:
                return int(snapshot.summary().get("added-records") or 0)
            parent = snapshot.parentId()
            snapshot = None if parent is None else self._table.snapshot(parent)
        return None

    def add_files(self, directory: str, name: str, value: str) -> int:
        """Add the Parquet files below a directory in one snapshot with a property; returns their rows."""
        iceberg = self._jvm.org.apache.iceberg
        mapping = iceberg.mapping.NameMappingParser.fromJson(self._table.properties().get(MAPPING))
        config = iceberg.MetricsConfig.forTable(self._table)
        append = self._table.newAppend()
        rows = 0
        for path in self._files(directory):
            file = self._table.io().newInputFile(path)
            metrics = iceberg.parquet.ParquetUtil.fileMetrics(file, config, mapping)
            if not metrics.recordCount():
                continue
            rows += int(metrics.recordCount())
            built = iceberg.DataFiles.builder(self._table.spec()).withInputFile(file).withFormat("PARQUET")
            if parts := self._parts(path, directory):
                built = built.withPartitionValues(parts)
            append = append.appendFile(built.withMetrics(metrics).build())
        if rows:
            append.set(name, value)
            append.commit()
        return rows

    def _files(self, directory: str) -> list[str]:
        path = self._jvm.org.apache.hadoop.fs.Path(directory)
        files = path.getFileSystem(self._spark._jsparkSession.sessionState().newHadoopConf())
        found = files.listFiles(path, True)
        names = []
        while found.hasNext():
            name = str(found.next().getPath().toString())
            if name.endswith(".parquet"):
                names.append(name)
        return sorted(names)

    def _parts(self, path: str, directory: str) -> Any:
        """Parse the partition columns' values from a file's path, where Spark wrote them, in the table's order."""
        unescape = self._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.unescapePathName
        below = path.rpartition("/")[0].rpartition(directory.rstrip("/").rpartition("/")[2])[2]
        pairs = [part.partition("=") for part in below.split("/") if "=" in part]
        found = {unescape(name): unescape(value) for name, _, value in pairs}
        values = self._jvm.java.util.ArrayList()
        for name in self.partition_columns:
            values.add(found[name])
        return values

    def _layout(self, columns: StructType, partition_by: Sequence[str]) -> tuple[Any, Any]:
        """Return Iceberg's schema and partitioning for these columns."""
        iceberg = self._jvm.org.apache.iceberg
        schema = iceberg.spark.SparkSchemaUtil.convert(self._struct(columns))
        spec = iceberg.PartitionSpec.builderFor(schema)
        for name in spelled(partition_by, columns.names):
            spec = spec.identity(name)
        return schema, spec.build()

    def _map_names(self) -> None:
        """Let readers find columns by name; Iceberg itself keeps that up to date when columns change."""
        if self._table.properties().get(MAPPING) is not None:
            return
        mapping = self._jvm.org.apache.iceberg.mapping
        names = mapping.NameMappingParser.toJson(mapping.MappingUtil.create(self._table.schema()))
        self._table.updateProperties().set(MAPPING, names).commit()

    def _struct(self, columns: StructType) -> Any:
        return self._jvm.org.apache.spark.sql.types.DataType.fromJson(columns.json())

    def _type(self, kind: Any) -> Any:
        return self._jvm.org.apache.spark.sql.types.DataType.fromJson(kind.json())
