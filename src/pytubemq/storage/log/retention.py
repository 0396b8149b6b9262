"""Retention decisions, on sizes and times alone: which segments of a partition are removed now, which soon, and when
one is closed so that it can be removed.

The invariants: segments go oldest first, with no gap between those that stay; by age a segment goes only when its
newest message is too old (one with a time in the future: when the next segment's is); by size one goes only when what
is left without it is still as much as is to be kept.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.model.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytubemq.model.policy import RetentionPolicy

_PARTS: Final = 10
"""A segment holds at most this part of what is kept, so that what is too old or too much is at most so much more."""
# A tenth of a short time or a small size would make files for a handful of messages.
_SHORTEST_S: Final = 1.0
_SMALLEST_BYTES: Final = MIB


class SegmentFacts(NamedTuple):
    """The facts about a segment: bytes of its messages, and the times of its first and its last one."""

    size_bytes: int
    first_time_ms: int
    last_time_ms: int


class Roll(NamedTuple):
    """The bounds of a segment: another begins before the record that would exceed its size, or that came so much later
    than its first one."""

    size_bytes: int
    age_ms: float | None = None


class ExpiringSegment(NamedTuple):
    """A segment that expires soon, and how soon by each limit of its policy; None: not soon by this limit."""

    number: int
    """Its index among the scanned segments; the oldest has 0."""
    left_s: float | None
    left_bytes: int | None
    """Bytes that may still be appended to the partition before it is removed."""


class Expiring(NamedTuple):
    """The messages of a partition up to one that go soon; see `ExpiringSegment`."""

    end_ordinal: int
    left_s: float | None
    left_bytes: int | None


class ExpiringPartition(NamedTuple):
    """A partition with messages that expire soon, the oldest first."""

    first_ordinal: int
    end_position: int
    parts: tuple[Expiring, ...]
    bytes_per_s: float | None = None
    """Growth as the times of its segments show it, if it has grown since the pass before; else None."""


class Retained(NamedTuple):
    """The result of a pass of retention: what it dropped, and what the next passes will drop."""

    segments: int
    messages: int
    bytes: int
    expiring: Mapping[tuple[str, int], ExpiringPartition] = MappingProxyType({})
    """By topic and partition id."""


def surplus(pieces: Sequence[SegmentFacts], tail_bytes: int, policy: RetentionPolicy, now_ms: int) -> int:
    """Count the segments of a partition, from the oldest on, that have expired.

    Args:
        pieces: all segments, the oldest first.
        tail_bytes: what the partition holds beside them; it counts for its size and stays.
    """
    expired = 0
    if policy.age_s is not None:
        limit_ms = now_ms - policy.age_s * 1000
        times_ms = _newest_ms(pieces, now_ms)
        # By its newest message: a segment goes as a whole, and none of its messages may go too early.
        while expired < len(pieces) and times_ms[expired] < limit_ms:
            expired += 1
    surplus = expired
    if policy.size_bytes is not None:
        # Without what goes by age anyway, so that the two limits do not remove twice.
        total = tail_bytes + sum(piece.size_bytes for piece in pieces[expired:])
        # By size the last segment always stays, or a segment larger than the limit would empty the partition; and one
        # goes only if what is left still reaches the limit, so never less is kept than was asked for.
        while surplus < len(pieces) - 1 and total - pieces[surplus].size_bytes >= policy.size_bytes:
            total -= pieces[surplus].size_bytes
            surplus += 1
    return surplus


def expiring_segments(
    pieces: Sequence[SegmentFacts], tail_bytes: int, policy: RetentionPolicy, now_ms: int, *, ahead_s: float
) -> list[ExpiringSegment]:
    """Return the segments that expire soon, the oldest first: within a tenth of what the policy keeps, by size at least
    within two of the largest segments, because whole segments go, but never more than half of it.

    Args:
        pieces: the segments that stay in this pass, the oldest first.
        tail_bytes: as for `surplus`.
        ahead_s: the least notice by age, such as two passes; never more than half of the age.
    """
    found: list[ExpiringSegment] = []
    behind = tail_bytes + sum(piece.size_bytes for piece in pieces)
    times_ms = _newest_ms(pieces, now_ms)
    ahead_bytes = 0
    if policy.size_bytes is not None:
        largest = max((piece.size_bytes for piece in pieces), default=0)
        ahead_bytes = min(max(policy.size_bytes // _PARTS, 2 * largest), policy.size_bytes // 2)
    for index, piece in enumerate(pieces):
        behind -= piece.size_bytes
        left_s = left_bytes = None
        if policy.age_s is not None:
            until_s = (times_ms[index] - now_ms) / 1000 + policy.age_s
            left_s = until_s if until_s <= min(max(policy.age_s / _PARTS, ahead_s), policy.age_s / 2) else None
        # By size the last segment never goes, so it is not announced.
        if policy.size_bytes is not None and index + 1 < len(pieces):
            # It goes as soon as what is behind it is as much as is to be kept.
            until_bytes = policy.size_bytes - behind
            left_bytes = until_bytes if until_bytes <= ahead_bytes else None
        # Those behind it are newer, and go later.
        if left_s is None and left_bytes is None:
            break
        found.append(ExpiringSegment(index, left_s, left_bytes))
    return found


def growth_of(pieces: Sequence[SegmentFacts], tail_bytes: int, now_ms: int, *, ahead_s: float) -> float | None:
    """Return a partition's growth in bytes a second, as its segments show it; None if nothing came for `ahead_s`."""
    # A rate of long ago would announce losses that do not come.
    if not pieces or now_ms - pieces[-1].last_time_ms > ahead_s * 1000:
        return None
    # Two, as the last one may just have begun and show little.
    recent = pieces[-2:]
    took_ms = now_ms - recent[0].first_time_ms
    return (sum(piece.size_bytes for piece in recent) + tail_bytes) / took_ms * 1000 if took_ms > 0 else None


def _newest_ms(pieces: Sequence[SegmentFacts], now_ms: int) -> list[int]:
    """Return the time of each segment's newest message.

    A time in the future is wrong and means nothing; that segment is no younger than the one behind it.
    """
    found: list[int] = []
    behind_ms = now_ms
    for piece in reversed(pieces):
        behind_ms = piece.last_time_ms if piece.last_time_ms <= now_ms else behind_ms
        found.append(behind_ms)
    return found[::-1]


def roll_at(policy: RetentionPolicy | None, segment_bytes: int) -> Roll:
    """Return the bounds of a partition's segments: a tenth of what is kept, and never larger than `segment_bytes`."""
    age_s, size_bytes = (None, None) if policy is None else policy
    return Roll(
        segment_bytes if size_bytes is None else min(segment_bytes, max(_SMALLEST_BYTES, size_bytes // _PARTS)),
        None if age_s is None else max(_SHORTEST_S, age_s / _PARTS) * 1000,
    )
