"""What a batch reads: decisions over offsets, without I/O.

The invariant: a batch is two offset dictionaries, `{"brokerId:topic:partition": offset}` with sorted keys, and nothing
else. Spark compares them as text and keeps them in its checkpoint, so the same batch planned again is the same ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError, OffsetMovedError
from pytubemq.model.ids import Partition
from pytubemq.model.offset import OFFSET_UNIT, messages_between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.spark.source.options import Positions

Offsets = dict[str, int]


@dataclass(frozen=True, slots=True)
class Ends:
    """A partition's first readable offset and the one that its next message gets."""

    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Messages of one partition from `start` up to, not including, `end`."""

    partition: Partition
    start: int
    end: int


def resolve(positions: Positions, ends: Mapping[Partition, Ends]) -> Offsets:
    """Turn edges into the offsets that they mean now.

    Raises:
        ConfigError: an exact position names a partition that does not exist.
    """
    unknown = sorted(set(positions.exact) - set(ends))
    if unknown:
        raise ConfigError(
            f"there is no partition {unknown[0]}", hint=f"the partitions are {', '.join(map(str, sorted(ends)))}"
        )
    offsets: Offsets = {}
    for partition, there in ends.items():
        position = positions.exact.get(partition, positions.edge)
        if position == "earliest":
            offsets[str(partition)] = there.min_offset
        elif position == "latest":
            offsets[str(partition)] = there.max_offset
        else:
            # a position between two messages means the next one, so that every range holds whole messages
            offsets[str(partition)] = -(-position // OFFSET_UNIT) * OFFSET_UNIT
    return in_order(offsets)


def newest(ends: Mapping[Partition, Ends]) -> Offsets:
    """Where every partition ends now."""
    return in_order({str(partition): there.max_offset for partition, there in ends.items()})


def in_order(offsets: Mapping[str, int]) -> Offsets:
    """The same offsets with sorted keys; another order of keys would be news to Spark."""
    return dict(sorted(offsets.items()))


def advance(start: Mapping[str, int], target: Mapping[str, int], *, max_rows: int | None) -> Offsets:
    """The end of the next batch: from `start` towards `target`, at most `max_rows` rows over all partitions.

    The rows are shared in proportion to what each partition has, and what rounding leaves goes to those with the
    largest remainder, so none starves and the limit is met exactly. A partition that `start` does not know is read from
    0. No partition goes back, also not where the target lies below the start.
    """
    backlog = {key: messages_between(start.get(key, 0), end) for key, end in target.items()}
    total = sum(backlog.values())
    if max_rows is not None and total > max_rows:
        backlog = _shares(backlog, total, max_rows)
    end = dict(start)
    for key, rows in backlog.items():
        end[key] = start.get(key, 0) + rows * OFFSET_UNIT
    return in_order(end)


def _shares(backlog: Mapping[str, int], total: int, max_rows: int) -> dict[str, int]:
    shares = {key: rows * max_rows // total for key, rows in backlog.items()}
    left = max_rows - sum(shares.values())
    by_remainder = sorted(backlog, key=lambda key: (-(backlog[key] * max_rows % total), key))
    for key in by_remainder[:left]:
        shares[key] += 1
    return shares


def ranges(
    start: Mapping[str, int], end: Mapping[str, int], ends: Mapping[Partition, Ends], *, fail_on_data_loss: bool
) -> list[OffsetRange]:
    """What to read for the batch [start, end), checked against what the Brokers still have.

    Raises:
        OffsetMovedError: rows of the batch are not there (any more) and data loss is an error.
    """
    planned = []
    for key in sorted(end):
        partition = Partition.parse(key)
        first, last = start.get(key, 0), end[key]
        if first >= last:
            continue
        there = ends.get(partition, Ends(0, 0))
        kept_first, kept_last = max(first, there.min_offset), min(last, there.max_offset)
        # a partition that the start does not know has no promise about its first rows
        lost = kept_last < last or (key in start and kept_first > first)
        if lost and fail_on_data_loss:
            raise data_loss(OffsetRange(partition, first, last), there)
        if kept_first < kept_last:
            planned.append(OffsetRange(partition, kept_first, kept_last))
    return planned


def data_loss(wanted: OffsetRange, there: Ends) -> OffsetMovedError:
    """The error for rows that are planned and not there."""
    return OffsetMovedError(
        f"data loss in partition {wanted.partition}: rows {wanted.start} to {wanted.end} are wanted, "
        f"the Broker has {there.min_offset} to {there.max_offset}",
        hint='to go on with what is there, set .option("failOnDataLoss", "false")',
        code=301,
    )
