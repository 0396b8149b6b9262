"""The metrics of a lag listener, and their present values.

The invariant: series are bounded. At most `MOST_LABELS` partitions have series of their own, those furthest behind
first, and at most `MOST_QUERIES` queries, those last reported first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.observe.metrics import MOST_LABELS, Kind, Metric, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytubemq.observe.metrics import Values
    from pytubemq.spark.observe.lag import QueryLag
    from pytubemq.spark.observe.totals import QueryTotals

MOST_QUERIES: Final = 100
_QUERY: Final = ("query",)

LAG_ROWS: Final = Metric(
    "spark_lag_rows", Kind.GAUGE, "Messages of a partition that the query has yet to read",
    ("query", "topic", "partition"),
)  # fmt: skip
LAG_PARTITION_SECONDS: Final = Metric(
    "spark_lag_partition_seconds", Kind.GAUGE, "Age of the oldest message of a partition that is yet to be read",
    ("query", "topic", "partition"),
)  # fmt: skip
_SPARK_PARTS: Final = Metric(
    "spark_batch_part_seconds", Kind.GAUGE, "Duration of one part of the last batch", ("query", "part")
)
_OF_QUERY: Final[Sequence[tuple[Metric, Callable[[QueryTotals], float | None]]]] = (
    (
        Metric("spark_lag_rows_sum", Kind.GAUGE, "Rows behind, all partitions together", _QUERY),
        lambda it: it.last.rows,
    ),
    (
        Metric("spark_lag_rows_max", Kind.GAUGE, "Rows behind, of the partition that is furthest behind", _QUERY),
        lambda it: it.last.spread[0],
    ),
    (
        Metric("spark_lag_rows_avg", Kind.GAUGE, "Rows behind, mean of the partitions", _QUERY),
        lambda it: it.last.spread[1],
    ),
    (
        Metric("spark_lag_rows_min", Kind.GAUGE, "Rows behind, of the partition that is least behind", _QUERY),
        lambda it: it.last.spread[2],
    ),
    (
        Metric(
            "spark_lag_seconds", Kind.GAUGE,
            "Age of the oldest message that the query has yet to read; absent where it is not known", _QUERY,
        ),
        lambda it: it.last.seconds,
    ),
    (
        Metric("spark_input_rows_total", Kind.COUNTER, "Rows read since the listener first saw the query", _QUERY),
        lambda it: it.input_rows,
    ),
    (
        Metric("spark_batches_total", Kind.COUNTER, "Non-empty batches since the listener first saw the query", _QUERY),
        lambda it: it.batches,
    ),
    (
        Metric("spark_batch_duration_seconds", Kind.GAUGE, "Duration of the last batch", _QUERY),
        lambda it: it.last.duration_s,
    ),
    (
        Metric("spark_progress_time_seconds", Kind.GAUGE, "Start of the last batch, in seconds since 1970", _QUERY),
        lambda it: it.last.time_s,
    ),
    (
        Metric("spark_query_active", Kind.GAUGE, "1 while the query runs, 0 when it has ended", _QUERY),
        lambda it: 1 if it.active else 0,
    ),
    (
        Metric("spark_query_failures_total", Kind.COUNTER, "Times that the query has ended with an error", _QUERY),
        lambda it: it.failures,
    ),
)  # fmt: skip

LAG_METRICS: Final[tuple[Metric, ...]] = (
    LAG_ROWS, LAG_PARTITION_SECONDS, *(metric for metric, _ in _OF_QUERY), _SPARK_PARTS
)  # fmt: skip


def readings(queries: Mapping[str, QueryTotals], *, per_partition: bool) -> list[Reading]:
    """Return the present values of all metrics."""
    found = []
    for metric, read in _OF_QUERY:
        values = {(name,): read(totals) for name, totals in queries.items()}
        found.append(Reading(metric, {key: float(value) for key, value in values.items() if value is not None}))
    parts: Values = {
        (name, part): taken_s for name, totals in queries.items() for part, taken_s in totals.last.parts_s.items()
    }
    found.append(Reading(_SPARK_PARTS, parts))
    return [*found, *_partitions([totals.last for totals in queries.values()])] if per_partition else found


def _partitions(lags: Sequence[QueryLag]) -> list[Reading]:
    entries = [
        ((lag.query, entry.partition.topic, f"{entry.partition.broker_id}:{entry.partition.partition_id}"), entry)
        for lag in lags
        for entry in lag.partitions
    ]
    entries.sort(key=lambda pair: (-pair[1].rows, pair[0]))
    shown = entries[:MOST_LABELS]
    return [
        Reading(LAG_ROWS, {labels: entry.rows for labels, entry in shown}),
        Reading(
            LAG_PARTITION_SECONDS,
            {labels: entry.seconds for labels, entry in shown if entry.seconds is not None},
        ),
    ]
