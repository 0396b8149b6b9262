"""Pieces of SQL that several sinks write."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql.types import DataType, StructField


def quoted(name: str, mark: str = "`") -> str:
    """Quote one name as SQL takes it, whatever is in it."""
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def column_list(names: Iterable[str], mark: str = "`") -> str:
    """Quote names, separated by commas."""
    return ", ".join(quoted(name, mark) for name in names)


def columns_ddl(fields: Iterable[StructField]) -> str:
    """Format columns with their types, as Spark's CREATE TABLE and ADD COLUMNS take them."""
    return ", ".join(f"{quoted(field.name)} {type_sql(field.dataType)}" for field in fields)


def type_sql(kind: DataType) -> str:
    """Format a type as Spark's SQL takes it: as `simpleString`, but with the names of a struct's fields quoted."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{quoted(field.name)}: {type_sql(field.dataType)}' for field in kind)}>"
    if isinstance(kind, ArrayType):
        return f"array<{type_sql(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{type_sql(kind.keyType)}, {type_sql(kind.valueType)}>"
    return str(kind.simpleString())


def merge(target: str, source: str, keys: Sequence[str], columns: Sequence[str], mark: str = "`") -> str:
    """Build the MERGE of a source's rows into a table: by key the row there is replaced, or one is added."""
    on = " AND ".join(f"t.{quoted(key, mark)} = s.{quoted(key, mark)}" for key in keys)
    taken = {key.lower() for key in keys}
    rest = [name for name in columns if name.lower() not in taken]
    update = ", ".join(f"{quoted(name, mark)} = s.{quoted(name, mark)}" for name in rest)
    matched = f"WHEN MATCHED THEN UPDATE SET {update} " if rest else ""
    names = column_list(columns, mark)
    values = ", ".join(f"s.{quoted(name, mark)}" for name in columns)
    return (
        f"MERGE INTO {target} t USING {source} s ON {on} "
        f"{matched}WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
    )
