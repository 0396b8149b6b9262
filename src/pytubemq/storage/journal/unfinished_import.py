"""The mark of an import that writes logs while the checkpoint does not name them, and what a start does about it.

The invariant: while the mark is there, the checkpoint names every message of the store. Without the mark, logs that the
checkpoint does not name hold messages that the journal lost, and a start takes them; with it they are what an import
wrote before it was interrupted, and go.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pytubemq.storage.disk.disk import flush_directory, list_directory, open_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk

NAME: Final = "import-unfinished"
_SEGMENT: Final = re.compile(r"\d{20}\.(log|index)", re.ASCII)


def mark_import(disk: Disk, root: Path) -> None:
    """Set the mark; durable on return, so the first log may be written. Raises OSError."""
    file = open_file(disk, root / NAME, create=True)
    try:
        file.fdatasync()
    finally:
        file.close()
    flush_directory(disk, root)


def unmark_import(disk: Disk, root: Path) -> None:
    """Remove the mark; durable on return. Raises OSError."""
    disk.unlink(root / NAME)
    flush_directory(disk, root)


def is_import_marked(disk: Disk, root: Path) -> bool:
    """True if an import is under way, was interrupted, or ended without removing its mark."""
    return disk.exists(root / NAME)


def remove_unfinished_import(disk: Disk, root: Path, unnamed: Iterable[Path]) -> bool:
    """Remove what an interrupted import wrote, and the mark; return True if there was anything.

    `unnamed` are the directories of the partitions that the checkpoint does not name. Raises OSError: call again.
    """
    found = False
    for directory in unnamed:
        with suppress(NotADirectoryError):  # not ours
            names = [name for name in list_directory(disk, directory) if _SEGMENT.fullmatch(name)]
            for name in names:
                disk.unlink(directory / name)
            # Durable before the mark goes: a file that came back without it would be taken for lost messages.
            flush_directory(disk, directory)
            found = found or bool(names)
    unmark_import(disk, root)
    return found
