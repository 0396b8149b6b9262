"""Resolution of positions to offsets, asked of the cluster where that is needed.

The invariant: an offset that comes out names a whole message, so every range holds whole messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytubemq.errors import ConfigError
from pytubemq.model.missing_topic import suggestion
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.spark.source.options import NoSuchTime
from pytubemq.spark.source.planning.plan import Offsets, in_order
from pytubemq.spark.source.positions import AtGroup, AtOffset, AtTime, Edge, Positions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pytubemq.model.ids import Partition
    from pytubemq.spark.source.planning.plan import Ends


class Finder(Protocol):
    """A source of offsets by time and of groups' confirmed offsets."""

    def at_time(self, partitions: Collection[Partition], time_ms: int) -> dict[Partition, int | None]:
        """Find the first message appended then or later; None where there is none."""
        ...

    def of_group(self, partitions: Collection[Partition], group: str) -> dict[Partition, int | None]:
        """Return the group's confirmed offset; None where it has confirmed nothing."""
        ...


class Resolved(dict[str, int]):
    """Offsets; `open` has the partitions that have no message as new as their time yet."""

    def __init__(self, offsets: Mapping[str, int], *, still_open: frozenset[Partition]) -> None:
        super().__init__(in_order(offsets))
        self.open = still_open


def resolve(positions: Positions, ends: Mapping[Partition, Ends], finder: Finder, *, now_ms: int) -> Resolved:
    """Turn places into the offsets that they mean now; a time without a message that new means the end.

    Raises:
        ConfigError: a group has confirmed nothing anywhere.
    """
    offsets: Offsets = {}
    still_open: set[Partition] = set()
    times: dict[int, list[Partition]] = {}
    groups: dict[str, list[Partition]] = {}
    for partition, there in ends.items():
        match positions.of(partition):
            case Edge.EARLIEST:
                offsets[str(partition)] = there.min_offset
            case Edge.LATEST:
                offsets[str(partition)] = there.max_offset
            case AtOffset(offset):
                # a position between two messages means the next one
                offsets[str(partition)] = -(-offset // OFFSET_UNIT) * OFFSET_UNIT
            case AtTime() as time:
                times.setdefault(time.at_ms(now_ms), []).append(partition)
            case AtGroup(group):
                groups.setdefault(group, []).append(partition)
    for time_ms, partitions in times.items():
        for partition, first in finder.at_time(partitions, time_ms).items():
            if first is None:
                still_open.add(partition)
            offsets[str(partition)] = ends[partition].max_offset if first is None else first
    for group, partitions in groups.items():
        confirmed = finder.of_group(partitions, group)
        if all(offset is None for offset in confirmed.values()):
            topics = ", ".join(sorted({partition.topic for partition in partitions}))
            raise ConfigError(
                f"group {group} has confirmed nothing in {topics}",
                hint="check the group's name (pytubemq group list), or begin at earliest or latest",
            )
        for partition, position in confirmed.items():
            there = ends[partition]
            offsets[str(partition)] = there.min_offset if position is None else min(position, there.max_offset)
    return Resolved(offsets, still_open=frozenset(still_open))


def resolve_start(
    positions: Positions,
    ends: Mapping[Partition, Ends],
    finder: Finder,
    *,
    now_ms: int,
    no_such_time: NoSuchTime,
) -> Offsets:
    """Turn places into the offsets at which reading begins.

    Raises:
        ConfigError: as `check_named` and `resolve`; or a partition has no message that new and `no_such_time` is ERROR.
    """
    check_named(positions, ends)
    found = resolve(positions, ends, finder, now_ms=now_ms)
    if found.open and no_such_time is NoSuchTime.ERROR:
        first = min(found.open)
        raise ConfigError(
            f"partition {first} has no message as new as the time to start at"
            + (f", nor have {len(found.open) - 1} more" if len(found.open) > 1 else ""),
            hint="the option startingTimestampStrategy = latest begins behind their last messages, earliest at their "
            "first ones (in a pipeline file it is one of source.options)",
        )
    offsets = dict(found)
    if no_such_time is NoSuchTime.EARLIEST:
        offsets.update({str(partition): ends[partition].min_offset for partition in found.open})
    return in_order(offsets)


def check_named(positions: Positions, ends: Mapping[Partition, Ends]) -> None:
    """See that all that is named is there.

    Raises:
        ConfigError: a partition or topic is not.
    """
    unknown = sorted(set(positions.partitions) - set(ends))
    if unknown:
        raise ConfigError(
            f"there is no partition {unknown[0]}", hint=f"the partitions are {', '.join(map(str, sorted(ends)[:50]))}"
        )
    strange = sorted(set(positions.topics) - {partition.topic for partition in ends})
    if strange:
        near = suggestion(strange[:1], {partition.topic for partition in ends})
        take_out = "take it out of the offsets to begin or end at"
        raise ConfigError(
            f"topic {strange[0]!r} is not among those that are read",
            hint=take_out if near is None else f"{near} Else {take_out}",
        )


def check_order(starting: Positions, ending: Positions, partitions: Iterable[Partition]) -> None:
    """See that no partition ends before it begins by the offsets that are given for it.

    Raises:
        ConfigError: one does.
    """
    for partition in sorted(partitions):
        match starting.of(partition), ending.of(partition):
            case AtOffset(start), AtOffset(end) if end < start:
                raise ConfigError(
                    f"partition {partition} ends before it begins: endingOffsets {end}, startingOffsets {start}",
                    hint="change one of them",
                )
