"""Texts as PostgreSQL takes them: without the character 0, for which it has no place.

The invariant: no text of a message stops a pipeline by that character, be it in a column or in an array of texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_ZERO: Final = "\0"
_IN_ITS_PLACE: Final = "\ufffd"


def without_zeros(rows: DataFrame) -> DataFrame:
    """The rows with U+FFFD in the place of each character 0."""
    from pyspark.sql import functions as f

    return rows.select(*(_clean(f.col(quoted(one.name)), one.dataType).alias(one.name) for one in rows.schema))


def _clean(column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, StringType

    if isinstance(kind, StringType):
        return f.translate(column, _ZERO, _IN_ITS_PLACE)
    if isinstance(kind, ArrayType) and "string" in kind.simpleString():
        inner = kind.elementType
        return f.transform(column, lambda element: _clean(element, inner))
    return column
