"""The repair of the journal: its content moves into the logs, block by block; what is lost leaves a hole.

The invariant: a message is taken if it passes its own check, also from a block that is damaged elsewhere, provided that
it goes on exactly where its partition ends. Nothing counts before the checkpoint that the caller makes.
"""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import MIB
from pytubemq.storage.disk.disk import flush_directory
from pytubemq.storage.disk.file_cache import FileCache
from pytubemq.storage.disk.paths import partition_directory
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.index import decode_index_entry, encode_index_entry
from pytubemq.storage.format.record import FORGOTTEN, LossReason, LostRange
from pytubemq.storage.journal.gaps import bridge, read_remainder
from pytubemq.storage.journal.journal import journal_path, missing_journals
from pytubemq.storage.journal.log_tails import sequences_in
from pytubemq.storage.journal.windows import Windows
from pytubemq.storage.log.index_repair import Border
from pytubemq.storage.log.partition_log import Dirty, PartitionLog
from pytubemq.storage.log.retention import roll_at
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.storage.tools.read.blocks import BadBytes, walk_blocks
from pytubemq.storage.tools.read.recovered_parts import find_salt, runs_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk, DiskFile
    from pytubemq.storage.format.checkpoint import Checkpoint
    from pytubemq.storage.format.record import PartitionKey
    from pytubemq.storage.format.record_range import RecordRange
    from pytubemq.storage.journal.log_tails import LogTails
    from pytubemq.storage.tools.read.blocks import FoundBlock
    from pytubemq.storage.tools.read.files import StoreFile
    from pytubemq.storage.tools.repair_steps.partition_repair import RepairedPartition

_STEP_BYTES: Final = 32 * MIB


class JournalTaker:
    """The move of a journal into repaired partitions, and of its positions and producers into a checkpoint."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        checkpoint: Checkpoint,
        partitions: dict[PartitionKey, RepairedPartition],
        tails: LogTails,
        say: Callable[[str], None],
    ) -> None:
        """Recover from `tails`, the logs behind the checkpoint, what the journal lacks."""
        self._tails = tails
        self._disk = disk
        self._root = root
        self._checkpoint = checkpoint
        self._say = say
        self._files = FileCache(disk, limit=64)
        self._dirty = Dirty()
        self._waiting: dict[PartitionKey, int] = {}
        """The end of what was taken of each partition."""
        self._waiting_bytes = 0
        self._windows = Windows()
        self._windows.restore(checkpoint.windows)
        self._logs: dict[PartitionKey, PartitionLog] = {}
        for key, partition in partitions.items():
            self._log(key).restore(partition.segments, partition.end)
        self.lost_ranges: list[LostRange] = []
        """Messages that are lost."""
        self.unread_from: tuple[Path, int] | None = None
        """The first byte of whole blocks that are lost and that the checkpoint does not cover."""
        self._end = journal_path(root / "journal", checkpoint.journal), checkpoint.journal_position
        """The end of the last block."""
        self.taken = 0
        """Messages that only the journal had."""

    def take(self, files: Sequence[StoreFile]) -> None:
        """Take all files behind the checkpoint, in the order of their numbers."""
        for number in missing_journals(self._checkpoint.journal, [file.number for file in files]):
            self._say(f"journal file {number} is missing; what it held and the logs do not have is lost")
            self._lose_records(journal_path(self._root / "journal", number), HEADER_BYTES)
        for file in files:
            # Older ones are in the logs; they serve as copies only.
            if file.number >= self._checkpoint.journal:
                opened = self._disk.open(file.path)
                try:
                    self._file(file, opened, is_last=file is files[-1])
                finally:
                    opened.close()

    def reach(self, key: PartitionKey, ordinal: int) -> None:
        """Reserve the numbers of messages before this one: those that are nowhere are lost, and must not be numbered
        anew."""
        if self._log(key).end_ordinal < ordinal:
            self._fill(key, ordinal, 0)

    def finish(self) -> None:
        """Recover the content of the logs behind the journal's end, make everything durable, and advance the checkpoint
        to it."""
        behind = read_remainder(self._tails, self._logs)
        for run in behind.runs:
            self._publish((run.topic, run.partition_id), run)
        if behind.runs:
            # That the logs go on shows that blocks are gone, and positions and sequences with them.
            self._lose_records(*self._end)
        self._record_lost(behind.lost_ranges)
        self._windows.replay(behind.sequences)
        # Before new ids are given: those recovered from the logs may be above the checkpoint's.
        self._checkpoint.last_message_id = max(self._checkpoint.last_message_id, self._tails.last_message_id)
        if self._tails.messages:
            self._say(f"{self._tails.messages} messages that the journal lacks were recovered from the logs")
        self._apply()
        # Logs and names are on the device before the caller makes the checkpoint that speaks of them.
        for name in sorted(name for item in self._dirty.segments for name in (item.log_name, item.index_name)):
            with self._files.borrow(name) as file:
                file.fdatasync()
        for directory in sorted(self._dirty.directories):
            flush_directory(self._disk, directory)
        self._files.close()
        self._checkpoint.ends |= {key: log.applied_end for key, log in self._logs.items() if log.applied_ordinal}
        self._checkpoint.windows = self._windows.snapshot()

    def _file(self, file: StoreFile, opened: DiskFile, *, is_last: bool) -> None:
        salt = file.header.salt if file.header is not None else find_salt(opened)
        if salt is None:
            if file.size_bytes > HEADER_BYTES:
                self._say(f"{file.path}: {file.size_bytes} bytes cannot be read: the header is damaged")
                self._lose_records(file.path, HEADER_BYTES)
            return
        start = HEADER_BYTES
        if file.number == self._checkpoint.journal:
            start = max(start, self._checkpoint.journal_position)
        for found in walk_blocks(opened, salt, start, file.size_bytes):
            if isinstance(found, BadBytes):
                self._bad(file, opened, found)
                if not is_last or found.position + found.size_bytes < file.size_bytes:  # else the end is torn
                    self._lose_records(file.path, found.position)
            else:
                self._block(found)
                self._end = file.path, found.end
            if self._waiting_bytes > _STEP_BYTES:
                self._apply()

    def _block(self, block: FoundBlock) -> None:
        checkpoint = self._checkpoint
        for run in block.records.runs:
            self._run(run)
        if block.head.sequence >= checkpoint.known_sequence:  # the checkpoint has what came of those before
            self._windows.replay(block.records.sequences)
            for key, offset in block.records.confirmed.items():
                if offset == FORGOTTEN:
                    checkpoint.confirmed.pop(key, None)
                else:
                    checkpoint.confirmed[key] = offset
        checkpoint.last_message_id = max(checkpoint.last_message_id, block.head.last_message_id)
        checkpoint.next_sequence = max(checkpoint.next_sequence, block.head.sequence + 1)

    def _bad(self, file: StoreFile, opened: DiskFile, bad: BadBytes) -> None:
        """Take from a block that fails its check what continues a partition at its end: that is proof enough."""
        taken = 0
        for run in runs_in(opened, bad):
            log = self._logs.get((run.topic, run.partition_id))
            if log is None or (run.base_ordinal, run.base_position) != (log.end_ordinal, log.end_position):
                continue
            if run.damaged_records() is not None:
                self._run(run)
                taken += run.count
        # It took a number, so later blocks stay in order.
        self._checkpoint.next_sequence += 1
        self._say(f"{file.path}: a damaged block at byte {bad.position}, {taken} messages of it are proven and kept")

    def _lose_records(self, path: Path, position: int) -> None:
        self.unread_from = self.unread_from or (path, position)

    def _run(self, run: RecordRange) -> None:
        key = (run.topic, run.partition_id)
        log = self._log(key)
        # The log has it already.
        if run.end_ordinal <= log.end_ordinal:
            return
        run = run.from_ordinal(log.end_ordinal)
        if run.base_ordinal > log.end_ordinal:
            self._fill(key, run.base_ordinal, max(0, run.base_position - log.end_position))
        # Offsets stay in any case; the bytes go to where the log ends now.
        if run.base_position != log.end_position:
            run = _move(run, log.end_position)
        damaged = run.damaged_records()
        if damaged:
            run = self._tails.whole(run, damaged)
            damaged = run.damaged_records()
        if damaged:
            for number in damaged:
                entry = run.entry(number)
                self._lose(key, entry.first_ordinal, entry.end_ordinal)
            run = run.with_holes(damaged)
        # An index that cannot be read says nothing of its records; the gap shows with the next run.
        if damaged is not None:
            self.taken += run.count
            self._publish(key, run)

    def _fill(self, key: PartitionKey, ordinal: int, size_bytes: int) -> None:
        """Recover the content of the logs up to a message, with holes between."""
        log = self._log(key)
        begin, end = Border(log.end_ordinal, log.end_position), Border(ordinal, log.end_position + size_bytes)
        taken = self._tails.between(key, begin, end)
        runs, lost_ranges = bridge(key, begin, end, taken, log.last_time_ms)
        for run in runs:
            self._publish(key, run)
        self._windows.replay(sequences_in(taken))
        self._record_lost(lost_ranges)

    def _publish(self, key: PartitionKey, run: RecordRange) -> None:
        self._log(key).publish(run)
        self._waiting[key] = run.end_ordinal
        self._waiting_bytes += run.size_bytes

    def _apply(self) -> None:
        roll = roll_at(None, StoreSettings().segment_bytes)
        for key, end in self._waiting.items():
            # By the code that a running Broker writes its logs with.
            self._logs[key].apply(end, self._files, self._dirty, roll)
        self._waiting, self._waiting_bytes = {}, 0

    def _lose(self, key: PartitionKey, start: int, end: int) -> None:
        self._record_lost([LostRange(*key, start, end, LossReason.JOURNAL)])

    def _record_lost(self, lost_ranges: Sequence[LostRange]) -> None:
        self.lost_ranges += lost_ranges
        for one in lost_ranges:
            self._say(
                f"{one.topic}:{one.partition_id}: messages {one.from_ordinal} to {one.to_ordinal - 1} are lost: "
                "neither log nor journal has them"
            )

    def _log(self, key: PartitionKey) -> PartitionLog:
        log = self._logs.get(key)
        if log is None:
            directory = partition_directory(self._root, *key)
            log = self._logs[key] = PartitionLog(*key, directory, Lock())
        return log


def _move(run: RecordRange, position: int) -> RecordRange:
    """Return the run at another place among its partition's bytes."""
    shift = position - run.base_position
    entries = (decode_index_entry(run.index, at) for at in range(run.records))
    index = b"".join(
        encode_index_entry(*entry._replace(position=entry.position + shift)) for entry in entries if entry is not None
    )
    return replace(run, base_position=position, index=index)
