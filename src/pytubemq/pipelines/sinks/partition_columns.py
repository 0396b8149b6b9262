"""The columns by which a table's files are divided into directories: `partition_by`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

NESTED: Final = ("struct", "array", "map", "variant", "void")
"""Spark's types that name no directory."""
OF_ICEBERG: Final = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date", "decimal",
)  # fmt: skip
"""Spark's types whose values Iceberg reads out of the directories that Spark names by them."""


def refuse_parts(names: Sequence[str], columns: StructType, *, only: Sequence[str] | None = None) -> None:
    """Check that files can be divided by columns; upper and lower case are the same.

    Args:
        names: of the columns that divide, which the rows have.
        columns: of the rows.
        only: the types that the table's format takes; None: all that are not nested.

    Raises:
        ConfigError: no other column is left, or the values of one cannot be read from the name of a directory.
    """
    kinds = {field.name.lower(): field.dataType.simpleString() for field in columns}
    for name in names:
        kind = kinds.get(name.lower(), "field of a struct")
        plain = kind.partition("(")[0].partition("<")[0]
        if name.lower() not in kinds or plain in NESTED or (only is not None and plain not in only):
            raise ConfigError(
                f"files cannot be partitioned by {name}, which is a {kind}",
                hint="add a column for it in a step, as to_date(at) AS day, and name that in partition_by",
            )
    if names and kinds.keys() <= {name.lower() for name in names}:
        raise ConfigError("partition_by names every column, so files would have none", hint="leave one out")


def refuse_other_parts(names: Sequence[str], there: Sequence[str]) -> None:
    """Check that `partition_by` asks for what a table that is there has, if it asks for anything.

    Raises:
        ConfigError: it is divided by other columns.
    """
    if names and [name.lower() for name in names] != [name.lower() for name in there]:
        raise ConfigError(
            f"partition_by is {', '.join(names)}, but the existing table is partitioned by "
            f"{', '.join(there) or 'no column'}",
            hint="leave partition_by out, or name another path or table",
        )
