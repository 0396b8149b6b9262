"""A Delta table: what makes it, what changes it, and what Delta would refuse of either, found out before a batch.

The invariant: what is tried is what a batch does, by the same statements, on a table without rows that is taken away.
"""

from __future__ import annotations

import re
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pytubemq.pipelines import sql
from pytubemq.pipelines.sinks.files import HadoopFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.sinks.columns import Change

_PROBE: Final = "_tubemq_probe_"
"""The beginning of the name of a table on which something is tried; Delta skips such a directory in a table's."""
_NOT_THERE: Final = ("NOT_FOUND", "DELTA_MISSING", "DELTA_TABLE_NOT", "DELTA_PATH_DOES_NOT_EXIST")
_LAST_PART: Final = re.compile(r"(?:`(?:[^`]|``)*`|[^.`]+)$")
_MAPPING: Final = "delta.columnMapping.mode"
"""A property of tables whose columns may have any name."""
_FEATURES: Final = ("timestampNtz", "variantType")
"""Those of a table that decide which types it can get."""


class DeltaTable:
    """One by its path, or by its name in the session's catalog; it need not be there. Errors are Spark's own."""

    def __init__(self, spark: SparkSession, *, path: str | None, name: str | None) -> None:
        self._spark = spark
        self._path = path
        self.name = f"delta.{sql.quoted(path)}" if path else name or ""
        """The name as SQL takes it."""

    def columns(self) -> StructType | None:
        """Return its columns; None if there is no such table."""
        from pyspark.errors import AnalysisException

        try:
            return self._spark.table(self.name).schema
        except AnalysisException as error:
            if any(word in (error.getCondition() or "") for word in _NOT_THERE):
                return None
            raise

    def location(self) -> str:
        """Return its directory."""
        return self._path or str(self._detail().location)

    def parts(self) -> Sequence[str]:
        """Return the columns by which its files are divided."""
        return tuple(self._detail().partitionColumns)

    def make(self, columns: StructType, parts: Sequence[str] = (), properties: Mapping[str, str] | None = None) -> None:
        """Make it, without rows, if it is not there."""
        parted = f" PARTITIONED BY ({sql.column_list(parts)})" if parts else ""
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in (properties or {}).items())
        with_properties = f" TBLPROPERTIES ({listed})" if listed else ""
        ddl = sql.columns_ddl(columns)
        self._spark.sql(f"CREATE TABLE IF NOT EXISTS {self.name} ({ddl}) USING delta{parted}{with_properties}")

    def follow(self, change: Change) -> None:
        """Give it the columns and types of a change."""
        if change.added:
            self._spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({sql.columns_ddl(change.added)})")
        if change.widened:
            self._spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        for field in change.widened:
            column, kind = sql.quoted(field.name), field.dataType.simpleString()
            self._spark.sql(f"ALTER TABLE {self.name} ALTER COLUMN {column} TYPE {kind}")

    def append(self, rows: DataFrame, options: Mapping[str, str] | None = None) -> None:
        """Add rows that have its columns, in one commit."""
        rows.write.format("delta").mode("append").options(**options or {}).save(self.location())

    def refusal(self) -> str | None:
        """Return why its files cannot be written; None if they can, or if the catalog decides where they will be."""
        if self._path is None and self.columns() is None:
            return None
        return HadoopFiles(self._spark).refusal(self.location())

    def try_make(self, columns: StructType, parts: Sequence[str]) -> None:
        """Make another one, in its place as far as that is there, add no rows to it, and take it away."""
        with self._beside() as other:
            other.make(columns, parts)
            other.append(self._spark.createDataFrame([], columns))

    def try_follow(self, change: Change) -> None:
        """Make the change to another one like it, add no rows to that, and take it away."""
        columns, detail = self.columns(), self._detail()
        assert columns is not None, "a table that is not there does not change"
        properties = {f"delta.feature.{name}": "supported" for name in _FEATURES if name in detail.tableFeatures}
        if mode := detail.properties.get(_MAPPING):
            properties[_MAPPING] = mode
        with self._beside() as other:
            other.make(columns, detail.partitionColumns, properties)
            other.follow(change)
            other.append(self._spark.createDataFrame([], change.columns))

    @contextmanager
    def _beside(self) -> Iterator[DeltaTable]:
        """Provide another table, near it, and drop it at the end."""
        unique = f"{_PROBE}{uuid.uuid4().hex}"
        if self._path is None:
            other = DeltaTable(self._spark, path=None, name=_LAST_PART.sub(sql.quoted(unique), self.name))
            try:
                yield other
            finally:
                self._spark.sql(f"DROP TABLE IF EXISTS {other.name}")
            return
        files = HadoopFiles(self._spark)
        path = f"{files.nearest(self._path)}/{unique}"
        try:
            yield DeltaTable(self._spark, path=path, name=None)
        finally:
            files.delete(path)

    def _detail(self) -> Any:
        """Return Delta's details of it: location, partitionColumns, properties, tableFeatures."""
        return self._spark.sql(f"DESCRIBE DETAIL {self.name}").collect()[0]
