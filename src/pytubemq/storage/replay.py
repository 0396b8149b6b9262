"""Reading the journal again: every block behind the checkpoint is handed on in order.

The invariants: what is handed on is on the device by then; a block that was never promised and fails its check ends the
journal and is cut, with all behind it; one that was promised and fails is passed over and reported, never taken for the
end. Of a damaged block whose head and records are sound only the damaged messages are lost.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.errors import CorruptError
from pytubemq.storage.block import (
    BLOCK_HEADER_BYTES,
    BLOCK_MAGIC,
    BlockHeader,
    block_is_sound,
    decode_block_header,
)
from pytubemq.storage.disk import read_exactly
from pytubemq.storage.header import HEADER_BYTES, corrupt
from pytubemq.storage.journal import failed
from pytubemq.storage.record import Fence, FenceReason, decode_records
from pytubemq.storage.run import hole
from pytubemq.storage.staging import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytubemq.storage.disk import Disk, DiskFile
    from pytubemq.storage.header import FileHeader
    from pytubemq.storage.partition_log import PartitionLog
    from pytubemq.storage.record import PartitionKey, Records
    from pytubemq.storage.recovery import Found
    from pytubemq.storage.run import Run


class Loss(NamedTuple):
    """Bytes of the journal that were promised to be on the device and fail their check."""

    path: Path
    position: int
    size_bytes: int


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
    losses: list[Loss] = field(default_factory=list)
    """Damage that was passed over."""
    fences: list[Fence] = field(default_factory=list)
    """Messages that are lost, as far as a damaged block itself tells them."""


def replay(disk: Disk, found: Found, sink: Callable[[Prepared, Sequence[Loss]], None]) -> Resume:
    """Hand every block behind the checkpoint to `sink`, in order and with the losses before it; cut a torn tail from
    the last journal file.

    Raises:
        CorruptError: a file has the wrong place among the others, or something passed its check and makes no sense.
    """
    checkpoint = found.checkpoint
    resume = Resume(checkpoint.journal, checkpoint.next_sequence, checkpoint.last_message_id)
    for journal in found.journals:
        resume.number = journal.number
        if journal.header is None:
            break  # made half-way, never written to: it will be made anew
        is_first, is_last = journal.number == checkpoint.journal, journal is found.journals[-1]
        if not is_first:
            _enter(journal.path, journal.header, resume)
        file = disk.open(journal.path)
        try:
            # What is taken from here counts as durable from now on, so it must be: a process that was killed between
            # write and flush left pages that only the operating system knows of.
            _flush(journal.path, file)
            scan = _Scan(journal.path, file, journal.header, resume, sink)
            scan.run(checkpoint.journal_position if is_first else HEADER_BYTES, is_last=is_last)
            if is_last:
                if resume.cut_bytes:
                    file.truncate(resume.end)
                    _flush(journal.path, file)
                resume.header, resume.file = journal.header, file
        finally:
            if resume.file is not file:
                file.close()
    return resume


def _enter(path: Path, header: FileHeader, resume: Resume) -> None:
    """Go on with the file that follows; where the end of the one before was lost, it tells the next block."""
    if header.base != resume.next_sequence:
        if header.base < resume.next_sequence or not resume.losses:
            raise corrupt(path, 0, f"it begins with block {header.base}, not {resume.next_sequence}")
        resume.next_sequence = header.base


def _flush(path: Path, file: DiskFile) -> None:
    try:
        file.fdatasync()
    except OSError as error:
        raise failed(path, error) from error


class _Scan:
    """One pass over the blocks of a journal file."""

    def __init__(
        self,
        path: Path,
        file: DiskFile,
        header: FileHeader,
        resume: Resume,
        sink: Callable[[Prepared, Sequence[Loss]], None],
    ) -> None:
        self._path = path
        self._file = file
        self._header = header
        self._resume = resume
        self._sink = sink
        self._size = file.size()

    def run(self, position: int, *, is_last: bool) -> None:
        """Hand on all blocks from `position` to the end of the file."""
        if self._size < position:
            if is_last:
                raise corrupt(self._path, self._size, f"{position - self._size} bytes are missing")
            self._lose(self._size, self._size)
        while position < self._size:
            block = self._block(position)
            if block is not None and not self._damage(block):
                position = self._take(block)
                continue
            following = self._following(position)
            if is_last and (following is None or following[1].synced < self._resume.next_sequence):
                self._resume.cut_bytes = self._size - position
                break
            if block is not None:
                self._lose(position, block.journal_end)
                position = self._take(self._salvaged(block))
            elif following is not None:
                self._lose(position, following[0])
                position, self._resume.next_sequence = following[0], following[1].sequence
            else:
                self._lose(position, self._size)
                position = self._size
        self._resume.end = position

    def _take(self, block: Prepared) -> int:
        self._resume.next_sequence = block.next_sequence
        self._resume.last_message_id = max(self._resume.last_message_id, block.last_message_id)
        self._sink(block, self._resume.losses)
        return block.journal_end

    def _lose(self, start: int, end: int) -> None:
        self._resume.losses.append(Loss(self._path, start, end - start))

    def _block(self, position: int) -> Prepared | None:
        """The block at `position` if it is the one expected and its head and records are sound."""
        data = read_exactly(self._file, BLOCK_HEADER_BYTES, position)
        head = decode_block_header(data, 0, self._size - position)
        if head is None or head.sequence != self._resume.next_sequence:
            return None
        data = read_exactly(self._file, head.total_bytes, position)
        if len(data) < head.total_bytes or not block_is_sound(head, data, self._header.salt):
            return None
        view = memoryview(data)
        meta_end = BLOCK_HEADER_BYTES + head.meta_bytes
        records = self._records(bytes(view[BLOCK_HEADER_BYTES:meta_end]), view[meta_end:], position)
        return Prepared(
            records.runs,
            records.confirmed,
            [],
            head.last_message_id,
            sum(run.size_bytes for run in records.runs),
            messages=sum(run.count for run in records.runs),
            sequences=records.sequences,
            written=True,
            flushed=True,
            journal=self._header.number,
            journal_end=position + head.total_bytes,
            next_sequence=head.sequence + 1,
        )

    def _records(self, meta: bytes, entries: memoryview, position: int) -> Records:
        try:
            return decode_records(meta, entries)
        except (ValueError, struct.error) as error:
            raise corrupt(self._path, position, f"the records make no sense ({error})") from error

    def _damage(self, block: Prepared) -> bool:
        """Whether bytes of messages fail their check."""
        return not all(run.is_sound() for run in block.runs)

    def _salvaged(self, block: Prepared) -> Prepared:
        """The block with holes where messages are damaged."""
        block.runs = [self._salvage(run) for run in block.runs]
        return block

    def _salvage(self, run: Run) -> Run:
        damaged = run.damaged_records()
        if damaged is None:
            raise corrupt(self._path, 0, f"the index entries of {run.topic}:{run.partition_id} make no sense")
        salvaged = run.with_holes(damaged)
        for entry in salvaged.holes():
            self._resume.fences.append(
                Fence(run.topic, run.partition_id, entry.first_ordinal, entry.end_ordinal, FenceReason.JOURNAL)
            )
        return salvaged

    def _following(self, position: int) -> tuple[int, BlockHeader] | None:
        """Where the next sound block behind `position` begins, if there is one."""
        rest = read_exactly(self._file, self._size - position, position)
        view = memoryview(rest)
        at = rest.find(BLOCK_MAGIC, 1)
        while at >= 0:
            head = decode_block_header(rest, at, len(rest) - at)
            # The salt keeps bytes inside a message, which anyone can choose, from passing for a block.
            if (
                head is not None
                and head.sequence > self._resume.next_sequence
                and block_is_sound(head, view[at : at + head.total_bytes], self._header.salt)
            ):
                return position + at, head
            at = rest.find(BLOCK_MAGIC, at + 1)
        return None


def fit(block: Prepared, log_of: Callable[[str, int], PartitionLog], losses: Sequence[Loss], root: Path) -> list[Fence]:
    """Bring a block's runs to where their logs end: what these hold already is left out, and what the block goes on
    behind, because blocks before it were lost, becomes a hole. Returns the messages lost so.

    Raises:
        CorruptError: it goes on behind the end of a log, and nothing was lost.
    """
    runs: list[Run] = []
    fences: list[Fence] = []
    ends: dict[PartitionKey, tuple[int, int]] = {}
    for run in block.runs:
        key = (run.topic, run.partition_id)
        log = log_of(*key)
        ordinal, position = ends.get(key, (log.end_ordinal, log.end_position))
        if run.base_ordinal > ordinal:
            if not losses or run.base_position < position:
                raise _gap(root, run, ordinal)
            count, size_bytes = run.base_ordinal - ordinal, run.base_position - position
            time_ms = log.last_time_ms
            runs.append(hole(*key, ordinal, position, count=count, size_bytes=size_bytes, append_time_ms=time_ms))
            fences.append(Fence(*key, ordinal, run.base_ordinal, FenceReason.JOURNAL))
        if run.end_ordinal > ordinal:
            runs.append(run.from_ordinal(ordinal))
            ends[key] = run.end_ordinal, run.end_position
    block.runs, block.size_bytes = runs, sum(run.size_bytes for run in runs)
    return fences


def _gap(root: Path, run: Run, end_ordinal: int) -> CorruptError:
    return CorruptError(
        f"{root}: the journal goes on at message {run.base_ordinal} of {run.topic}:{run.partition_id}, "
        f"its log ends at {end_ordinal}",
        hint="restore the directory from a backup as a whole",
    )
