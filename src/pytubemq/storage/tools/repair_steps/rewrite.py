"""The rewrite of a store's journal and checkpoint, in the order in which a crash at any point leaves the old or the
new.

The invariant: when the new checkpoint counts, everything that it names is on the device, and the journal file from
which it lets a Broker continue is there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytubemq.storage.disk.disk import flush_directory, write_all
from pytubemq.storage.format.checkpoint import write_checkpoint
from pytubemq.storage.format.header import HEADER_BYTES, FileHeader, FileKind
from pytubemq.storage.journal.journal import UNFINISHED, journal_path
from pytubemq.storage.tools.read.files import find_journals

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.format.checkpoint import Checkpoint


def put_checkpoint(disk: Disk, root: Path, checkpoint: Checkpoint) -> None:
    """Make `checkpoint` count, with an empty journal file behind it; older journal files go.

    It takes the next number of a journal file itself, never 1: a store whose journal begins with file 1 never had a
    checkpoint.

    Raises:
        OSError: the old checkpoint still counts.
    """
    numbers = [file.number for file in find_journals(disk, root)]
    # Above every file that is there, so that no old block is read behind the new checkpoint.
    number = max([checkpoint.journal, *numbers]) + 1
    path = journal_path(root / "journal", number)
    salt = int.from_bytes(os.urandom(4), "little")
    disk.makedirs(root / "journal")
    # The file before the checkpoint that names it; a crash in between leaves one file more, and the old state.
    # A journal file gets its name with a durable header: a start refuses one without.
    fresh = path.with_name(path.name + UNFINISHED)
    write_file(disk, fresh, [FileHeader(FileKind.JOURNAL, number, checkpoint.next_sequence, salt).encode()])
    disk.rename(fresh, path)
    flush_directory(disk, root / "journal")
    flush_directory(disk, root)
    checkpoint.journal, checkpoint.journal_position = number, HEADER_BYTES
    # All of it is in the checkpoint, so a start has nothing to take from older blocks.
    checkpoint.known_sequence = checkpoint.next_sequence
    write_checkpoint(disk, root, checkpoint)
    # After the checkpoint: until then these files are the only place of what they hold.
    for old in numbers:
        disk.unlink(journal_path(root / "journal", old))


def write_file(disk: Disk, path: Path, parts: list[bytes]) -> None:
    """Put new content in a file, flushed; its name only lasts once its directory is flushed. Raises OSError."""
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        write_all(file, parts, 0)
        file.fdatasync()
    finally:
        file.close()
