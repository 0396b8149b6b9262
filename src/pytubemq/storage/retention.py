"""Which segments of a partition go, and when one is closed so that it can go: decisions on sizes and times alone.

The invariants: segments go oldest first, with no gap between those that stay; by age a segment goes only when its
newest message is too old (one with a time in the future: when the next segment's is); by size one goes only when what
is left without it is still as much as is to be kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.model.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.model.policy import RetentionPolicy

_PARTS: Final = 10
"""A segment holds at most this part of what is kept, so that what is too old or too much is at most so much more."""
_SHORTEST_S: Final = 1.0
_SMALLEST_BYTES: Final = MIB


class Piece(NamedTuple):
    """What is asked about a segment: bytes of its messages, and when its first and its last one came."""

    size_bytes: int
    first_time_ms: int
    last_time_ms: int


class Roll(NamedTuple):
    """When a segment is followed by another: before the record that would make it larger, or that came so much later
    than its first one."""

    size_bytes: int
    age_ms: float | None = None


class Retained(NamedTuple):
    """What a pass of retention dropped."""

    segments: int
    messages: int
    bytes: int


NOTHING_RETAINED: Final = Retained(0, 0, 0)


def surplus(pieces: Sequence[Piece], tail_bytes: int, policy: RetentionPolicy, now_ms: int) -> int:
    """How many of a partition's segments, counted from the oldest, are to go.

    Args:
        pieces: all segments, the oldest first.
        tail_bytes: what the partition holds beside them; it counts for its size and stays.
    """
    expired = 0
    if policy.age_s is not None:
        limit_ms = now_ms - policy.age_s * 1000
        times_ms = _newest_ms(pieces, now_ms)
        while expired < len(pieces) and times_ms[expired] < limit_ms:
            expired += 1
    surplus = expired
    if policy.size_bytes is not None:
        total = tail_bytes + sum(piece.size_bytes for piece in pieces[expired:])
        while surplus < len(pieces) - 1 and total - pieces[surplus].size_bytes >= policy.size_bytes:
            total -= pieces[surplus].size_bytes
            surplus += 1
    return surplus


def _newest_ms(pieces: Sequence[Piece], now_ms: int) -> list[int]:
    """When the newest message of each segment came. A time in the future is wrong and tells nothing; that segment is
    no younger than the one behind it."""
    found: list[int] = []
    behind_ms = now_ms
    for piece in reversed(pieces):
        behind_ms = piece.last_time_ms if piece.last_time_ms <= now_ms else behind_ms
        found.append(behind_ms)
    return found[::-1]


def roll_at(policy: RetentionPolicy | None, segment_bytes: int) -> Roll:
    """When segments of a partition are closed: at a tenth of what is kept, and never larger than `segment_bytes`."""
    age_s, size_bytes = (None, None) if policy is None else policy
    return Roll(
        segment_bytes if size_bytes is None else min(segment_bytes, max(_SMALLEST_BYTES, size_bytes // _PARTS)),
        None if age_s is None else max(_SHORTEST_S, age_s / _PARTS) * 1000,
    )
