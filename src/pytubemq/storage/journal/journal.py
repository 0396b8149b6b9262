"""The journal: one append-only sequence of blocks per Broker, many messages a block.

The invariant: `end` is the end of the last block that was written whole; whatever is behind it, from a write that
failed, is cut or overwritten before the next block counts. A block with anything that was promised to be on the device
counts only after fdatasync. Behind `end` there may be padding: fewer zeros than MAX_PADDING_BYTES, so that the flush of
a small block finds the file as long as it was and has nothing but data to write.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pytubemq.errors import DiskFailedError, DiskFullError, OutOfResourcesError
from pytubemq.model.limits import MIB
from pytubemq.storage.disk.disk import NotOpenedError, flush_directory, open_file, read_exactly, write_all
from pytubemq.storage.format.block import encode_block_header
from pytubemq.storage.format.header import HEADER_BYTES, FileHeader, FileKind
from pytubemq.storage.format.record import encode_meta
from pytubemq.storage.store_settings import MAX_PADDING_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk, DiskFile
    from pytubemq.storage.journal.staging import Prepared

FULL_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""A write that failed with one of these left the disk sound: it may be tried again later."""

UNFINISHED: Final = ".tmp"
"""Behind the name of a journal file that is being made."""


def journal_path(directory: Path, number: int) -> Path:
    """Return the file of journal `number`."""
    return directory / f"{number:020d}.journal"


def missing_journals(first: int, numbers: Collection[int]) -> list[int]:
    """Return which files are missing of a journal that begins with file `first`: those in front of one that exists, and
    the first one in any case, which exists whenever a checkpoint does."""
    there = {number for number in numbers if number >= first}
    return [number for number in range(first, max(there, default=first) + 1) if number not in there]


def is_padding(file: DiskFile, start: int, end: int) -> bool:
    """True if there is nothing but padding between two bytes of a journal file, the second being its end."""
    # More zeros than padding ever has were not written by `_pad`: they are damage, and must not be passed over.
    return end - start < MAX_PADDING_BYTES and not any(read_exactly(file, end - start, start))


def block_records(prepared: Prepared) -> bytes:
    """Return the records of the block that a batch becomes."""
    return b"".join(encode_meta(prepared.runs, prepared.confirmed, prepared.sequences))


class Journal:
    """The writing end; used by one thread."""

    def __init__(
        self, disk: Disk, directory: Path, *, segment_bytes: int, padding_bytes: int, number: int, sequence: int
    ) -> None:
        """Begin with file `number`, which is yet to be made, and block `sequence`."""
        self._disk = disk
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._zeros = bytes(min(padding_bytes, MAX_PADDING_BYTES))
        self._file: DiskFile | None = None
        self._salt = 0
        self._must_cut = False
        self._length = 0
        """The size of the file, padding included."""
        # A start flushes every journal file that it replays, so all before the first block is on the device.
        self._synced = sequence - 1
        self.number = number
        self.sequence = sequence
        self.end = 0

    def begin(self) -> None:
        """Make the first file now, and not with its first block. Raises as `write`."""
        if self._file is None:
            self._file = self._create(self.number)
            self.end = HEADER_BYTES

    @property
    def path(self) -> Path:
        """The current file."""
        return journal_path(self._directory, self.number)

    def write(self, prepared: Prepared, meta: bytes) -> None:
        """Write one block, of which `meta` are the records, and flush it if so promised of something in it.

        Raises:
            OutOfResourcesError: the next journal file cannot be opened now; nothing was written.
            DiskFullError: no space; nothing of the block counts, and the journal is as before.
            DiskFailedError: what the disk holds is unknown; the journal must not be used again.
        """
        # The entries are written from where they were built: a gathering write, no copy of the messages.
        entries = [run.entries for run in prepared.runs]
        entries_bytes = sum(map(len, entries))
        file = self._file_for(len(meta) + entries_bytes)
        head = encode_block_header(
            meta,
            entries_bytes,
            records=len(prepared.runs) + len(prepared.confirmed) + len(prepared.sequences),
            sequence=self.sequence,
            last_message_id=prepared.last_message_id,
            synced=self._synced,
            salt=self._salt,
        )
        try:
            self._cut_if_needed(file)
            # At `end`, wherever the file ends: padding, or what a failed write left, is overwritten.
            end = write_all(file, [head + meta, *entries], self.end)
        except OSError as error:
            raise self._handle_failed_write(file, error) from error
        # The block went beyond the file's length, so the flush must write the new length, too; padding spares the next
        # ones that.
        if end > self._length:
            self._length = end
            # A larger block moves the file's end in any case, so zeros behind it would spare nothing.
            if prepared.flush and end - self.end < len(self._zeros):
                self._pad(file)
        if prepared.flush:
            self._sync(file)
            self._synced = self.sequence
        # Only now, after the flush: who reads this promises messages to their senders.
        prepared.flushed = prepared.flush
        prepared.journal_bytes = end - self.end
        self.end = end
        # A block that failed does not use up its sequence, so a gap in the sequences always is damage.
        self.sequence += 1
        prepared.journal, prepared.journal_end, prepared.next_sequence = self.number, end, self.sequence

    def _pad(self, file: DiskFile) -> None:
        """Make the file longer by zeros, up to the next step, ahead of the flush of a small block."""
        with suppress(OSError):  # where there is no room for padding there may be some for blocks yet
            self._length = write_all(file, [self._zeros[: -self._length % len(self._zeros)]], self._length)

    def close(self) -> None:
        """Close the file; what was not flushed stays with the operating system."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _file_for(self, size: int) -> DiskFile:
        file = self._file
        if file is not None:
            # A block larger than a file's limit gets a file of its own;
            # without this none would ever be good enough for it.
            if self.end <= HEADER_BYTES or self.end + size <= self._segment_bytes:
                return file
            # The old file must be whole on the device before a newer one exists: recovery relies on it. Once it is
            # closed no block goes there any more, also if making the next file fails and is tried again.
            self._must_cut |= self._length > self.end
            try:
                self._cut_if_needed(file)
            except OSError as error:
                raise self._handle_failed_write(file, error) from error
            self._sync(file)
            self._synced = self.sequence - 1
            file.close()
            self._file, self.number, self._length = None, self.number + 1, 0
        self._file = self._create(self.number)
        self.end = HEADER_BYTES
        return self._file

    def _create(self, number: int) -> DiskFile:
        """Create the file under another name, which it keeps until its header is on the device."""
        path = journal_path(self._directory, number)
        # A crash between creating the file and flushing its header must leave no journal file without a header.
        fresh = path.with_name(path.name + UNFINISHED)
        # Each file has a salt of its own: blocks of an older file on the same disk sectors, or bytes that a client
        # chose, never pass for blocks of this one.
        salt = int.from_bytes(os.urandom(4), "little")
        header = FileHeader(FileKind.JOURNAL, number, self.sequence, salt)
        file = None
        try:
            file = open_file(self._disk, fresh, create=True)
            # A crash may have left an unfinished file under this name, with another salt.
            file.truncate(0)
            write_all(file, [header.encode()], 0)
            file.fdatasync()
            self._disk.rename(fresh, path)
            # The name is only on the device once the directory is flushed; before that a power loss may take it.
            flush_directory(self._disk, self._directory)
        except OSError as error:
            if file is not None:
                file.close()
            # What was begun stays under its other name, and the next try empties it.
            raise storage_error(path, error) from error
        self._salt = salt
        return file

    def _cut_if_needed(self, file: DiskFile) -> None:
        if self._must_cut:
            file.truncate(self.end)
            self._must_cut, self._length = False, self.end

    def _handle_failed_write(self, file: DiskFile, error: OSError) -> DiskFullError | DiskFailedError:
        # Part of the block may be in the file. It must go before anything else is written there, or a restart could
        # take it for a block that counts.
        self._must_cut = True
        try:
            self._cut_if_needed(file)
        except OSError as second:
            if second.errno not in FULL_ERRORS:
                return failed_error(self.path, second)
        return full_error(self.path) if error.errno in FULL_ERRORS else failed_error(self.path, error)

    def _sync(self, file: DiskFile) -> None:
        try:
            file.fdatasync()
        except OSError as error:
            # After a failed flush the kernel may have dropped the pages: a second one that succeeds proves nothing.
            # The cut keeps a refused block from turning up after a restart, as far as the disk still obeys.
            with suppress(OSError):
                file.truncate(self.end)
            raise failed_error(self.path, error) from error


def storage_error(path: Path, error: OSError) -> OutOfResourcesError | DiskFullError | DiskFailedError:
    """Return our error for an error of the system about `path`."""
    if isinstance(error, NotOpenedError):
        return handles_error(error)
    return full_error(path) if error.errno in FULL_ERRORS else failed_error(path, error)


def handles_error(error: NotOpenedError) -> OutOfResourcesError:
    """Return the error for a system without handles or memory for one more file."""
    return OutOfResourcesError(
        f"{error.filename} cannot be opened now: {error.strerror}",
        hint="it is retried automatically; allow this process more open files (ulimit -n), or close connections",
    )


def full_error(path: Path) -> DiskFullError:
    """Return the error for a disk without space."""
    return DiskFullError(
        f"no space left for {path.parent}",
        hint="free some space; messages are accepted again automatically as soon as there is enough",
    )


def full_at_start(disk: Disk, root: Path) -> DiskFullError:
    """Return the error for a start that ended because the disk is full. Says how much it may need."""
    needed = free = 0
    with suppress(OSError):
        free = disk.free_bytes(root)
        for name in disk.listdir(root / "journal"):
            file = disk.open(root / "journal" / name)
            try:
                # Twice, below: once for the copies of damaged files, once for what goes into the logs.
                needed += file.size()
            finally:
                file.close()
    return DiskFullError(
        f"no space left to start with {root}: {free // MIB} MiB are free; a start copies a damaged journal, and moves "
        f"messages from the journal into the logs, for which it needs up to {2 * needed // MIB + 1} MiB",
        hint="free so much space, then start again; no message was removed",
    )


def reserved_error(root: Path, free_bytes: int, reserve_bytes: int) -> DiskFullError:
    """Return the error for a disk whose remaining space is reserved for messages that were accepted before."""
    return DiskFullError(
        f"no space left for {root}: {free_bytes // MIB} MiB are free, and `broker.reserve_bytes` keeps "
        f"{reserve_bytes // MIB} MiB free for what was accepted before",
        hint="free some space, or set `broker.reserve_bytes` lower; messages are accepted again automatically as soon "
        "as there is enough",
    )


def failed_error(path: Path, error: OSError) -> DiskFailedError:
    """Return the error for a disk that fails."""
    return DiskFailedError(
        f"the disk failed under {path}: {error.strerror or error}",
        hint="nothing more is accepted, reading continues; check the disk, then restart the Broker",
    )
