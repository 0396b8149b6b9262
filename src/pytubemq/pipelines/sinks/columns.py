"""The columns of a batch beside those of its table: the policy for schema changes, the same for every sink.

The invariant: what a sink writes has the table's columns, in the table's order, with types that the table holds; where
the policy does not lead there, nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.model.suggest import suggest
from pytubemq.pipelines.file.model import OnSchemaChange
from pytubemq.pipelines.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

_WIDER: Final = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "bigint": (),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
"""By type, those that hold all its values."""

TOPIC: Final = "topic"
"""The column of a row's topic: a source makes it, and sinks into topics go by it."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a table by which a batch fits it."""

    columns: StructType
    """The table's columns afterwards."""
    added: tuple[StructField, ...] = ()
    widened: tuple[StructField, ...] = ()

    @property
    def is_none(self) -> bool:
        """True if the table stays as it is."""
        return not self.added and not self.widened


def reconcile(rows: StructType, table: StructType, policy: OnSchemaChange, *, sink: str) -> Change:
    """Return what a table must become for rows of a schema, by the policy. Names compare without case, as Spark's do.

    Raises:
        ConfigError: they differ, and the policy does not allow what it would take.
    """
    from pyspark.sql.types import StructType

    have = {field.name.lower(): field for field in table}
    new = tuple(field for field in rows if field.name.lower() not in have)
    missing = [field.name for field in table if field.name.lower() not in {one.name.lower() for one in rows}]
    widened = []
    for field in rows:
        there = have.get(field.name.lower())
        if there is None or holds(there.dataType, field.dataType):
            continue
        if policy is OnSchemaChange.WIDEN and holds(field.dataType, there.dataType):
            widened.append(field)
        elif policy is not OnSchemaChange.IGNORE:
            raise _other_type(sink, field, there, policy)
    if policy is OnSchemaChange.FAIL and (new or missing):
        raise _other_columns(sink, [field.name for field in new], missing)
    added = () if policy is OnSchemaChange.IGNORE else new
    wider = {field.name.lower(): field.dataType for field in widened}
    fields = [type(field)(field.name, wider.get(field.name.lower(), field.dataType), True) for field in table]
    return Change(StructType([*fields, *added]), added, tuple(widened))


def lacking(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Return the names of which there is no column; upper and lower case are the same, as in Spark by default."""
    there = {column.lower() for column in columns}
    return [name for name in names if name.lower() not in there]


def no_column(name: str, columns: Sequence[str], *, holder: str = "no row has") -> tuple[str, str]:
    """Return the words for a column that is not there, and the remedy."""
    suggestion = suggest(name, columns)
    return (
        f"{holder} the column {name}",
        f"did you mean {suggestion}?" if suggestion else f"there are {', '.join(columns)}",
    )


def spelled(names: Iterable[str], columns: Sequence[str]) -> list[str]:
    """Return names as a table spells them: databases distinguish the case of quoted names, Spark does not."""
    there = {column.lower(): column for column in columns}
    return [there.get(name.lower(), name) for name in names]


def fitted(rows: DataFrame, columns: StructType, *, policy: OnSchemaChange) -> DataFrame:
    """Fit the rows to a table's columns: each in its place and of its type, null where the rows lack it.

    By the policy `ignore` a value that does not fit is null, be it for what it is or for its type.
    """
    from pyspark.sql import functions as f

    have = {field.name.lower(): field for field in rows.schema}
    chosen = []
    for field in columns:
        there = have.get(field.name.lower())
        if there is None:
            chosen.append(f.lit(None).cast(field.dataType).alias(field.name))
        elif policy is OnSchemaChange.IGNORE:
            chosen.append(_as_far_as_it_fits(rows, there, field.dataType).alias(field.name))
        else:
            chosen.append(f.col(quoted(there.name)).cast(field.dataType).alias(field.name))
    return rows.select(*chosen)


def holds(wide: DataType, narrow: DataType) -> bool:
    """True if a column of one type takes all values of another."""
    if wide == narrow or _bare(wide) == _bare(narrow) or narrow.simpleString() == "void":
        return True
    return wide.simpleString() in _WIDER.get(narrow.simpleString(), ()) or _decimal_holds(wide, narrow)


def _decimal_holds(wide: DataType, narrow: DataType) -> bool:
    from pyspark.sql.types import DecimalType

    if not isinstance(wide, DecimalType) or not isinstance(narrow, DecimalType):
        return False
    return wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale


def _bare(kind: DataType) -> str:
    """Format a type without the nullability of its parts."""
    return kind.simpleString()


def _as_far_as_it_fits(rows: DataFrame, field: StructField, kind: DataType) -> Column:
    """Cast a column of the rows to another type; null where Spark has no way from its type to that one."""
    from pyspark.sql import functions as f

    spark: Any = rows.sparkSession
    java_type = spark._jsparkSession.parseDataType
    rules = spark._jvm.org.apache.spark.sql.catalyst.expressions.Cast
    if rules.canTryCast(java_type(field.dataType.json()), java_type(kind.json())):
        return f.col(quoted(field.name)).try_cast(kind)
    return f.lit(None).cast(kind)


def _other_type(sink: str, field: StructField, there: StructField, policy: OnSchemaChange) -> ConfigError:
    wider = policy is not OnSchemaChange.WIDEN and holds(field.dataType, there.dataType)
    return ConfigError(
        f"sink {sink}: column {field.name} is {field.dataType.simpleString()}, "
        f"but {there.dataType.simpleString()} in the table",
        hint=f"cast it in a step: CAST({quoted(field.name)} AS {there.dataType.simpleString()})"
        + (", or change the table with on_schema_change: widen" if wider else ""),
    )


def _other_columns(sink: str, new: list[str], missing: list[str]) -> ConfigError:
    parts = []
    if new:
        parts.append(f"the table lacks {', '.join(new)}")
    if missing:
        parts.append(f"the rows lack {', '.join(missing)}")
    return ConfigError(
        f"sink {sink}: {' and '.join(parts)}",
        hint="name the columns in a step, or set on_schema_change to ignore or add-columns",
    )
