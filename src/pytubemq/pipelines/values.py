"""Values of Arrow as Python has them.

The invariant: a row that holds a time beyond Python's years is shown, not an error.
"""

from __future__ import annotations

from typing import Any


def python_rows(table: Any) -> list[dict[str, Any]]:
    """Convert the rows of a `pyarrow.Table`, or of a record batch, to Python values."""
    names = table.schema.names
    columns = [_values(table.column(at)) for at in range(len(names))]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: Any) -> list[Any]:
    """Convert the values of an array; a time beyond the years that Python knows becomes Arrow's text of it."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [_value(each) for each in column]


def _value(scalar: Any) -> Any:
    import pyarrow as pa

    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        if isinstance(scalar, pa.StructScalar):
            return {name: _value(inner) for name, inner in scalar.items()}
        return str(pa.array([scalar]).to_string(skip_new_lines=True))[1:-1]
