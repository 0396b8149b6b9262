"""Rows counted while they are written, without a second pass over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

WAIT_MS: Final = 30_000
"""How long the count of a write that ended may take to arrive."""


def write_counted(rows: DataFrame, write: Callable[[DataFrame], None]) -> int:
    """Call `write` with the rows and return how many it took.

    Spark tells the count on its listener thread after the write; should it not come, the rows are counted anew.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen = Observation()
    write(rows.observe(seen, f.count(f.lit(1)).alias("rows")))
    return rows.count() if not _ready(seen) else int(seen.get["rows"])


def _ready(seen: Any) -> bool:
    from py4j.protocol import Py4JError

    jvm = seen._jvm
    try:
        wait = jvm.scala.concurrent.duration.Duration.create(WAIT_MS, "milliseconds")
        jvm.scala.concurrent.Await.ready(seen._jo.future(), wait)
    except Py4JError:
        return False
    return True
