"""Checkpoints of a running store: what was written is flushed, how far it reaches is recorded, older journal files go.

The invariant: a checkpoint speaks only of what is on the device, and a journal file goes only after a checkpoint that
no longer needs it is there. Whatever fails half-way is done again by the next call.
"""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.observe.trace_events import PARTITION
from pytubemq.storage.disk.disk import flush_directory, open_file
from pytubemq.storage.disk.file_cache import LostFileError
from pytubemq.storage.format.checkpoint import Checkpoint, write_checkpoint
from pytubemq.storage.format.index import INDEX_BYTES
from pytubemq.storage.journal.journal import journal_path
from pytubemq.storage.log.partition_log import Dirty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytubemq.storage.format.record import LogEnd, PartitionKey
    from pytubemq.storage.journal.staging import Prepared
    from pytubemq.storage.journal.store_state import StoreState
    from pytubemq.storage.log.partition_log import PartitionLog
    from pytubemq.storage.log.segment import Segment
    from pytubemq.storage.store_settings import StoreSettings

_FILES: Final = 4
"""A checkpoint is due after so many journal files also if they hold little but positions."""
_BLOCK_S: Final = 20e-6
"""Measured seconds to replay a block, a run, a record, and a position or a producer's sequence (`_NOTE_S`)."""
_RUN_S: Final = 8e-6
_RECORD_S: Final = 1.5e-6
_NOTE_S: Final = 4e-6
_TOUCHED_S: Final = 100e-6
"""Measured seconds that a start takes for a segment written since the checkpoint: to survey it, truncate it and write
to it again."""
_REST: Final = 10
"""Checkpoints that shorten the next start take at most one part in this many of the time."""


class JournalPosition(NamedTuple):
    """A position in the journal behind a block; all before it is in the logs once this is reached."""

    journal: int
    journal_position: int
    next_sequence: int
    last_message_id: int


class Checkpoints:
    """The checkpoints of a store, one after the other; for the thread that applies, but `published`, which is called
    with the store's lock held."""

    def __init__(
        self, state: StoreState, settings: StoreSettings, *, last: Checkpoint, damaged: Mapping[PartitionKey, LogEnd]
    ) -> None:
        """Go on from the checkpoint on the device; `damaged` has the ends of logs that lack a file, and such an end
        stays until something is appended."""
        self.dirty = Dirty()
        """Files written since the last one."""
        self.made = 0
        self._state = state
        self._settings = settings
        self.published_s = 0.0
        """Seconds to replay all that was published since the store was opened."""
        self._reached_s = 0.0
        """The part of it up to which everything is in the logs."""
        self._made_s = 0.0
        """The part of it that the last checkpoint covers."""
        # Holds back only checkpoints that shorten a start or save losses, never those that bound the journal.
        self._rest_until_s = 0.0
        self._damaged = dict(damaged)
        self._last = last
        """The checkpoint on the device; its ends and offsets are not kept."""
        self._newest_journal = 0
        """The journal file with the block published last."""
        self._newest_flushed = True
        """True if that block is known to be on the device."""
        self._known_sequence = last.known_sequence
        """Positions and windows are as of the block before this one."""
        self._is_urgent = False
        self._since_bytes = 0
        self._unflushed = 0
        """The segments in `dirty` that the last checkpoint could not flush; another one soon could not, either."""

    def record_publication(self, block: Prepared) -> None:
        """Record that positions and windows are now as of behind this block."""
        self._newest_journal, self._newest_flushed = block.journal, block.flushed
        # A replay also brings blocks from before the checkpoint's positions; these must not set them back.
        self._known_sequence = max(self._known_sequence, block.next_sequence)
        # An estimate of what a start would take for this block; `replay_s` bounds the sum. Bytes alone would not:
        # small messages take longer for each byte.
        notes = len(block.confirmed) + len(block.sequences)
        records = sum([len(run.index) for run in block.runs]) // INDEX_BYTES
        self.published_s += _BLOCK_S + _RUN_S * len(block.runs) + _RECORD_S * records + _NOTE_S * notes

    def record_reach(self, published_s: float) -> None:
        """Record that all that had been published when `published_s` was read is in the logs."""
        self._reached_s = published_s

    def record_applied(self, size_bytes: int) -> None:
        """Record how many bytes were written into the logs."""
        self._since_bytes += size_bytes

    def make_urgent(self) -> None:
        """Make the next checkpoint due as soon as it lets a journal file go."""
        self._is_urgent = True

    def is_due(self, reached: JournalPosition | None) -> bool:
        """True if one is due now that all before `reached` is in the logs; None: nothing more than before."""
        # Losses make one due although nothing was applied; the rest keeps damage that is met
        # record by record from costing a checkpoint each time.
        return (self.has_losses and monotonic() >= self._rest_until_s) or (
            reached is not None
            and (
                reached.journal - self._last.journal >= _FILES
                or self._since_bytes >= self._settings.checkpoint_bytes
                or (self._replay_s >= self._settings.replay_s and monotonic() >= self._rest_until_s)
                or (self._is_urgent and reached.journal > self._last.journal)
            )
        )

    @property
    def _replay_s(self) -> float:
        """The estimated seconds of a start for what is in the logs and not in the last checkpoint."""
        # Few messages in each of thousands of partitions take it longer than the same in few.
        touched = len(self.dirty.segments) - self._unflushed
        return self._reached_s - self._made_s + _TOUCHED_S * touched

    @property
    def has_losses(self) -> bool:
        """True if messages were found lost that the last checkpoint does not name: a restart would forget them."""
        return not self._state.lost_ranges.is_saved

    def end_of(self, key: PartitionKey, log: PartitionLog, dropped: int = 0) -> LogEnd:
        """Return the end of a log without its first segments."""
        # A log that lacks a file shows less than it has had, so its end stays what the last checkpoint says.
        known = self._damaged.get(key)
        return known if known is not None and known.ordinal == log.applied_ordinal else log.end_without(dropped)

    def is_whole(self, key: PartitionKey) -> None:
        """Record that the files of a partition are there again."""
        self._damaged.pop(key, None)

    def make(
        self,
        reached: JournalPosition | None,
        mark_unusable: Callable[[PartitionLog, str], None],
        *,
        without: str | None = None,
        dropped: Mapping[PartitionKey, int] | None = None,
    ) -> None:
        """Write down how far the logs reach, but for those of a topic that goes and for segments that do.

        Args:
            reached: all before it is in the logs; None: the same place as before.
            mark_unusable: called with each partition that lacks a file, and the reason.
            without: a topic that goes.
            dropped: how many of its oldest segments a partition lets go of.

        Raises:
            OSError: the checkpoint before still counts; call again.
        """
        last = self._last
        begun_s = monotonic()
        # Logs first: the checkpoint may only name what is on the device. Then positions and windows are copied, which
        # may be newer than the logs, as the journal has them.
        lost = self._flush(mark_unusable)
        # In one go: positions, windows and the sequence up to which they go must be of the same block.
        with self._state.lock:
            confirmed = {key: offset for key, offset in self._state.confirmed.items() if key[1] != without}
            windows = self._state.windows.snapshot(without=without)
            newest_journal, newest_flushed = self._newest_journal, self._newest_flushed
            known_sequence = self._known_sequence
        if newest_journal and not newest_flushed:
            # The checkpoint must not know more than the journal does after a power loss: all that was confirmed or
            # numbered when positions and windows were copied is on the device now (older journal files were flushed
            # when they were closed).
            self._flush_journal(newest_journal)
        ends = self._ends(without, dropped or {})
        known = self._state.lost_ranges
        known.is_saved = True  # before they are copied, so that one that comes meanwhile is saved next time
        lost_ranges = [lost_range for lost_range in known.all() if lost_range.topic != without]
        # Without a new place a start replays from the same block as before, and leaves out what the logs have.
        place = reached or JournalPosition(
            last.journal, last.journal_position, last.next_sequence, last.last_message_id
        )
        made = Checkpoint(*place, known_sequence, ends, confirmed, windows, lost_ranges)
        try:
            write_checkpoint(self._state.disk, self._state.root, made)
        except BaseException:
            known.is_saved = False
            raise
        # Only now that the new checkpoint is on the device: until then a start needs these files.
        for number in range(last.journal, made.journal):
            with suppress(OSError):  # what stays behind is removed when the store is opened next
                self._state.disk.unlink(journal_path(self._state.root / "journal", number))
        made.forget()
        self._last, self._since_bytes = made, 0
        # What could not be flushed stays due: a later checkpoint must not speak of it before.
        self.dirty, self._unflushed = Dirty(lost), len(lost)
        self._is_urgent = False
        if reached is not None:
            self._made_s = self._reached_s
        ended_s = monotonic()
        self._rest_until_s = ended_s + _REST * (ended_s - begun_s)
        self.made += 1
        PARTITION.record("checkpoint", journal=made.journal, partitions=len(ends), positions=len(confirmed))

    def _ends(self, without: str | None, dropped: Mapping[PartitionKey, int]) -> dict[PartitionKey, LogEnd]:
        return {
            key: self.end_of(key, log, dropped.get(key, 0))
            for key, log in list(self._state.partitions.items())
            # Of a partition without a message on disk there is nothing to write down.
            if log.applied_ordinal and log.topic != without
        }

    def _flush_journal(self, number: int) -> None:
        # Through a handle of its own, as the writer's belongs to its
        # thread. A flush covers a file, whoever wrote to it.
        file = open_file(self._state.disk, journal_path(self._state.root / "journal", number))
        try:
            file.fdatasync()
        finally:
            file.close()

    def _flush(self, mark_unusable: Callable[[PartitionLog, str], None]) -> dict[Segment, PartitionLog]:
        """Flush everything written into the logs since the last checkpoint; return what could not be flushed because
        its files are not to be had. It is flushed when they are."""
        dirty = self.dirty
        lost: dict[Segment, PartitionLog] = {}
        files = 2 * len(dirty.segments) + len(dirty.begun)
        # Many fsync calls take longer than one syncfs for the whole file system.
        if files >= self._settings.whole_disk_from and self._state.disk.sync_all(self._state.root):
            return lost
        for segment, log in sorted(dirty.segments.items(), key=lambda item: item[0].log_name):
            try:
                for path in (segment.log_name, segment.index_name):
                    with self._state.files.borrow(path) as file:
                        file.fdatasync()
            except LostFileError as error:
                # Retention or a removal may have dropped it meanwhile; then there is nothing left to keep.
                if segment in log.segments:
                    mark_unusable(log, error.text)
                    lost[segment] = log
        for directory in sorted(dirty.directories):
            try:
                flush_directory(self._state.disk, directory)
            # A directory that somebody removed is trouble of its partitions, and no reason to save nothing.
            except (FileNotFoundError, NotADirectoryError):
                for log in set(dirty.segments.values()):
                    if directory in (log.directory, log.directory.parent):
                        mark_unusable(log, f"{directory} is missing")
        return lost
