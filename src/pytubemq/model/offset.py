"""Offsets: positions in a partition, counted in units of 28 as the protocol does.

The invariant at our Brokers: a partition's offsets are dense, message n (from 0) has offset 28 * n, so the number of
messages between two offsets is exact. A Java Broker's offsets are multiples of 28 as well, but shared by all
partitions of a store, so there a difference is only an upper bound.
"""

from __future__ import annotations

from typing import Final

OFFSET_UNIT: Final = 28
"""The units of one message (the original's index entry is 28 bytes, and its offsets are positions in that index)."""


def to_offset(ordinal: int) -> int:
    """Return the offset of message number `ordinal` (from 0)."""
    return ordinal * OFFSET_UNIT


def to_ordinal(offset: int) -> int:
    """Return the number of the message at `offset`, rounded down to a whole message."""
    return offset // OFFSET_UNIT


def messages_between(start: int, end: int) -> int:
    """Return the number of messages in [start, end); never negative."""
    return max(0, end - start) // OFFSET_UNIT
