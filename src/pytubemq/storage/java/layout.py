"""The directories of a Java Broker: `<topic>-<store>` with data files, and one file of group offsets.

The invariant: nothing here writes, and a directory that is no store of a topic is skipped, not guessed at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS_PER_STORE: Final = 10_000
"""A partition's id is this many times its store's number, plus its number within the store."""
OFFSETS_FILE: Final = "offsets.meta"
# Up to the last dash, as the original has it: a topic's name may have dashes of its own.
_STORE: Final = re.compile(r"(.+)-(\d{1,5})", re.ASCII)
_DATA_FILE: Final = re.compile(r"(\d{20})\.tube", re.ASCII)


@dataclass(frozen=True, slots=True)
class JavaStore:
    """One store of a topic: data files in the order of their start, with the start that each name gives (bytes)."""

    topic: str
    store_id: int
    files: tuple[tuple[int, Path], ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all data files."""
        return sum(path.stat().st_size for _, path in self.files)


def find_stores(root: Path) -> list[JavaStore]:
    """Return all stores below a Broker's `primaryPath`, by topic and number.

    Raises:
        OSError: the directory cannot be read.
    """
    found = []
    for directory in sorted(root.iterdir()):
        match = _STORE.fullmatch(directory.name)
        # The offsets' directory is beside the stores, and whatever else somebody put there.
        if match is None or not directory.is_dir():
            continue
        files = sorted(
            (int(name[1]), path) for path in directory.iterdir() if (name := _DATA_FILE.fullmatch(path.name))
        )
        if files:
            found.append(JavaStore(match[1], int(match[2]), tuple(files)))
    return sorted(found, key=lambda store: (store.topic, store.store_id))


def find_offsets(root: Path) -> Path | None:
    """Return the file of group offsets in its usual place below `primaryPath`; None if there is none.

    The original's own order when it starts: a `.mid` left by an interrupted write wins, then `.meta`, then `.old`.
    """
    for suffix in ("mid", "meta", "old"):
        path = (root / "offsetDir" / OFFSETS_FILE).with_suffix(f".{suffix}")
        if path.is_file():
            return path
    return None
