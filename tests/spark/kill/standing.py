"""Steps in which a task stands still, so that a sink's write is cut off while other tasks have done theirs.

The first task of a write stands at its first row, where `PYTUBEMQ_PAUSE_AT` names `task:SINK`; released, it goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import TaskContext

from pytubemq.pipelines.failpoints import reach

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_stood: set[int] = set()
"""Attempts of tasks that this process has held."""


def _same(sink: str, value: int) -> int:
    task = TaskContext.get()
    assert task is not None
    if task.partitionId() == 0 and task.taskAttemptId() not in _stood:
        _stood.add(task.taskAttemptId())
        reach(f"task:{sink}", 0)
    return value


def _through(rows: DataFrame, sink: str) -> DataFrame:
    from pyspark.sql import functions as f

    def same(value: int) -> int:
        return _same(sink, value)

    return rows.withColumn("id", f.udf(same, "bigint", useArrow=False)("id"))


def delta(rows: DataFrame) -> DataFrame:
    """Before the sink `delta`."""
    return _through(rows, "delta")


def topic(rows: DataFrame) -> DataFrame:
    """Before the sink `topic`."""
    return _through(rows, "topic")


def lake(rows: DataFrame) -> DataFrame:
    """Before the sink `lake`."""
    return _through(rows, "lake")
