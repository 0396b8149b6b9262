"""The plan of a batch: decisions over offsets, without I/O.

The invariant: a batch is two offset dictionaries, `{"brokerId:topic:partition": offset}` with sorted keys, and nothing
else. Spark compares them as text and keeps them in its checkpoint, so the same batch planned again is the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError, FormatError, OffsetMovedError
from pytubemq.model.ids import Partition
from pytubemq.model.offset import OFFSET_UNIT, messages_between
from pytubemq.spark.source.planning.shares import within_bytes, within_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pytubemq.spark.source.options import Topics

Offsets = dict[str, int]

ROWS_TOGETHER: Final = 5_000
"""Ranges smaller than this share a task: a task of its own takes Spark longer than so many rows take to read."""

MAX_TASKS: Final = 100_000
"""Tasks into which ranges are cut at most: a Broker that claims to have very many rows must not fill the driver."""


class BrokerKind(StrEnum):
    """The protocols by which a partition is read."""

    OURS = "ours"
    """By offsets, without a group."""
    JAVA = "java"
    """By groups: the Broker is the original's."""


@dataclass(frozen=True, slots=True)
class Ends:
    """A partition's first readable offset and the one that its next message gets."""

    min_offset: int
    max_offset: int
    size_bytes: int | None = None
    """Bytes between the two offsets on the Broker's disk, where it reports them."""

    @property
    def row_bytes(self) -> float | None:
        """The average size of a message."""
        rows = messages_between(self.min_offset, self.max_offset)
        return None if self.size_bytes is None or not rows else self.size_bytes / rows


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Messages of one partition from `start` up to, not including, `end`."""

    partition: Partition
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hole:
    """Rows [start, end) that a batch wants and the Broker does not have (any more)."""

    partition: Partition
    start: int
    end: int
    there: Ends
    """The offsets that the Broker has."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The ranges that a batch reads, and the holes in it."""

    ranges: tuple[OffsetRange, ...]
    holes: tuple[Hole, ...]


def newest(ends: Mapping[Partition, Ends]) -> Offsets:
    """Return the end offset of every partition."""
    return in_order({str(partition): there.max_offset for partition, there in ends.items()})


def in_order(offsets: Mapping[str, int]) -> Offsets:
    """Return the offsets with sorted keys; another order of keys would be news to Spark."""
    return dict(sorted(offsets.items()))


def resume_offsets(start: Mapping[str, int], ends: Mapping[Partition, Ends]) -> Offsets:
    """Return where every partition is read on from: the first message for one that `start` does not have."""
    return in_order({str(partition): there.min_offset for partition, there in ends.items()} | dict(start))


def capped(target: Mapping[str, int], end: Mapping[str, int]) -> Offsets:
    """Cap the target at `end`; what `end` does not name has no end."""
    return in_order({key: min(offset, end.get(key, offset)) for key, offset in target.items()})


def backlog(start: Mapping[str, int], target: Mapping[str, int]) -> dict[str, int]:
    """Count the rows of each partition up to the target; one that `start` does not have begins at 0."""
    return {key: messages_between(start.get(key, 0), end) for key, end in target.items()}


def advance(
    start: Mapping[str, int],
    target: Mapping[str, int],
    *,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    row_bytes: Mapping[str, float] | None = None,
    most_each: int | None = None,
) -> Offsets:
    """Compute the end of the next batch: from `start` towards `target`, within all bounds at once.

    The rows are shared in proportion to what each partition has, with a floor (`shares`). A partition that `start` does
    not know is read from 0. No partition goes back, also not where the target is below the start.

    Args:
        start: where the batch begins.
        target: how far it may go at most.
        max_rows: most rows in all.
        max_bytes: most bytes in all, going by `row_bytes`; one row is taken whatever its bytes.
        row_bytes: what a row of each partition takes; 0 where it is not named.
        most_each: most rows of one partition.
    """
    rows = backlog(start, target)
    if most_each is not None:
        rows = {key: min(count, most_each) for key, count in rows.items()}
    if max_rows is not None:
        rows = within_rows(rows, max_rows)
    if max_bytes is not None and row_bytes is not None:
        rows = within_bytes(rows, max_bytes, row_bytes)
    return offsets_after(start, rows)


def offsets_after(start: Mapping[str, int], rows: Mapping[str, int]) -> Offsets:
    """Return the end of a batch that begins at `start` and has so many rows of each partition."""
    return in_order(dict(start) | {key: start.get(key, 0) + count * OFFSET_UNIT for key, count in rows.items()})


def plan(start: Mapping[str, int], end: Mapping[str, int], ends: Mapping[Partition, Ends]) -> Planned:
    """Plan the batch [start, end): the ranges to read, and the holes that the Brokers no longer have."""
    ranges: list[OffsetRange] = []
    holes: list[Hole] = []
    for key in sorted(end):
        partition = Partition.parse(key)
        first, last = start.get(key, 0), end[key]
        if first >= last:
            continue
        there = ends.get(partition, Ends(0, 0))
        kept_first, kept_last = max(first, there.min_offset), min(last, there.max_offset)
        if kept_first >= kept_last:
            holes.append(Hole(partition, first, last, there))
            continue
        # a partition that the start does not know has no promise about its first rows
        if key in start and kept_first > first:
            holes.append(Hole(partition, first, kept_first, there))
        if kept_last < last:
            holes.append(Hole(partition, kept_last, last, there))
        ranges.append(OffsetRange(partition, kept_first, kept_last))
    return Planned(tuple(ranges), tuple(holes))


def truncations(start: Mapping[str, int], ends: Mapping[Partition, Ends]) -> list[Hole]:
    """Find rows that were read, or are said to be, and that are behind their Broker's end: its log is an older one,
    or another's.
    """
    return [
        Hole(partition, there.max_offset, start[str(partition)], there)
        for partition, there in sorted(ends.items())
        if start.get(str(partition), 0) > there.max_offset
    ]


def split(
    ranges: Collection[OffsetRange], *, max_rows: int | None, min_tasks: int | None, whole: Collection[Partition] = ()
) -> list[OffsetRange]:
    """Divide the rows over more ranges.

    Args:
        ranges: what is to be read.
        max_rows: most rows of one range.
        min_tasks: ranges are cut in proportion to their rows until there are as many; never below a row. How many more
            there are depends on how the rows are spread: fewer than one for each range.
        whole: partitions that must not be cut.

    Raises:
        ConfigError: there would be more than `MAX_TASKS`.
    """
    divisible = [one for one in ranges if one.partition not in whole]
    total = sum(messages_between(one.start, one.end) for one in divisible)
    wanted = 0 if min_tasks is None else min_tasks - (len(ranges) - len(divisible))
    cuts: list[int] = []
    for one in ranges:
        rows = messages_between(one.start, one.end)
        pieces = 1 if max_rows is None else -(-rows // max_rows)
        if wanted > len(divisible):
            pieces = max(pieces, -(-wanted * rows // max(total, 1)))
        if one.partition in whole:
            pieces = 1
        cuts.append(max(1, min(pieces, rows)))
    if sum(cuts) > max(MAX_TASKS, len(cuts)):
        raise ConfigError(
            f"a batch of {sum(messages_between(one.start, one.end) for one in ranges):,} rows would be cut into "
            f"{sum(cuts):,} tasks; at most {MAX_TASKS:,} can be",
            hint="raise maxRecordsPerTask or lower minPartitions; or limit the batch, by maxRowsPerTrigger or an end",
        )
    parts: list[OffsetRange] = []
    for one, pieces in zip(ranges, cuts, strict=True):
        rows = messages_between(one.start, one.end)
        marks = [one.start + rows * number // pieces * OFFSET_UNIT for number in range(pieces)]
        marks.append(one.end)
        parts.extend(OffsetRange(one.partition, *pair) for pair in pairwise(marks))
    return parts


def together(ranges: Iterable[OffsetRange], *, most_rows: int = ROWS_TOGETHER) -> list[list[OffsetRange]]:
    """Group ranges in the same order, neighbours together as long as they have no more than `most_rows` rows in all.

    Only the ranges decide, so that a batch planned again has the same tasks.
    """
    groups: list[list[OffsetRange]] = []
    room = 0
    for one in ranges:
        rows = messages_between(one.start, one.end)
        if not groups or rows > room:
            groups.append([])
            room = most_rows
        groups[-1].append(one)
        room -= rows
    return groups


def check_checkpoint(offsets: Mapping[str, int], topics: Topics, *, lenient: bool) -> None:
    """Refuse a checkpoint that belongs to another query.

    Args:
        offsets: what Spark hands over from it.
        topics: what is read now.
        lenient: a topic more than are read now is let go (`failOnDataLoss` is not true); not all of them.

    Raises:
        ConfigError: it is of other topics, or of another source.
    """
    named: set[str] = set()
    for key, offset in offsets.items():
        try:
            named.add(Partition.parse(key).topic)
        except FormatError as error:
            raise _foreign_checkpoint(
                f"the checkpoint names {key[:100]!r}, which is not a partition", topics
            ) from error
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise _foreign_checkpoint(f"the checkpoint has {offset!r} for {key}, which is not an offset", topics)
    strange = sorted(topic for topic in named if not topics.has(topic))
    if strange and (not lenient or len(strange) == len(named)):
        raise _foreign_checkpoint(f"the checkpoint is of topic {', '.join(strange)}", topics)


def _foreign_checkpoint(what: str, topics: Topics) -> ConfigError:
    return ConfigError(
        f"{what}; this query reads {topics}", hint="give the query a checkpointLocation of its own, or name its topics"
    )


def data_loss(wanted: OffsetRange | Hole, there: Ends) -> OffsetMovedError:
    """Return the error for rows that are planned and not there."""
    return OffsetMovedError(
        f"data loss in partition {wanted.partition}: rows {wanted.start} to {wanted.end} are wanted, "
        f"the Broker has {there.min_offset} to {there.max_offset}",
        hint='to go on with what is there, set .option("failOnDataLoss", "false"), or "report" to have it written down',
        code=301,
    )
