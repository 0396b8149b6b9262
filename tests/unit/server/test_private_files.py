"""A file of a key or a secret is whole or not there."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.server.keys.root_key import load_root_key, write_private

if TYPE_CHECKING:
    from pathlib import Path


def test_a_crash_while_it_is_written_leaves_no_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "root.key"

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ConfigError, match="No space left"):
            load_root_key(path, {}, create=True)
    assert list(tmp_path.iterdir()) == []
    key = load_root_key(path, {}, create=True)
    assert load_root_key(path, {}, create=False) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_exists_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.secret"
    path.write_bytes(b"mine")
    with pytest.raises(ConfigError, match="File exists"):
        write_private(path, b"other", what="secret", hint="")
    assert path.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [path]
