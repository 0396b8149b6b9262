"""Opening a store after whatever happened: look at everything first, then cut and replay.

The invariant: no file is changed before every file's version is known to be readable here. After it, the partition
logs end exactly where the checkpoint says, and every journal block behind the checkpoint has been handed on in order.

Partition logs are cut back to the checkpoint, also where more of them may be sound: the journal holds all of that,
checked block by block, and written again it needs no trust in what a crash left behind.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.errors import CorruptError
from pytubemq.storage.block import BLOCK_HEADER_BYTES, BLOCK_MAGIC, block_is_sound, decode_block_header
from pytubemq.storage.checkpoint import Checkpoint, read_checkpoint
from pytubemq.storage.disk import DiskFile, read_exactly
from pytubemq.storage.header import HEADER_BYTES, FileHeader, FileKind, corrupt, decode_header
from pytubemq.storage.index import INDEX_BYTES
from pytubemq.storage.journal import failed, journal_path
from pytubemq.storage.record import LogEnd, PartitionKey, Records, decode_records
from pytubemq.storage.removal import remove_empty
from pytubemq.storage.segment import Segment
from pytubemq.storage.staging import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytubemq.storage.disk import Disk
    from pytubemq.storage.run import Run

_NUMBER = r"(\d{20})"
_JOURNAL = re.compile(_NUMBER + r"\.journal")
_SEGMENT_FILE = re.compile(_NUMBER + r"\.(log|index)")


@dataclass(slots=True)
class FoundLog:
    """A partition on disk: its sound segments up to the checkpoint, and files beyond it that go."""

    topic: str
    partition_id: int
    directory: Path
    segments: list[Segment]
    end: LogEnd
    leftovers: list[Path]


@dataclass(slots=True)
class FoundJournal:
    """A journal file; `header` None means that its making was interrupted."""

    number: int
    path: Path
    header: FileHeader | None


@dataclass(slots=True)
class Found:
    """A whole store as it lies on disk; nothing was changed yet."""

    checkpoint: Checkpoint
    logs: list[FoundLog]
    journals: list[FoundJournal]
    leftovers: list[Path]
    empty: list[Path]
    """Directories of topics without a partition."""


@dataclass(slots=True)
class Resume:
    """Where the journal goes on: in `file` up to `end`, or in a new file if there is none."""

    number: int
    next_sequence: int
    last_message_id: int
    header: FileHeader | None = None
    file: DiskFile | None = None
    end: int = 0
    cut_bytes: int = 0
    """Torn bytes that were cut from the journal's end."""


# --- looking ------------------------------------------------------------------------------------------------------


def survey(disk: Disk, root: Path) -> Found:
    """Read every file's header, change nothing.

    Raises:
        NewerVersionError, CorruptError: naming the file.
    """
    checkpoint = read_checkpoint(disk, root)
    journals = _survey_journals(disk, root / "journal")
    logs = _survey_logs(disk, root / "logs", (checkpoint or Checkpoint()).ends)
    topics = [root / "logs" / name for name in sorted(disk.listdir(root / "logs"))]
    empty = [path for path in topics if not disk.listdir(path)]
    first = checkpoint.journal if checkpoint else 1
    leftovers = [journal.path for journal in journals if journal.number < first]
    kept = [journal for journal in journals if journal.number >= first]
    numbers = [journal.number for journal in kept]
    if numbers != list(range(first, first + len(numbers))) or (checkpoint and not numbers):
        missing = next(number for number in range(first, first + len(numbers) + 1) if number not in numbers)
        raise CorruptError(
            f"{journal_path(root / 'journal', missing)} is missing",
            hint="restore it from a backup; nothing was changed",
        )
    for journal in kept[:-1]:
        if journal.header is None:
            raise corrupt(journal.path, 0, "the header fails its check")
    return Found(checkpoint or Checkpoint(), logs, kept, leftovers, empty)


def _survey_journals(disk: Disk, directory: Path) -> list[FoundJournal]:
    found = []
    for name in sorted(disk.listdir(directory)):
        if match := _JOURNAL.fullmatch(name):
            path, number = directory / name, int(match[1])
            header, size = _read_header(disk, path, FileKind.JOURNAL)
            # Blocks follow only once the header is on the device, so a bad header in front of more is damage.
            if (header is None and size > HEADER_BYTES) or (header is not None and header.number != number):
                raise corrupt(path, 0, "the header fails its check")
            found.append(FoundJournal(number, path, header))
    return found


def _survey_logs(disk: Disk, directory: Path, ends: dict[PartitionKey, LogEnd]) -> list[FoundLog]:
    found = []
    missing = dict(ends)
    for topic in sorted(disk.listdir(directory)):
        for name in sorted(disk.listdir(directory / topic)):
            if name.isascii() and name.isdigit():
                end = missing.pop((topic, int(name)), LogEnd(0, 0))
                found.append(_survey_log(disk, topic, int(name), directory / topic / name, end))
    for (topic, partition_id), end in missing.items():
        if end.first_ordinal < end.ordinal:
            held = end.ordinal - end.first_ordinal
            raise CorruptError(
                f"{directory / topic / str(partition_id)} is missing; it should hold {held} messages",
                hint="restore it from a backup; nothing was changed",
            )
        found.append(FoundLog(topic, partition_id, directory / topic / str(partition_id), [], end, []))
    return found


def _survey_log(disk: Disk, topic: str, partition_id: int, directory: Path, end: LogEnd) -> FoundLog:
    log = FoundLog(topic, partition_id, directory, [], end, [])
    sizes: dict[str, int] = {}
    bases: dict[int, int] = {}
    for name in sorted(disk.listdir(directory)):
        if match := _SEGMENT_FILE.fullmatch(name):
            path, base = directory / name, int(match[1])
            header, sizes[name] = _read_header(disk, path, FileKind.LOG if match[2] == "log" else FileKind.INDEX)
            if not end.first_ordinal <= base < end.ordinal:
                log.leftovers.append(path)
            elif header is None or header.number != base or bases.setdefault(base, header.base) != header.base:
                raise corrupt(path, 0, "the header fails its check")
    log.segments = [Segment(directory, base, position) for base, position in sorted(bases.items())]
    if end.ordinal > end.first_ordinal and (not log.segments or log.segments[0].base_ordinal != end.first_ordinal):
        raise CorruptError(
            f"{directory} holds no segment that begins at message {end.first_ordinal}",
            hint="restore it from a backup; nothing was changed",
        )
    for at, segment in enumerate(log.segments):
        index_bytes = sizes.get(segment.index_path.name, 0)
        if segment is log.segments[-1]:
            next_position, segment.records = end.position, end.last_records
        else:
            next_position = log.segments[at + 1].base_position
            segment.records = max(1, (index_bytes - HEADER_BYTES) // INDEX_BYTES)
        for path, needed in (
            (segment.log_path, segment.log_size(next_position)),
            (segment.index_path, segment.index_size(segment.records)),
        ):
            if (size := sizes.get(path.name, 0)) < needed:
                raise corrupt(path, size, f"{needed - size} bytes are missing")
    return log


def _read_header(disk: Disk, path: Path, kind: FileKind) -> tuple[FileHeader | None, int]:
    file = disk.open(path)
    try:
        return decode_header(read_exactly(file, HEADER_BYTES, 0), kind, path), file.size()
    finally:
        file.close()


# --- cutting and replaying ------------------------------------------------------------------------------------------


def cut_logs(disk: Disk, found: Found) -> None:
    """Bring the partition logs back to the checkpoint, and drop files that it made superfluous."""
    for log in found.logs:
        for path in log.leftovers:
            disk.unlink(path)
        if log.segments:
            last = log.segments[-1]
            for path, size in (
                (last.log_path, last.log_size(log.end.position)),
                (last.index_path, last.index_size(last.records)),
            ):
                file = disk.open(path)
                try:
                    if file.size() > size:
                        file.truncate(size)
                finally:
                    file.close()
        elif not log.end.ordinal:  # of a topic that was being removed, or made and never used
            remove_empty(disk, log.directory)
    found.logs = [log for log in found.logs if log.end.ordinal]
    for path in found.leftovers:
        disk.unlink(path)
    for path in found.empty:
        disk.rmdir(path)


def replay(disk: Disk, found: Found, sink: Callable[[Prepared], None]) -> Resume:
    """Hand every block behind the checkpoint to `sink`, in order; cut a torn tail from the last journal file.

    Raises:
        CorruptError: a block fails its check where nothing can have been torn.
    """
    checkpoint = found.checkpoint
    resume = Resume(checkpoint.journal, checkpoint.next_sequence, checkpoint.last_message_id)
    for journal in found.journals:
        resume.number = journal.number
        if journal.header is None:
            break  # made half-way, never written to: it will be made anew
        is_first, is_last = journal.number == checkpoint.journal, journal is found.journals[-1]
        if not is_first and journal.header.base != resume.next_sequence:
            raise corrupt(journal.path, 0, f"it begins with block {journal.header.base}, not {resume.next_sequence}")
        file = disk.open(journal.path)
        try:
            # What is taken from here counts as durable from now on, so it must be: a process that was killed between
            # write and flush left pages that only the operating system knows of.
            _flush(journal.path, file)
            scan = _Scan(journal.path, file, journal.header, resume, sink)
            scan.run(checkpoint.journal_position if is_first else HEADER_BYTES, may_be_torn=is_last)
            if is_last:
                if resume.cut_bytes:
                    file.truncate(resume.end)
                    _flush(journal.path, file)
                resume.header, resume.file = journal.header, file
        finally:
            if resume.file is not file:
                file.close()
    return resume


def gap(root: Path, run: Run, end_ordinal: int) -> CorruptError:
    """The error for a journal that goes on behind what its partition's log holds."""
    return CorruptError(
        f"{root}: the journal goes on at message {run.base_ordinal} of {run.topic}:{run.partition_id}, "
        f"its log ends at {end_ordinal}",
        hint="restore the directory from a backup as a whole",
    )


def _flush(path: Path, file: DiskFile) -> None:
    try:
        file.fdatasync()
    except OSError as error:
        raise failed(path, error) from error


class _Scan:
    """One pass over the blocks of a journal file."""

    def __init__(
        self, path: Path, file: DiskFile, header: FileHeader, resume: Resume, sink: Callable[[Prepared], None]
    ) -> None:
        self._path = path
        self._file = file
        self._header = header
        self._resume = resume
        self._sink = sink
        self._size = file.size()

    def run(self, position: int, *, may_be_torn: bool) -> None:
        if self._size < position:
            raise corrupt(self._path, self._size, f"{position - self._size} bytes are missing")
        while position < self._size:
            block = self._block(position)
            if block is None:
                if not may_be_torn or self._promised_beyond(position):
                    raise corrupt(self._path, position, f"block {self._resume.next_sequence} fails its check")
                self._resume.cut_bytes = self._size - position
                break
            position = block.journal_end
            self._resume.next_sequence = block.next_sequence
            self._resume.last_message_id = max(self._resume.last_message_id, block.last_message_id)
            self._sink(block)
        self._resume.end = position

    def _block(self, position: int) -> Prepared | None:
        """The block at `position` if it is whole, sound and the one expected."""
        data = read_exactly(self._file, BLOCK_HEADER_BYTES, position)
        head = decode_block_header(data, 0, self._size - position)
        if head is None or head.sequence != self._resume.next_sequence:
            return None
        data = read_exactly(self._file, head.total_bytes, position)
        if len(data) < head.total_bytes or not block_is_sound(head, data, self._header.salt):
            return None
        meta_end = BLOCK_HEADER_BYTES + head.meta_bytes
        records = self._records(data[BLOCK_HEADER_BYTES:meta_end], data[meta_end:], position)
        if not all(run.is_sound() for run in records.runs):
            return None
        return Prepared(
            records.runs,
            records.confirmed,
            [],
            head.last_message_id,
            sum(len(run.index) + len(run.entries) for run in records.runs),
            written=True,
            journal=self._header.number,
            journal_end=position + head.total_bytes,
            next_sequence=head.sequence + 1,
        )

    def _records(self, meta: bytes, entries: bytes, position: int) -> Records:
        try:
            return decode_records(meta, entries)
        except (ValueError, struct.error) as error:
            raise corrupt(self._path, position, f"the records make no sense ({error})") from error

    def _promised_beyond(self, position: int) -> bool:
        """Whether a later block says that the one at `position` was already on the device."""
        rest = read_exactly(self._file, self._size - position, position)
        at = rest.find(BLOCK_MAGIC, 1)
        while at >= 0:
            head = decode_block_header(rest, at, len(rest) - at)
            # The salt keeps bytes inside a message, which anyone can choose, from passing for a block.
            if head is not None and block_is_sound(head, rest[at : at + head.total_bytes], self._header.salt):
                return head.synced >= self._resume.next_sequence
            at = rest.find(BLOCK_MAGIC, at + 1)
        return False
