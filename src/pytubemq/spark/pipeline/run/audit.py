"""Counts of a batch: read and rejected, by stream (the topic) and minute of data time.

The invariant: the counts come from one pass over the rows that the sinks get, before anything is written; in sum they
are the rows of the batch, whatever the times are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pytubemq.spark.pipeline.run.source import ERROR
from pytubemq.spark.pipeline.sinks.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MAX_LINES: Final = 5_000
"""Of a batch's audit; the smallest counts beyond are added up in one line without a minute."""
OTHERS: Final = "(others)"
"""The stream of the line of those beyond."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What a batch holds."""

    rows: int
    rejected: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    newest_s: float | None = None
    """The newest message's time at the Broker, in seconds since 1970."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    """`stream`, `minute` (None where no time is known), `read`, `rejected`."""
    first_rejected: str | None = None
    """Where the first rejected record is and why, for the error of a run that takes none."""


def count(rows: DataFrame, *, decoded: bool, stream: str, time: str | None) -> Counts:
    """Count a batch.

    Args:
        rows: as the source gives them.
        decoded: whether they have `_error`.
        stream: the name of the stream where rows have no topic.
        time: the column of data time; the message's own times if None, or if the rows lack it.
    """
    from pyspark.sql import functions as f

    when = _data_time(rows, time, decoded=decoded)
    bad = f.col(f"{ERROR}.reason") if decoded else f.lit(None).cast("string")
    topic = _either(rows, "topic", decoded=decoded)
    newest = _either(rows, "timestamp", decoded=decoded) if "timestamp" in rows.columns else f.lit(None)
    grouped = (
        rows.select(
            f.coalesce(topic, f.lit(stream)).alias("stream"),
            f.floor(f.unix_seconds(when) / 60).alias("minute"),
            bad.alias("reason"),
            newest.try_cast("timestamp").alias("newest"),
        )
        .groupBy("stream", "minute", "reason")
        .agg(f.count(f.lit(1)).alias("rows"), f.unix_millis(f.max("newest")).alias("newest"))
    )
    return _summed([row.asDict() for row in grouped.collect()])


def count_out(rows: DataFrame, time: str) -> list[dict[str, Any]] | None:
    """A sink's rows by minute of their data time; None if they do not carry it."""
    from pyspark.sql import functions as f

    if time not in rows.columns:
        return None
    minute = f.floor(f.unix_seconds(f.col(quoted(time)).try_cast("timestamp")) / 60)
    counted = rows.groupBy(minute.alias("minute")).agg(f.count(f.lit(1)).alias("rows")).collect()
    lines = [{"minute": minute_text(row["minute"]), "rows": row["rows"]} for row in counted]
    return _bounded(lines, ("rows",))


def minute_text(minute: int | None) -> str | None:
    """A minute since 1970 as text, in UTC; None if there is none or it is beyond what a date can say."""
    if minute is None:
        return None
    try:
        return datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%dT%H:%MZ")
    except (ValueError, OverflowError, OSError):
        return None


def _summed(groups: list[dict[str, Any]]) -> Counts:
    reasons: dict[str, int] = {}
    lines: dict[tuple[str, str | None], dict[str, Any]] = {}
    newest = [group["newest"] for group in groups if group["newest"] is not None]
    for group in groups:
        key = (group["stream"], minute_text(group["minute"]))
        line = lines.setdefault(key, {"stream": key[0], "minute": key[1], "read": 0, "rejected": 0})
        line["read"] += group["rows"]
        if group["reason"] is not None:
            line["rejected"] += group["rows"]
            reasons[group["reason"]] = reasons.get(group["reason"], 0) + group["rows"]
    return Counts(
        rows=sum(group["rows"] for group in groups),
        rejected=sum(reasons.values()),
        reasons=reasons,
        newest_s=max(newest) / 1000 if newest else None,
        lines=_bounded(list(lines.values()), ("read", "rejected")),
    )


def _bounded(lines: list[dict[str, Any]], counted: tuple[str, ...]) -> list[dict[str, Any]]:
    lines.sort(key=lambda line: (line.get("stream", ""), line["minute"] or ""))
    if len(lines) <= MAX_LINES:
        return lines
    by_size = sorted(lines, key=lambda line: -int(line[counted[0]]))
    kept, rest = by_size[:MAX_LINES], by_size[MAX_LINES:]
    other = {"minute": None, **{name: sum(line[name] for line in rest) for name in counted}}
    if "stream" in lines[0]:
        other["stream"] = OTHERS
    return [*kept, other]


def _data_time(rows: DataFrame, time: str | None, *, decoded: bool) -> Column:
    from pyspark.sql import functions as f

    own = [time] if time is not None and time in rows.columns else ["msgTime", "timestamp"]
    found = [f.col(quoted(name)).try_cast("timestamp") for name in own if name in rows.columns]
    if decoded:
        found.append(f.col(f"{ERROR}.timestamp"))
    return f.coalesce(*found) if found else f.lit(None).cast("timestamp")


def _either(rows: DataFrame, name: str, *, decoded: bool) -> Column:
    """A column of the message, from the row or, for a rejected record, from what is known of it."""
    from pyspark.sql import functions as f

    found = [f.col(quoted(name))] if name in rows.columns else []
    if decoded:
        found.append(f.col(f"{ERROR}.{name}"))
    return f.coalesce(*found) if found else f.lit(None).cast("string")
