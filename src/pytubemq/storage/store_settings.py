"""Settings of one Broker's store, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pytubemq.model.durability import Durability
from pytubemq.model.limits import KIB, MAX_UNAPPLIED_BYTES, MIB

MAX_PADDING_BYTES: Final = 256 * KIB
"""A journal file grows by so much at a time at most while blocks are small: a flush that must not write down a new
length takes two thirds of the time, and does not wait for what others do to the file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Settings of a store; sizes in bytes."""

    durability: Durability = Durability.DISK
    """The durability of topics for which `set_durability` says nothing."""
    segment_bytes: int = 128 * MIB
    """A partition's log file is followed by another beyond this."""
    journal_segment_bytes: int = 64 * MIB
    """A journal file is followed by another beyond this."""
    journal_padding_bytes: int = MAX_PADDING_BYTES
    """The journal's file grows by so many zeros ahead of small blocks; 0 for none."""
    checkpoint_bytes: int = 256 * MIB
    """After so much was moved into the logs comes the next checkpoint: about what a start has to replay at most."""
    replay_s: float = 1.5
    """The bound on a replay as the time that a start would take for it, which is long for small messages."""
    reserve_bytes: int = MAX_UNAPPLIED_BYTES + 64 * MIB
    """Free space that sends may not use: what was accepted must still fit into its log."""
    max_open_files: int = 256
    whole_disk_from: int = 200
    """A checkpoint that has to flush so many files flushes the whole file system instead, which then costs less."""
    check_on_read: bool = True
    """True if each record's check is computed when it is read from disk; an index entry's always is.

    Without it one changed bit in the frame of a single message makes the whole response unreadable, and a reader cannot
    go on behind it."""
    check_packs_on_read: bool = True
    """True if that is done where batches are read, which costs little for each message."""
