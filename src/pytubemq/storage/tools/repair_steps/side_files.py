"""The files beside a store in a Broker's directory, whose form only the Broker knows.

The invariant: none of them holds messages or positions; each file of the directory is checked, or named as not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pytubemq.errors import CorruptError
from pytubemq.storage.disk.damaged_file import rename_damaged
from pytubemq.storage.disk.disk import read_exactly
from pytubemq.storage.format.checkpoint import NAME
from pytubemq.storage.journal.quarantine import PREFIX
from pytubemq.storage.journal.unfinished_import import NAME as IMPORT_MARK
from pytubemq.storage.store.repair_report import is_report, lost_text
from pytubemq.storage.tools.check.findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk

Decoders = Mapping[str, Callable[["Path", bytes], object]]
"""By a file's name: what raises CorruptError if the bytes are not such a file."""

_OWN: Final = {"journal", "logs", "lock", NAME, IMPORT_MARK}
_LEFT: Final = re.compile(r"repair-.*|.*\.(new|tmp)", re.DOTALL)
"""Copies that a repair made, and what a write that was not finished left behind."""


def check_side_files(disk: Disk, root: Path, decoders: Decoders) -> Iterator[Finding]:
    """Yield the findings of all that is in the directory itself and is not the store's own.

    Raises:
        NewerVersionError: a newer version wrote one. OSError: one cannot be read.
    """
    for name in sorted(disk.listdir(root)):
        if (kept := _find_kept(disk, root, name)) is not None:
            yield Finding(path=root / name, what=kept, severity=Severity.HARMLESS)
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
            # By the Broker's own readers, so that both agree on what can be read.
            decoders[name](root / name, data)
        except CorruptError as error:
            yield Finding(path=root / name, what=f"cannot be read: {error.message}", size_bytes=len(data))


def kept_files(disk: Disk, root: Path) -> Iterator[tuple[Path, str]]:
    """Yield what repairs, recoveries and imports left in the directory, and what to do with each. Raises OSError."""
    for name in sorted(disk.listdir(root)):
        if (what := _find_kept(disk, root, name)) is not None:
            yield root / name, what


def _find_kept(disk: Disk, root: Path, name: str) -> str | None:
    """Say what a repair, a recovery or an import left in the directory, and what to do with it; None for anything
    else."""
    if name == IMPORT_MARK:
        return "an import was interrupted; the next start removes what it wrote, then run it again"
    if is_report(name):
        lost = lost_text(disk, root / name)
        return f"report of a repair: {lost or 'no positions were lost'}; remove it when that is checked"
    if not name.startswith("repair-") or name.endswith((".tmp", ".new")):
        return None
    whose = "what a start took out of damaged files" if name.startswith(PREFIX) else "copies that a repair made"
    return f"{whose}; a repair looks for messages there, so remove it only when nothing is missing"


def rename_damaged_files(disk: Disk, root: Path, decoders: Decoders, say: Callable[[str], None]) -> None:
    """Give each that cannot be read another name; a Broker goes on without it."""
    # All findings first, since renaming changes the directory that is being listed.
    for finding in list(check_side_files(disk, root, decoders)):
        if finding.severity is Severity.DAMAGE:
            say(f"{finding.path}: cannot be read; put aside as {rename_damaged(disk, finding.path).name}")
