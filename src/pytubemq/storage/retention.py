"""Which segments of a partition go, and when one is closed so that it can go: decisions on sizes and times alone.

The invariants: segments go oldest first, with no gap between those that stay; by age a segment goes only when its
newest message is too old, so never one whose times lie in the future; by size the last one stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.model.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.model.policy import RetentionPolicy

_PARTS: Final = 10
"""A segment holds at most about this part of what is kept, so that what is too old is at most so much more."""
_SHORTEST_S: Final = 1.0
_SMALLEST_BYTES: Final = MIB


class Piece(NamedTuple):
    """What is asked about a segment: bytes of its messages, and when its first and its last one came."""

    size_bytes: int
    first_time_ms: int
    last_time_ms: int


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
        while expired < len(pieces) and pieces[expired].last_time_ms < limit_ms:
            expired += 1
    surplus = expired
    if policy.size_bytes is not None:
        total = tail_bytes + sum(piece.size_bytes for piece in pieces[expired:])
        while surplus < len(pieces) - 1 and total > policy.size_bytes:
            total -= pieces[surplus].size_bytes
            surplus += 1
    return surplus


def is_to_be_closed(piece: Piece, policy: RetentionPolicy, now_ms: int) -> bool:
    """Whether the next messages are to begin another segment: this one has a tenth of what is kept, in age or size."""
    if policy.age_s is not None:
        longest_s = max(_SHORTEST_S, policy.age_s / _PARTS)
        if now_ms - piece.first_time_ms > longest_s * 1000:
            return True
    return policy.size_bytes is not None and piece.size_bytes > max(_SMALLEST_BYTES, policy.size_bytes // _PARTS)
