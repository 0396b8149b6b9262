"""Directories that an earlier version left open to every user of the machine."""

from __future__ import annotations

import logging
import stat
from typing import TYPE_CHECKING

from pytubemq.storage.disk.disk import close_to_others
from pytubemq.storage.metastore.sqlite import SqliteMetaStore
from pytubemq.storage.store.store import BrokerStore

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_start_closes_the_directories_of_an_earlier_version(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker, master = tmp_path / "broker-1", tmp_path / "master"
    for directory in (broker, master):
        directory.mkdir()
        directory.chmod(0o755)
    with caplog.at_level(logging.WARNING):
        BrokerStore.open(broker).close()
        SqliteMetaStore(master / "meta.db").close()
    assert (mode(broker), mode(master)) == (0o750, 0o750)
    texts = [record.getMessage() for record in caplog.records]
    assert texts == [
        f"{path} had mode 755, so that every user could read it; it has 750 now" for path in (broker, master)
    ]
    caplog.clear()
    BrokerStore.open(broker).close()
    assert not caplog.records, "said once"


def test_a_directory_of_somebody_else_is_named_with_the_command(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(type(tmp_path), "chmod", refuse)
    close_to_others(tmp_path)
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path} can be read by every user of this machine: chmod o-rwx {tmp_path} (Operation not permitted)"
    ]
