"""All journal files that may still have a copy of a message: the store's own, and those that earlier repairs
quarantined.

The invariant: they come in the order in which a Broker wrote them, none twice; quarantined files are only read.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.errors import StorageError
from pytubemq.storage.tools.read.files import find_journals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.tools.read.files import StoreFile

_ASIDE: Final = re.compile(r"repair-.*", re.DOTALL)
"""Directories in which a repair keeps what it changed or removed."""


@dataclass(frozen=True, slots=True)
class JournalsAtHand:
    """The files in order, and the number of the first one from which on none is missing."""

    files: list[StoreFile]
    unbroken_from: int

    def is_certain(self, at: int) -> bool:
        """True if all journal files since number `at` of the list are there, too."""
        return self.files[at].number >= self.unbroken_from


def journals_at_hand(disk: Disk, root: Path, own: Sequence[StoreFile]) -> JournalsAtHand:
    """Return the store's `own` files and the quarantined ones. Raises OSError."""
    # The store's own files first: a kept copy of one is the same file, or an older state of it.
    found = {_identity(file): (file.number, 1, file) for file in own}
    for name in sorted(disk.listdir(root)):
        if not _ASIDE.fullmatch(name):
            continue
        # Not every repair has journal files to put aside; and of those of another version nothing is known.
        with suppress(FileNotFoundError, NotADirectoryError, StorageError):
            for file in find_journals(disk, root / name):
                found.setdefault(_identity(file), (file.number, 0, file))
    files = [file for _, _, file in sorted(found.values(), key=lambda one: (one[0], one[1], str(one[2].path)))]
    numbers = {file.number for file in files}
    first = max((file.number for file in own), default=0)
    # Back from the store's own files, as far as numbers have no gap.
    while first - 1 in numbers:
        first -= 1
    return JournalsAtHand(files, first if own else max(numbers, default=0) + 1)


def _identity(file: StoreFile) -> tuple[int, int | str]:
    """Return what two copies of one file have in common; the salt is random."""
    return file.number, str(file.path) if file.header is None else file.header.salt
