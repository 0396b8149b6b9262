"""Removal of the files of a topic, or of segments that are not kept any more.

The invariant: it is called only when no checkpoint and no journal block behind it speaks of the files, so that a crash
at any point leaves files which mean nothing and which the next start removes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.storage.disk.disk import flush_directory
from pytubemq.storage.disk.paths import topic_directory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.disk.file_cache import FileCache


def remove_topic(files: FileCache, root: Path, topic: str) -> None:
    """Remove a topic's directory with all its partitions; fine if there is none.

    Durable on return: what a power loss brings back before, the next start removes.

    Raises:
        MessageError: no topic can have this name; nothing was done.
        OSError: some of it may be left; call again.
    """
    disk, directory = files.disk, topic_directory(root, topic)
    if not disk.exists(directory):
        return
    for name in sorted(disk.listdir(directory)):
        partition = directory / name
        try:
            held = sorted(disk.listdir(partition))
        except NotADirectoryError:  # not ours, and in the way
            disk.unlink(partition)
            continue
        for file in held:
            disk.unlink(partition / file)
            files.forget(partition / file)  # only now: nobody can open it again
        disk.rmdir(partition)
    disk.rmdir(directory)
    # From here on no power loss brings the old files back among those of a new topic of this name.
    flush_directory(disk, directory.parent)


def remove_files(files: FileCache, paths: Sequence[Path]) -> list[Path]:
    """Remove files whose names nobody will open any more; returns those that are still there, for another call. Who
    has one open reads on."""
    left: list[Path] = []
    for path in paths:
        try:
            files.disk.unlink(path)
        except FileNotFoundError:
            pass  # somebody else removed it, or its topic is gone
        except OSError:
            left.append(path)
            continue
        # The name goes first, or a reader could open the file again in between.
        files.forget(path)
    return left


def remove_empty(disk: Disk, partition: Path) -> None:
    """Remove a partition's directory without files, and its topic's if it was the last. Raises OSError."""
    if not disk.listdir(partition):
        disk.rmdir(partition)
        if not disk.listdir(partition.parent):
            disk.rmdir(partition.parent)
