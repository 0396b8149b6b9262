"""Rows by key: one per key in a batch, the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

_AT: Final = "_tubemq_at"


def last_of_each_key(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Keep the last one of the rows that share a key.

    Rows count in Spark's order: that of the topic where one task read them, as it does when all messages of a key go to
    one partition; the order between partitions means nothing.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    by_key = Window.partitionBy(*(f.col(quoted(key)) for key in keys)).orderBy(f.col(_AT).desc())
    numbered = rows.withColumn(_AT, f.monotonically_increasing_id())
    first = numbered.withColumn("_tubemq_row", f.row_number().over(by_key)).where("_tubemq_row = 1")
    return first.drop(_AT, "_tubemq_row")
