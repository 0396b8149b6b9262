"""Rows counted while they are written, without a second pass over them; and whether a plan gives them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

WAIT_MS: Final = 10_000
"""Longest wait for the count of an action that ended."""


class RowCount:
    """The number of rows that went through a DataFrame in its first action.

    Spark reports it on its listener thread after the action, and not at all if its optimizer has left the rows out.
    """

    def __init__(self) -> None:
        from pyspark.sql import Observation

        self._seen: Any = Observation()

    def of(self, rows: DataFrame) -> DataFrame:
        """Return the rows, to be counted on their way."""
        from pyspark.sql import functions as f

        return rows.observe(self._seen, f.count(f.lit(1)).alias("rows"))

    def value(self) -> int | None:
        """Return the number, once the action is over; None if it does not come."""
        from py4j.protocol import Py4JError

        jvm = self._seen._jvm
        try:
            wait = jvm.scala.concurrent.duration.Duration.create(WAIT_MS, "milliseconds")
            jvm.scala.concurrent.Await.ready(self._seen._jo.future(), wait)
        except Py4JError:
            return None
        return int(self._seen.get["rows"])


def write_counted(rows: DataFrame, write: Callable[[DataFrame], None]) -> int:
    """Call `write` with the rows and return how many it took; if Spark does not report it, they are counted anew."""
    seen = RowCount()
    write(seen.of(rows))
    count = seen.value()
    return rows.count() if count is None else count


_CLOCKS: Final = frozenset({"CurrentTimestamp", "Now", "CurrentDate", "CurrentTime", "LocalTimestamp"})
"""Spark's expressions that read the clock; to it they are deterministic, since they stay the same within one query."""


def is_deterministic(rows: DataFrame, *, keeps_time: bool = True) -> bool:
    """True if nothing in the plan is made at random or by the clock, so that the same input gives the same rows.

    On a stream a clock is none: Spark keeps the time of each batch with its offsets, and takes it again; unless the
    plan is only put on the stream's batches one by one, and so keeps no time (`keeps_time`).
    """
    session: Any = rows.sparkSession
    plan: Any = rows._jdf.queryExecution().analyzed()
    if not plan.deterministic():
        return False
    clock = session._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    kept = keeps_time and rows.isStreaming
    return kept or not plan.containsPattern(clock) or not _reads_clock(plan, clock)


def _reads_clock(plan: Any, clock: Any) -> bool:
    """True if one of the plan's expressions is a clock; those for user and database have its mark, too."""
    parts = [plan, *_listed(plan.subqueriesAll())]
    while parts:
        part = parts.pop()
        if not part.containsPattern(clock):
            continue
        parts.extend(_listed(part.children()))
        expressions = _listed(part.expressions())
        while expressions:
            expression = expressions.pop()
            if str(expression.getClass().getSimpleName()) in _CLOCKS:
                return True
            if expression.containsPattern(clock):
                expressions.extend(_listed(expression.children()))
    return False


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]
