"""The content of a store that is in memory, and where the rest is: shared by the parts of a store.

The invariant: ends, tails and positions change only with `lock` held, which is for moments only; the maps themselves
stay the same objects for as long as the store is open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from pytubemq.storage.disk.paths import partition_directory
from pytubemq.storage.format.record import FORGOTTEN
from pytubemq.storage.journal.windows import Windows
from pytubemq.storage.log.lost_ranges import LostRanges
from pytubemq.storage.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.model.policy import RetentionPolicy
    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.disk.file_cache import FileCache
    from pytubemq.storage.format.record import GroupKey, PartitionKey
    from pytubemq.storage.journal.staging import Prepared


@dataclass(slots=True)
class StoreStats:
    """Counters since the store was opened."""

    blocks: int = 0
    messages: int = 0
    repeats: int = 0
    """Messages that producers sent again and that were not stored again."""
    forgotten_windows: int = 0
    """Producers that a partition dropped for want of room: it would not know a duplicate of theirs any more."""
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
    repaired_entries: int = 0
    """Index entries that were damaged, and built anew from the log."""


@dataclass(frozen=True, slots=True, eq=False)
class StoreState:
    """One store's partitions, positions and windows, and its directory."""

    disk: Disk
    root: Path
    files: FileCache
    lock: Lock = field(default_factory=Lock)
    partitions: dict[PartitionKey, PartitionLog] = field(default_factory=dict)
    confirmed: dict[GroupKey, int] = field(default_factory=dict)
    windows: Windows = field(default_factory=Windows)
    lost_ranges: LostRanges = field(default_factory=LostRanges)
    retention: dict[str, RetentionPolicy] = field(default_factory=dict)
    """By topic; one that is not there keeps everything."""
    stats: StoreStats = field(default_factory=StoreStats)

    def add_partition(self, topic: str, partition_id: int) -> PartitionLog:
        """Return a partition, made if it is not there. On disk it begins with its first message."""
        key = (topic, partition_id)
        log = self.partitions.get(key)
        if log is None:
            directory = partition_directory(self.root, topic, partition_id)
            log = self.partitions[key] = PartitionLog(topic, partition_id, directory, self.lock)
        return log

    def publish(self, block: Prepared) -> None:
        """Make the rest of a block readable; the caller holds the lock."""
        # The first ones were made readable before the block was written.
        for run in block.runs[block.readable :]:
            self.partitions[run.topic, run.partition_id].publish(run)
        # Under the same lock as the messages: who sees one of a block sees its sequence and positions, too.
        self.windows.publish(block.sequences, block.changed)
        self.confirmed.update(block.confirmed)
        # That a position was removed is journaled like a position, or a replay would bring the old one back.
        for key, offset in block.confirmed.items():
            if offset == FORGOTTEN:
                del self.confirmed[key]
