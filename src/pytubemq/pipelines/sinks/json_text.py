"""Rows as JSON, for targets that take one text a row.

The invariant: a text has all that its row holds. Nulls stand as null, and times have their microseconds, which Spark's
own format cuts to milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column

_LOCAL: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_OPTIONS: Final = {"ignoreNullFields": "false", "timestampFormat": f"{_LOCAL}XXX", "timestampNTZFormat": _LOCAL}


def json_of(names: Iterable[str]) -> Column:
    """Return one JSON object of the columns with these names."""
    from pyspark.sql import functions as f

    return f.to_json(f.struct(*(f.col(quoted(name)) for name in names)), _OPTIONS)
