"""The check of the journal: every file, every block and every message in it, and that it continues where the logs end.

The invariant: all bytes of all journal files are looked at. Behind the checkpoint everything counts; before it nothing
is needed any more, so damage there is reported and is harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.model.offset import to_offset
from pytubemq.storage.format.checkpoint import NAME as CHECKPOINT
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.index import decode_index_entry
from pytubemq.storage.journal.journal import journal_path, missing_journals
from pytubemq.storage.tools.check.findings import Finding, Severity
from pytubemq.storage.tools.read.blocks import BadBytes, FoundBlock, walk_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.format.checkpoint import Checkpoint
    from pytubemq.storage.format.header import FileHeader
    from pytubemq.storage.format.record import PartitionKey
    from pytubemq.storage.format.record_range import RecordRange
    from pytubemq.storage.tools.read.files import StoreFile


def check_journal(
    disk: Disk,
    root: Path,
    files: Sequence[StoreFile],
    checkpoint: Checkpoint,
    progress: Callable[[int], None],
    *,
    topic: str | None = None,
    ends_known: bool = True,
) -> Iterator[Finding]:
    """Yield everything that is wrong with the journal.

    Args:
        topic: limits what is said of messages, not of blocks.
        ends_known: True if the checkpoint has the ends of the logs.
    """
    check = _Check(disk, checkpoint, progress, topic, ends_known=ends_known)
    numbers = {file.number for file in files}
    # A Broker makes its first journal file before its first checkpoint; without either the store was never used.
    if numbers or disk.exists(root / CHECKPOINT):
        for number in missing_journals(checkpoint.journal, numbers):
            what = "is missing; a repair recovers what the logs have of it"
            yield Finding(path=journal_path(root / "journal", number), what=what)
    for file in files:
        yield from check.file(file, is_last=file is files[-1])


class _Check:
    def __init__(
        self,
        disk: Disk,
        checkpoint: Checkpoint,
        progress: Callable[[int], None],
        topic: str | None,
        *,
        ends_known: bool,
    ) -> None:
        self._disk = disk
        self._checkpoint = checkpoint
        self._progress = progress
        self._topic = topic
        self._ends_known = ends_known
        self._sequence = checkpoint.next_sequence
        # Moves on with each run: the first one behind it shows a gap, and those that follow do not again.
        self._ends: dict[PartitionKey, int] = {key: end.ordinal for key, end in checkpoint.ends.items()}

    def file(self, file: StoreFile, *, is_last: bool) -> Iterator[Finding]:
        """Check one file, in the order of numbers."""
        checkpoint = self._checkpoint
        if file.number < checkpoint.journal:
            yield Finding(path=file.path, what="is no longer needed", severity=Severity.HARMLESS)
            return
        if file.header is None:
            yield Finding(path=file.path, what="the header fails its check", size_bytes=HEADER_BYTES)
            return
        start = HEADER_BYTES
        if file.number == checkpoint.journal:
            start = checkpoint.journal_position
            # Read all the same: damage there shows a disk that loses bytes.
            yield from self._needless(file, file.header, min(start, file.size_bytes))
            if file.size_bytes < start:
                missing = start - file.size_bytes
                yield Finding(path=file.path, what="is too short", position=file.size_bytes, size_bytes=missing)
                return
        elif file.header.base != self._sequence:
            yield Finding(path=file.path, what=f"begins with block {file.header.base}, not {self._sequence}")
            # Goes on as this file says, so that one missing file is one finding.
            self._sequence = max(self._sequence, file.header.base)
        yield from self._needed(file, file.header, start, is_last=is_last)

    def _needless(self, file: StoreFile, header: FileHeader, stop: int) -> Iterator[Finding]:
        opened = self._disk.open(file.path)
        try:
            for found in walk_blocks(opened, header.salt, HEADER_BYTES, stop, sequence=header.base):
                self._progress(found.size_bytes if isinstance(found, BadBytes) else found.head.total_bytes)
                if isinstance(found, BadBytes):
                    what = "a block fails its check; what it held is in the logs"
                    yield self._bytes(file, found, what, Severity.HARMLESS)
                else:
                    for finding in self._messages(file, found):
                        yield Finding(
                            path=file.path,
                            what="a message fails its check; it is in the logs",
                            severity=Severity.HARMLESS,
                            position=finding.position,
                            size_bytes=finding.size_bytes,
                        )
        finally:
            opened.close()

    def _needed(self, file: StoreFile, header: FileHeader, start: int, *, is_last: bool) -> Iterator[Finding]:
        opened = self._disk.open(file.path)
        try:
            for found in walk_blocks(opened, header.salt, start, file.size_bytes, sequence=self._sequence):
                self._progress(found.size_bytes if isinstance(found, BadBytes) else found.head.total_bytes)
                if isinstance(found, BadBytes):
                    # A torn write and a damaged last block look alike, so the finding says both.
                    at_end = is_last and found.position + found.size_bytes == file.size_bytes
                    torn = "the journal's end is torn, which loses nothing that was acknowledged, or damaged"
                    yield self._bytes(file, found, torn if at_end else "a block fails its check", Severity.DAMAGE)
                    continue
                self._sequence = found.head.sequence + 1
                yield from self._messages(file, found)
                for run in found.records.runs:
                    yield from self._follows(file, found, run)
        finally:
            opened.close()

    def _follows(self, file: StoreFile, block: FoundBlock, run: RecordRange) -> Iterator[Finding]:
        key = (run.topic, run.partition_id)
        end = self._ends.get(key, 0)
        # Without a checkpoint no run would seem to follow on anything.
        if self._ends_known and run.base_ordinal > end and self._topic in (None, run.topic):
            yield Finding(
                path=file.path,
                what="the journal goes on behind messages that are nowhere",
                position=block.position,
                topic=run.topic,
                partition_id=run.partition_id,
                from_offset=to_offset(end),
                to_offset=to_offset(run.base_ordinal),
            )
        self._ends[key] = max(end, run.end_ordinal)

    def _messages(self, file: StoreFile, block: FoundBlock) -> Iterator[Finding]:
        """Yield the messages of a block that fail their own checks."""
        at = block.end - sum(len(run.entries) for run in block.records.runs)
        for run in block.records.runs:
            damaged = run.damaged_records()
            # Where the entries themselves fail, every record of the run is in doubt.
            for record in range(run.records) if damaged is None else damaged:
                entry = decode_index_entry(run.index, record)
                if self._topic not in (None, run.topic):
                    continue
                yield Finding(
                    path=file.path,
                    what="a record fails its check" if damaged is not None else "index entries fail their checks",
                    position=at if entry is None else at + entry.position - run.base_position,
                    size_bytes=0 if entry is None else entry.size_bytes,
                    topic=run.topic,
                    partition_id=run.partition_id,
                    from_offset=to_offset(run.base_ordinal if entry is None else entry.first_ordinal),
                    to_offset=to_offset(run.end_ordinal if entry is None else entry.end_ordinal),
                )
            at += len(run.entries)

    def _bytes(self, file: StoreFile, found: BadBytes, what: str, severity: Severity) -> Finding:
        return Finding(
            path=file.path, what=what, severity=severity, position=found.position, size_bytes=found.size_bytes
        )
