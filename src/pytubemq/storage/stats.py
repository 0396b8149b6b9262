"""What a store counts.

The invariant: a count never goes down while the store is open.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StoreStats:
    """Counters since the store was opened."""

    blocks: int = 0
    messages: int = 0
    repeats: int = 0
    """Messages that producers sent again and that were not stored again."""
    forgotten_windows: int = 0
    """Producers that a partition let go of for want of room: it would not know a repeat of theirs any more."""
    journal_bytes: int = 0
    full_refusals: int = 0
    """Batches refused for want of space."""
    replayed_messages: int = 0
    cut_bytes: int = 0
    """Torn bytes cut from the journal's end when it was opened."""
    lost_journal_bytes: int = 0
    """Bytes of the journal that were promised and could not be read any more when the store was opened."""
    fenced_messages: int = 0
    """Messages found to be lost to damage, those known from before included."""
    recovered_messages: int = 0
    """Messages that a damaged journal lacked and that were recovered from the logs when the store was opened."""
    mended_entries: int = 0
    """Index entries that were damaged, and built anew from the log."""
