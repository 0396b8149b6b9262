"""Rollback of a repair: files are copied before they are changed, and moved back if it fails, for example because the
disk is full.

The invariant: nothing is changed before all copies are on the device; files are moved back from their copies, which
needs no space, and nothing that the repair made is left.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytubemq.errors import DiskFullError
from pytubemq.model.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def copy_and_undo(root: Path, copies: Path, changed: Sequence[Path]) -> Iterator[None]:
    """Copy files of the directory `root`, run the block, and restore the directory if one of both fails.

    Args:
        root: the store.
        copies: where the copies go, a directory of `root` that does not exist yet.
        changed: the files that the block changes or removes.

    Raises:
        DiskFullError: there was no space left. OSError: the copies failed otherwise. Whatever else ends the block.
    """
    # What is there now stays; anything else is removed if the block fails.
    before = set(_paths(root))
    needed = sum(path.stat().st_size for path in changed)
    whole = False
    try:
        for path in changed:
            target = copies / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        # Else a power loss during the block could leave the new state, and copies without content.
        if changed:
            _flush((copies.parent, copies, *_paths(copies)))
        # Before all copies are there nothing was changed, so nothing is moved back.
        whole = True
        yield
    # Whatever it is, also an interrupt at the keyboard: half of a repair is no state of the store.
    except BaseException as error:
        for path in changed if whole else ():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Moved and not copied, since there may be no room for another copy.
            os.replace(copies / path.relative_to(root), path)
        # In reverse, so that files go before the directories that they are in.
        for path in sorted(set(_paths(root)) - before, reverse=True):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        if not _is_full(error):
            raise
        name = getattr(error, "filename", None) or root
        raise DiskFullError(
            f"no space left to write {name}: the repair of {root} needs up to {2 * needed // MIB + 1} MiB for copies "
            "and new files; the directory is as it was before",
            hint="free so much space, or move the directory to a larger disk, and run it again",
        ) from error


def _is_full(error: BaseException) -> bool:
    return isinstance(error, DiskFullError) or (isinstance(error, OSError) and error.errno in _FULL)


def _flush(paths: Iterable[Path]) -> None:
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _paths(root: Path) -> Iterator[Path]:
    for directory, directories, files in os.walk(root):
        for name in (*directories, *files):
            yield Path(directory) / name
