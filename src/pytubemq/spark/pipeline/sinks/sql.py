"""Pieces of SQL that several sinks write."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql.types import StructField


def quoted(name: str, mark: str = "`") -> str:
    """One name as SQL takes it, whatever is in it."""
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def text(value: str) -> str:
    """A text as Spark's SQL takes it."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def column_list(names: Iterable[str], mark: str = "`") -> str:
    """Names, separated by commas."""
    return ", ".join(quoted(name, mark) for name in names)


def columns_ddl(fields: Iterable[StructField]) -> str:
    """Columns with their types, as Spark's CREATE TABLE and ADD COLUMNS take them."""
    return ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in fields)


def merge(target: str, source: str, keys: Sequence[str], columns: Sequence[str], mark: str = "`") -> str:
    """MERGE of a source's rows into a table: by key the row there is replaced, or one is added."""
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
