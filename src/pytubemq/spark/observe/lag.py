"""The lag of a query behind its topics: decisions over what Spark reports of each batch, without Spark.

The rules. Rows behind, by partition: the newest offset that the source reported when the batch was planned, minus the
batch's end, in messages; exact at pytubemq Brokers, the most it can be at Java Brokers. Seconds behind, by partition,
the first of these that is known:

1. none, where no row is behind;
2. by the data, where the query reports its times (`observe_times`): the batch's time minus the newest append time read;
   for a partition that is read later than others it is the least that it can be;
3. by what was seen: how long ago the partition was last seen to end where the query has read to. The oldest unread
   message came after that, so it is the most its age can be; it is the least (`at_least`) where the partition was
   further from the first look on.

The invariant: memory is bounded by partitions times `LOOKS_KEPT`, however long a query runs.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from pytubemq.errors import FormatError
from pytubemq.model.ids import Partition
from pytubemq.model.offset import messages_between

LOOKS_KEPT: Final = 256
"""End offsets remembered of a partition; beyond that, every second one of the older half is dropped."""
OBSERVATION: Final = "tubemq_times"
"""The name under which a query reports the times that it has read."""
NEWEST: Final = "newest"


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a query in one partition. `seconds` is None where it is not known yet."""

    partition: Partition
    read_to: int
    end: int
    rows: int
    seconds: float | None
    at_least: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the lag as JSON values."""
        return {
            "partition": str(self.partition),
            "offset": self.read_to,
            "latest_offset": self.end,
            "rows_behind": self.rows,
            "seconds_behind": None if self.seconds is None else round(self.seconds, 3),
            "seconds_at_least": self.at_least,
        }


@dataclass(frozen=True, slots=True)
class QueryLag:
    """A query after one of its batches. Times are seconds, `time_s` counts from 1970."""

    query: str
    """Its name, or its id where it has none."""
    query_id: str
    run_id: str
    batch_id: int
    time_s: float
    input_rows: int
    duration_s: float
    parts_s: Mapping[str, float]
    partitions: tuple[PartitionLag, ...] = ()

    @property
    def rows(self) -> int:
        """Behind over all partitions."""
        return sum(entry.rows for entry in self.partitions)

    @property
    def seconds(self) -> float | None:
        """Behind in the partition that is furthest behind; None where none can say."""
        return max((entry.seconds for entry in self.partitions if entry.seconds is not None), default=None)

    @property
    def spread(self) -> tuple[int, float, int]:
        """Most, mean and fewest rows behind of a partition; zeros without partitions."""
        rows = [entry.rows for entry in self.partitions]
        return (max(rows), sum(rows) / len(rows), min(rows)) if rows else (0, 0.0, 0)

    def as_dict(self) -> dict[str, Any]:
        """Return the values for one line of JSON."""
        most, mean, fewest = self.spread
        return {
            "time": iso(self.time_s),
            "query": self.query,
            "query_id": self.query_id,
            "run_id": self.run_id,
            "batch_id": self.batch_id,
            "input_rows": self.input_rows,
            "duration_s": round(self.duration_s, 3),
            "parts_s": {name: round(taken_s, 3) for name, taken_s in sorted(self.parts_s.items())},
            "rows_behind": self.rows,
            "rows_behind_max": most,
            "rows_behind_avg": round(mean, 1),
            "rows_behind_min": fewest,
            "seconds_behind": None if self.seconds is None else round(self.seconds, 3),
            "partitions": [entry.as_dict() for entry in self.partitions],
        }


@dataclass(slots=True)
class _Seen:
    """The end offset of a partition and when it was last seen: both only grow."""

    since_s: float = 0.0
    """The first look."""
    times_s: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def look(self, time_s: float, end: int) -> None:
        if self.ends and (end < self.ends[-1] or time_s < self.times_s[-1]):
            self.times_s, self.ends = [], []  # the topic was made anew, or a clock was set back
        if not self.ends:
            self.since_s = time_s
        if self.ends and end == self.ends[-1]:
            self.times_s[-1] = time_s
            return
        self.times_s.append(time_s)
        self.ends.append(end)
        if len(self.ends) > LOOKS_KEPT:
            half = len(self.ends) // 2
            self.times_s[:half], self.ends[:half] = self.times_s[:half:2], self.ends[:half:2]

    def behind(self, time_s: float, read_to: int) -> tuple[float, bool]:
        """Return the seconds since the last look at which its end was at most `read_to`, and True if it may be more."""
        at = bisect_right(self.ends, read_to) - 1
        return (time_s - self.times_s[at], False) if at >= 0 else (time_s - self.since_s, True)


class LagMemory:
    """The observations of one query, batch after batch."""

    def __init__(self) -> None:
        self._seen: dict[Partition, _Seen] = {}

    def take(self, progress: Mapping[str, Any]) -> QueryLag:
        """Compute the lag after a batch from its progress (`StreamingQueryProgress`, or its JSON as an object)."""
        time_s = _time_s(progress.get("timestamp"))
        newest_s = _newest_s(progress.get("observedMetrics"))
        found: list[PartitionLag] = []
        for source in progress.get("sources") or ():
            ends = offsets(source.get("latestOffset"))
            reads = offsets(source.get("endOffset"))
            found += [self._one(key, reads.get(key), end, time_s, newest_s) for key, end in sorted(ends.items())]
        there = {entry.partition for entry in found}
        self._seen = {key: seen for key, seen in self._seen.items() if key in there}
        parts_ms = dict(progress.get("durationMs") or {})
        total_ms = parts_ms.pop("triggerExecution", None) or progress.get("batchDuration") or 0
        query_id = str(progress.get("id") or "")
        return QueryLag(
            query=str(progress.get("name") or query_id),
            query_id=query_id,
            run_id=str(progress.get("runId") or ""),
            batch_id=int(progress.get("batchId") or 0),
            time_s=time_s,
            input_rows=sum(int(source.get("numInputRows") or 0) for source in progress.get("sources") or ()),
            duration_s=total_ms / 1000,
            parts_s={name: value / 1000 for name, value in parts_ms.items()},
            partitions=tuple(found),
        )

    def _one(
        self, key: Partition, read_to: int | None, end: int, time_s: float, newest_s: float | None
    ) -> PartitionLag:
        at = 0 if read_to is None else read_to
        seen = self._seen.setdefault(key, _Seen())
        seen.look(time_s, end)
        rows = messages_between(at, end)
        if rows == 0:
            return PartitionLag(key, at, end, 0, 0.0)
        if newest_s is not None:
            return PartitionLag(key, at, end, rows, max(0.0, time_s - newest_s))
        seconds, at_least = seen.behind(time_s, at)
        if at_least and seconds == 0.0:
            return PartitionLag(key, at, end, rows, None)
        return PartitionLag(key, at, end, rows, seconds, at_least)


def offsets(text: Any) -> dict[Partition, int]:
    """Parse the offsets of a TubeMQ source in Spark's progress: JSON text or an object, by partition key.

    A value may be a number or an object with `offset`. What is no such thing, as of other sources, comes to nothing.
    """
    if isinstance(text, str):
        try:
            text = json.loads(text)
        except ValueError:
            return {}
    found: dict[Partition, int] = {}
    for key, value in text.items() if isinstance(text, Mapping) else ():
        number = value.get("offset") if isinstance(value, Mapping) else value
        if isinstance(number, bool) or not isinstance(number, int):
            continue
        try:
            found[Partition.parse(key)] = number
        except FormatError:
            continue
    return found


def iso(time_s: float) -> str:
    """Format a time in UTC, to the millisecond: `2026-01-31T12:00:00.000Z`."""
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _time_s(text: Any) -> float:
    return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else 0.0


def _newest_s(observed: Any) -> float | None:
    """Return the newest append time that `observe_times` put into the progress."""
    row = observed.get(OBSERVATION) if isinstance(observed, Mapping) else None
    if row is None:
        return None
    value = row.asDict().get(NEWEST) if hasattr(row, "asDict") else row.get(NEWEST)
    if isinstance(value, str):
        return datetime.fromisoformat(value).timestamp()
    return float(value) if isinstance(value, int | float) else None
