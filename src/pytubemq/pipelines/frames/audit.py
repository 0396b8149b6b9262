"""Counts of a batch: read and rejected, by stream (the topic) and minute of data time.

A decoded column may have the name of one of the message's own (`timestamp`, `topic`, `msgTime`); it then hides that one
from the steps, and is not taken for it here.

The invariant: the counts come from one pass over the rows that the sinks get, before anything is written; in sum they
are the rows of the batch, whatever the times are, and no more than `MAX_GROUPS` of them come to the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pytubemq.pipelines.frames.source import ERROR
from pytubemq.pipelines.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column, DataFrame

MAX_LINES: Final = 5_000
"""Of a batch's audit; the smallest counts beyond are added up in one line without a minute."""
MAX_GROUPS: Final = 2 * MAX_LINES
"""Counts by stream, minute and reason that are brought to the driver: the largest ones."""
OTHERS: Final = "(others)"
"""The stream of the line of those beyond."""
_TIMES: Final = frozenset({"timestamp", "timestamp_ntz"})
_CASTS: Final = _TIMES | {"date", "tinyint", "smallint", "int", "bigint", "float", "double", "void"}
"""Types that Spark casts to a time, beside decimals and texts."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The content of a batch in numbers."""

    rows: int
    rejected: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    newest_s: float | None = None
    """The newest message's time at the Broker, in seconds since 1970."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    """`stream`, `minute` (None where no time is known), `read`, `rejected`."""


def count(
    rows: DataFrame, *, decoded: bool, stream: str, time: str | None, made: Collection[str] = frozenset()
) -> Counts:
    """Count a batch.

    Args:
        rows: as the source gives them.
        decoded: whether they have `_error`.
        stream: the name of the stream where rows have no topic.
        time: the column of data time; the message's own times if None, or if the rows lack it.
        made: columns that decoding made, which may have the name of one of the message's own.
    """
    from pyspark.sql import functions as f

    types = {field.name: field.dataType.simpleString() for field in rows.schema}
    own = {name: kind for name, kind in types.items() if name not in made}
    wanted = {time: types[time]} if time in types else {name: own.get(name) for name in ("msgTime", "timestamp")}
    when = _data_time(wanted, decoded=decoded)
    bad = f.col(f"{ERROR}.reason") if decoded else f.lit(None).cast("string")
    topic = _either("topic", decoded=decoded, known=own.get("topic") == "string")
    newest = _either("timestamp", decoded=decoded, known=own.get("timestamp") in _TIMES)
    grouped = (
        rows.select(
            f.coalesce(topic, f.lit(stream)).alias("stream"),
            f.floor(f.unix_seconds(when) / 60).alias("minute"),
            bad.alias("reason"),
            newest.cast("timestamp").alias("newest"),
        )
        .groupBy("stream", "minute", "reason")
        .agg(f.count(f.lit(1)).alias("rows"), f.unix_millis(f.max("newest")).alias("newest"))
    )
    largest = _largest(grouped)
    if len(largest) <= MAX_GROUPS:
        return _summed(largest)
    sums = grouped.groupBy("reason").agg(f.sum("rows").alias("rows"), f.max("newest").alias("newest"))
    return _summed(largest[:MAX_GROUPS], [row.asDict() for row in sums.collect()])


def count_out(rows: DataFrame, time: str, *, made: Collection[str] = frozenset()) -> list[dict[str, Any]] | None:
    """Count a sink's rows by minute of their data time, and by the message's `topic` if they have it; None if they have
    no such time. `made` as in `count`."""
    from pyspark.sql import functions as f

    types = {field.name: field.dataType.simpleString() for field in rows.schema}
    if not is_castable_to_time(types.get(time)):
        return None
    minute = f.floor(f.unix_seconds(f.col(quoted(time)).try_cast("timestamp")) / 60)
    by_topic = types.get("topic") == "string" and "topic" not in made
    topic = f.col("topic") if by_topic else f.lit(None).cast("string")
    grouped = rows.groupBy(topic.alias("stream"), minute.alias("minute")).agg(f.count(f.lit(1)).alias("rows"))
    largest = _largest(grouped)
    left = 0
    if len(largest) > MAX_GROUPS:
        largest = largest[:MAX_GROUPS]
        left = rows.count() - sum(group["rows"] for group in largest)
    return _bounded(_out_lines(largest), {"rows": left})


def is_castable_to_time(kind: str | None) -> bool:
    """True if a column of a type, as Spark writes it, can be cast to a time; None: there is no such column."""
    return kind is not None and (kind in _CASTS or kind.startswith(("decimal", "string", "varchar", "char")))


def minute_text(minute: int | None) -> str | None:
    """Format a minute since 1970 in UTC; None if there is none or it is beyond the range of dates."""
    if minute is None:
        return None
    try:
        return datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%dT%H:%MZ")
    except (ValueError, OverflowError, OSError):
        return None


def _largest(grouped: DataFrame) -> list[dict[str, Any]]:
    """Return the largest groups, up to one more than `MAX_GROUPS`."""
    from pyspark.sql import functions as f

    return [row.asDict() for row in grouped.orderBy(f.desc("rows")).limit(MAX_GROUPS + 1).collect()]


def _out_lines(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines: dict[tuple[str | None, str | None], dict[str, Any]] = {}
    for group in groups:
        stream, minute = group["stream"], minute_text(group["minute"])
        known = {} if stream is None else {"stream": stream}
        line = lines.setdefault((stream, minute), {**known, "minute": minute, "rows": 0})
        line["rows"] += group["rows"]
    return list(lines.values())


def _summed(groups: list[dict[str, Any]], sums: list[dict[str, Any]] | None = None) -> Counts:
    """Compute counts from groups; `sums`: by reason over all groups, where there are more than these."""
    every = groups if sums is None else sums
    reasons: dict[str, int] = {}
    for group in every:
        if group["reason"] is not None:
            reasons[group["reason"]] = reasons.get(group["reason"], 0) + group["rows"]
    lines: dict[tuple[str, str | None], dict[str, Any]] = {}
    for group in groups:
        key = (group["stream"], minute_text(group["minute"]))
        line = lines.setdefault(key, {"stream": key[0], "minute": key[1], "read": 0, "rejected": 0})
        line["read"] += group["rows"]
        line["rejected"] += group["rows"] if group["reason"] is not None else 0
    newest = [group["newest"] for group in every if group["newest"] is not None]
    rows, rejected = sum(group["rows"] for group in every), sum(reasons.values())
    left = {
        "read": rows - sum(line["read"] for line in lines.values()),
        "rejected": rejected - sum(line["rejected"] for line in lines.values()),
    }
    return Counts(
        rows=rows,
        rejected=rejected,
        reasons=reasons,
        newest_s=max(newest) / 1000 if newest else None,
        lines=_bounded(list(lines.values()), left),
    )


def _bounded(lines: list[dict[str, Any]], left: dict[str, int]) -> list[dict[str, Any]]:
    """Return at most `MAX_LINES`, in order; `left`: what was counted and is in no line, by name, the largest first."""
    lines.sort(key=lambda line: (line.get("stream") or "", line["minute"] or ""))
    if len(lines) <= MAX_LINES and not any(left.values()):
        return lines
    by_size = sorted(lines, key=lambda line: -int(line[next(iter(left))]))
    kept, rest = by_size[:MAX_LINES], by_size[MAX_LINES:]
    others = {name: more + sum(line[name] for line in rest) for name, more in left.items()}
    return [*kept, {"stream": OTHERS, "minute": None, **others}]


def _data_time(types: Mapping[str, str | None], *, decoded: bool) -> Column:
    """Return the first of some columns that holds a time; `types`: by column, None if it is not there."""
    from pyspark.sql import functions as f

    found = [f.col(quoted(name)).try_cast("timestamp") for name, kind in types.items() if is_castable_to_time(kind)]
    if decoded:
        found.append(f.col(f"{ERROR}.timestamp"))
    return f.coalesce(*found) if found else f.lit(None).cast("timestamp")


def _either(name: str, *, decoded: bool, known: bool) -> Column:
    """Return a column of the message, from the row if `known` there, or from what is known of a rejected record."""
    from pyspark.sql import functions as f

    found = [f.col(quoted(name))] if known else []
    if decoded:
        found.append(f.col(f"{ERROR}.{name}"))
    return f.coalesce(*found) if found else f.lit(None).cast("string")
