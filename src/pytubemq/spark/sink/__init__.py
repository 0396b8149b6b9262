"""Rows to TubeMQ topics: `df.write.format("tubemq")` and `df.writeStream.format("tubemq")`.

The way of a batch: the driver checks options, columns and topic once; each task packs its rows, has several packs under
way, and ends when every one is acknowledged. The invariant: a task that ends well has delivered each of its rows at
least once; with `idempotent=true` the Broker or a reader can distinguish a repeat of the task from new rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame


def in_fixed_order(frame: DataFrame, *, partitions: int, keys: Sequence[str] = ()) -> DataFrame:
    """Divide and sort the rows by their content, so that a replay numbers them alike.

    For batch writes of rows whose order is not given, as behind an aggregation: with it `planIsMapOnly=true` holds,
    if the rows themselves are the same each time.

    Args:
        frame: not a stream; inside `foreachBatch` it is none.
        partitions: into how many tasks the rows go; it has to be the same for a replay.
        keys: columns to divide and sort by first; all of them, if none are given.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import MapType

    order = {
        # maps cannot be sorted by, their entries can
        field.name: F.array_sort(F.map_entries(column)) if isinstance(field.dataType, MapType) else column
        for field in frame.schema
        for column in [F.col("`" + field.name.replace("`", "``") + "`")]
    }
    first = [order[name] for name in keys] if keys else list(order.values())
    return frame.repartition(partitions, *first).sortWithinPartitions(*first, *order.values())
