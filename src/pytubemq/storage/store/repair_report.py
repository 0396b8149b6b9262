"""Reports of repairs: files `repair-<time>.json` that name what was lost, or may be, until somebody removes them.

The invariant: a report that cannot be read is shown too, because it means that there was a repair.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from pytubemq.storage.disk.disk import list_directory, open_file, read_exactly, write_all

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk

_NAME: Final = re.compile(r"repair-[^/]*\.json")
_LOST: Final = "lost_records"


def write_report(disk: Disk, path: Path, report: Mapping[str, Any]) -> None:
    """Write a report, whole or not at all. Raises OSError."""
    fresh = path.with_name(f"{path.name}.tmp")
    file = open_file(disk, fresh, create=True)
    try:
        # A crash may have left a longer one under this name.
        file.truncate(0)
        write_all(file, [json.dumps(report, indent=1).encode()], 0)
        file.fdatasync()
    finally:
        file.close()
    disk.rename(fresh, path)
    disk.fsync_dir(path.parent)


def is_report(name: str) -> bool:
    """True if a file of this name is a report."""
    return _NAME.fullmatch(name) is not None


def lost_text(disk: Disk, path: Path) -> str | None:
    """Return what a report says about positions that may be lost; None if the repair lost none."""
    try:
        file = open_file(disk, path)
        try:
            found = json.loads(read_exactly(file, file.size(), 0))
        finally:
            file.close()
        text = found[_LOST]
    except (OSError, ValueError, KeyError, TypeError):
        return "the report cannot be read"
    return None if text is None else str(text)


def repair_notices(disk: Disk, root: Path) -> list[str]:
    """Return a line for each report of a repair that may have lost positions."""
    try:
        names = sorted(filter(is_report, list_directory(disk, root)))
    except OSError:
        return []
    return [
        f"repaired: {text}; remove {root / name} when this is checked"
        for name in names
        if (text := lost_text(disk, root / name)) is not None
    ]
