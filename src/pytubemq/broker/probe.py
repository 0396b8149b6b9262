"""Whether the journal could be written now, asked of the disk itself after a write was refused for now.

The invariant: the answer is yes only if the disk did what the refused write would have asked of it; what the probe
writes is gone afterwards, and recovery never takes it for a journal.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import KIB
from pytubemq.storage.disk import write_all
from pytubemq.storage.space import COPIES

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.disk import Disk

PROBE_NAME: Final = "probe"
_CHUNK: Final = bytes(64 * KIB)


def writable(disk: Disk, root: Path, *, size_bytes: int, reserve_bytes: int) -> bool:
    """Try a write of `size_bytes` beside the journal of the store at `root`. Blocks.

    The free space is asked for first, so that a probe never takes what is kept for messages accepted before.
    """
    directory = root / "journal"
    path = directory / PROBE_NAME
    try:
        if disk.free_bytes(root) - reserve_bytes < max(size_bytes, 1) * COPIES:
            return False
        file = disk.open(path, create=True)
        try:
            write_all(file, [_CHUNK] * (size_bytes // len(_CHUNK)) + [_CHUNK[: size_bytes % len(_CHUNK) or 1]], 0)
            file.fdatasync()
            # A new journal file needs this handle while its own is open, so one handle to spare is not enough.
            disk.fsync_dir(directory)
        finally:
            file.close()
            with suppress(OSError):  # the next probe, or nobody, minds
                disk.unlink(path)
    except OSError:
        return False
    return True
