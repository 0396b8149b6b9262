"""Puts a file that cannot be read out of the way.

The invariant: its bytes stay, under a name that says what they are, until the next one is put there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.disk import Disk


def set_aside(disk: Disk, path: Path) -> Path:
    """Give the file another name, so that somebody can look at it later; one that was set aside before goes.

    Returns:
        The new name.

    Raises:
        OSError: as the disk raised it.
    """
    target = path.with_name(f"{path.name}.damaged")
    disk.rename(path, target)
    disk.fsync_dir(path.parent)
    return target
