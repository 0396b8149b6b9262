"""A file that cannot be read, out of the way.

The invariant: its bytes stay under a name that says what they are, until the next such file gets that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk


def rename_damaged(disk: Disk, path: Path) -> Path:
    """Rename a damaged file, so that somebody can look at it later. An earlier one of that name is removed.

    Returns:
        The new name.

    Raises:
        OSError: as the disk raised it.
    """
    target = path.with_name(f"{path.name}.damaged")
    disk.rename(path, target)
    # Else a power loss brings the damaged file back under its old name.
    disk.fsync_dir(path.parent)
    return target
