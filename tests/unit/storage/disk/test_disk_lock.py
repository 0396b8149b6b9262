"""The lock of a data directory on the real disk."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import DirectoryLockedError
from pytubemq.storage.disk.disk import OsDisk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("call", ["ftruncate", "pwrite"])
def test_a_lock_that_could_not_be_written_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fails)
        with pytest.raises(OSError, match="No space left"):
            OsDisk().lock(tmp_path / "lock")
    held = OsDisk().lock(tmp_path / "lock")
    with pytest.raises(DirectoryLockedError, match=f"in use by process {os.getpid()}"):
        OsDisk().lock(tmp_path / "lock")
    held.release()
