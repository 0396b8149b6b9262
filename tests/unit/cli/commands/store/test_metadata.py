"""`pytubemq store metadata`: what it finds, what it keeps, what it says comes next."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ExitCode
from pytubemq.model.records import GroupRecord, TopicRecord
from pytubemq.storage.disk.disk import OsDisk
from pytubemq.storage.metastore.sqlite import SqliteMetaStore
from tests.unit.cli.conftest import Ran

if TYPE_CHECKING:
    from pathlib import Path

Tube = Callable[..., Ran]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    store = SqliteMetaStore(tmp_path / "data" / "master" / "meta.db")
    store.apply([TopicRecord("demo"), GroupRecord("readers_of_it")], [])
    store.close()
    return tmp_path / "data"


def test_sound_damaged_repaired(tube: Tube, data: Path) -> None:
    file = data / "master" / "meta.db"
    found = tube("store", "metadata", str(data), "-o", "json")
    assert (found.code, json.loads(found.out)["state"]) == (ExitCode.DONE, "sound")
    file.write_bytes(file.read_bytes().replace(b"readers_of_it", b"readers_of_at"))
    found = tube("store", "metadata", str(data), "-o", "json")
    shown = json.loads(found.out)
    assert (found.code, shown["state"], shown["topics"], shown["groups"]) == (ExitCode.FAILED, "damaged", 1, 0)
    assert "the record of consumer group readers_of_at" in shown["damaged"]
    assert "--repair --dry-run" in found.err
    before = {path.name: path.read_bytes() for path in file.parent.iterdir()}
    assert tube("store", "metadata", str(data), "--repair").code == ExitCode.USAGE
    found = tube("store", "metadata", str(data), "--repair", "--dry-run", "-o", "json")
    assert (found.code, json.loads(found.out)["state"]) == (ExitCode.FAILED, "damaged")
    assert "would rename the files and keep 1 record; nothing was changed" in found.err
    assert "--repair --yes" in found.err
    assert {path.name: path.read_bytes() for path in file.parent.iterdir() if path.name != "lock"} == {
        name: data for name, data in before.items() if name != "lock"
    }
    found = tube("store", "metadata", str(data / "master"), "--repair", "--yes", "-o", "json")
    shown = json.loads(found.out)
    assert (found.code, shown["state"], len(shown["aside"])) == (ExitCode.DONE, "repaired", 2)
    assert "kept 1 record" in found.err
    assert "no topic was lost" in found.err
    assert "cluster adopt" not in found.err
    assert tube("store", "metadata", str(data), "-o", "name").out == "sound\n"


def test_adoption_is_recommended_where_topics_may_be_lost(tube: Tube, data: Path) -> None:
    (data / "master" / "meta.db").unlink()
    found = tube("store", "metadata", str(data), "--repair", "--yes")
    assert (found.code, "pytubemq cluster adopt" in found.err) == (ExitCode.DONE, True)
    found = tube("store", "metadata", str(data), "--repair", "--dry-run")
    assert (found.code, "nothing to repair" in found.err) == (ExitCode.DONE, True)
    assert tube("store", "metadata", str(data), "--yes").code == ExitCode.USAGE


def test_a_master_that_runs_and_a_place_that_is_none_are_named(tube: Tube, data: Path, tmp_path: Path) -> None:
    lock = OsDisk().lock(data / "master" / "lock")
    found = tube("store", "metadata", str(data))
    lock.release()
    assert (found.code, "stop that Master" in found.err) == (ExitCode.REFUSED, True)
    empty = tmp_path / "empty"
    empty.mkdir()
    found = tube("store", "metadata", str(empty))
    assert (found.code, "no metadata in" in found.err) == (ExitCode.NOT_FOUND, True)
    assert list(empty.iterdir()) == []


def test_a_missing_file_is_one_sentence(tube: Tube, data: Path) -> None:
    (data / "master" / "meta.db").unlink()
    found = tube("store", "metadata", str(data), "-o", "json")
    shown = json.loads(found.out)
    assert (found.code, shown["damaged"]) == (ExitCode.FAILED, ["the whole file, because meta.db is missing"])
