"""Files that a repair changes: safe in their copies before, and back in their places if it does not end."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import StorageError
from pytubemq.storage.tools.repair_steps.rollback import copy_and_undo

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "broker-1"
    (made / "logs" / "demo").mkdir(parents=True)
    (made / "checkpoint").write_bytes(b"old")
    (made / "logs" / "demo" / "log").write_bytes(b"messages")
    return made


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StorageError("in the way"), OSError(errno.EIO, "failed")])
def test_whatever_ends_a_repair_takes_it_back(root: Path, error: BaseException) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def repair() -> None:
        with copy_and_undo(root, root / "repair-1", sorted(before)):
            (root / "checkpoint").write_bytes(b"new")
            (root / "logs" / "demo" / "log").unlink()
            (root / "journal").mkdir()
            (root / "journal" / "1").write_bytes(b"new")
            raise error

    with pytest.raises(type(error)):
        repair()
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert not (root / "journal").exists()


def test_copies_are_on_the_device_before_a_file_is_changed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: set[int] = set()
    fsync = os.fsync

    def record(fd: int) -> None:
        fsync(fd)
        flushed.add(os.fstat(fd).st_ino)

    monkeypatch.setattr(os, "fsync", record)
    copies = root / "repair-1"
    with copy_and_undo(root, copies, [root / "checkpoint", root / "logs" / "demo" / "log"]):
        names = {root, copies, *copies.rglob("*")}
        assert copies / "logs" / "demo" / "log" in names
        assert {path.stat().st_ino for path in names} <= flushed
