"""The files that lie beside a store in a Broker's directory, whose form only the Broker knows.

The invariant: none of them holds messages or positions; each file of the directory is checked, or named as not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pytubemq.errors import CorruptError
from pytubemq.storage.aside import set_aside
from pytubemq.storage.checkpoint import NAME
from pytubemq.storage.disk import read_exactly
from pytubemq.storage.tools.findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytubemq.storage.disk import Disk

Decoders = Mapping[str, Callable[["Path", bytes], object]]
"""By a file's name: what raises CorruptError if the bytes are not such a file."""

_OWN: Final = {"journal", "logs", "lock", NAME}
_LEFT: Final = re.compile(r"repair-.*|.*\.(new|tmp)", re.DOTALL)
"""Copies that a repair made, and what a write that was not finished left behind."""


def check_side_files(disk: Disk, root: Path, decoders: Decoders) -> Iterator[Finding]:
    """Findings of all that lies in the directory itself and is not the store's own.

    Raises:
        NewerVersionError: a newer version wrote one. OSError: one cannot be read.
    """
    for name in sorted(disk.listdir(root)):
        if name in _OWN or _LEFT.fullmatch(name):
            continue
        if name not in decoders:
            yield Finding(path=root / name, what="not checked: no file that a Broker uses", severity=Severity.HARMLESS)
            continue
        file = disk.open(root / name)
        try:
            data = read_exactly(file, file.size(), 0)
        finally:
            file.close()
        try:
            decoders[name](root / name, data)
        except CorruptError as error:
            yield Finding(path=root / name, what=f"cannot be read: {error.message}", size_bytes=len(data))


def put_aside(disk: Disk, root: Path, decoders: Decoders, say: Callable[[str], None]) -> None:
    """Give each that cannot be read another name; a Broker goes on without it."""
    for finding in list(check_side_files(disk, root, decoders)):
        if finding.severity is Severity.DAMAGE:
            say(f"{finding.path}: cannot be read; put aside as {set_aside(disk, finding.path).name}")
