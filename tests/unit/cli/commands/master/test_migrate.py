"""`pytubemq master migrate`: what it copies, what it refuses, what it says comes next."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ExitCode
from pytubemq.storage.disk.disk import OsDisk
from pytubemq.storage.metastore.port import Metadata
from pytubemq.storage.metastore.sqlite import SqliteMetaStore
from tests.support.metadata import ALL, GROUP
from tests.support.postgres_stores import leading_store, open_store, succeed
from tests.unit.cli.conftest import Ran

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres import Postgres
    from tests.support.zookeeper.server import ZooKeeper

Tube = Callable[..., Ran]
PASSWORD = "PYTUBEMQ_STORE_PASSWORD"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    store = SqliteMetaStore(tmp_path / "data" / "master" / "meta.db")
    store.apply(ALL, [])
    store.apply([], [GROUP])
    store.close()
    return tmp_path / "data"


def _records(directory: Path) -> Metadata:
    store = SqliteMetaStore(directory / "master" / "meta.db")
    try:
        return store.load()
    finally:
        store.close()


@pytest.mark.process
def test_there_and_back_again(
    tube: Tube, data: Path, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD, postgres.password)
    database, before = postgres.new_database(), _records(data)
    url = postgres.database_url(database)
    there = ("master", "migrate", "--from", str(data), "--to", url)
    found = tube(*there, "--dry-run", "-o", "json")
    shown = json.loads(found.out)
    assert (found.code, shown["state"], shown["topics"], shown["records"]) == (ExitCode.DONE, "previewed", 1, 11)
    assert "would copy 11 records; nothing was changed" in found.err
    assert "--yes" in found.err
    assert postgres.run("SELECT to_regnamespace('pytubemq')", database=database) == [(None,)]
    found = tube(*there, "--yes", "-o", "json")
    assert (found.code, json.loads(found.out)["state"]) == (ExitCode.DONE, "copied")
    store = open_store(postgres, database)
    assert store.load() == before
    store.close()
    assert _records(data) == before
    # A second time it would mix two clusters.
    for last in ("--dry-run", "--yes"):
        found = tube(*there, last)
        assert (found.code, "has 11 records already" in found.err) == (ExitCode.REFUSED, True)
    back = tmp_path / "back"
    (back / "master").mkdir(parents=True)
    (back / "master" / "meta.moved").write_text("a database\n")
    assert tube("master", "migrate", "--from", url, "--to", str(back), "--yes").code == ExitCode.DONE
    assert _records(back) == before
    assert not (back / "master" / "meta.moved").exists(), "else the Master would take them for old"
    assert postgres.password not in found.err


@pytest.mark.process
def test_a_copy_that_was_cut_short_is_made_again(
    tube: Tube, data: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD, postgres.password)
    database = postgres.new_database()
    copying = ("master", "migrate", "--from", str(data), "--to", postgres.database_url(database), "--yes")
    with monkeypatch.context() as patch:
        patch.setattr("pytubemq.storage.metastore.migration.all_records", _fail_at_the_second_call())
        assert tube(*copying).code == ExitCode.FAILED
    assert tube(*copying).code == ExitCode.DONE
    store = open_store(postgres, database)
    assert store.load() == _records(data)
    store.close()


@pytest.mark.process
def test_a_store_on_which_a_master_runs_is_refused(
    tube: Tube, data: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD, postgres.password)
    monkeypatch.setattr("pytubemq.master.leader.migrate._WAIT_S", 1.0)
    database = postgres.new_database()
    store = leading_store(postgres, database)
    succeed(postgres, database, "127.0.0.1:8715")
    postgres.run("UPDATE pytubemq.lease SET lease_ms = 60000", database=database)
    copying = ("master", "migrate", "--from", str(data), "--to", postgres.database_url(database), "--yes")
    found = tube(*copying)
    assert (found.code, "stop that Master first, and those that stand by" in found.err) == (ExitCode.REFUSED, True)
    lock = OsDisk().lock(data / "master" / "lock")
    found = tube(*copying)
    assert (found.code, "stop that Master first" in found.err) == (ExitCode.REFUSED, True)
    lock.release()
    assert store.load() == Metadata()
    store.close()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--from", "a", "--to", "b"), ExitCode.USAGE, "--dry-run"),
        (("--from", "a", "--to", "b", "--yes", "--dry-run"), ExitCode.USAGE, "--dry-run"),
        (("--from", "a", "--to", "a/master", "--yes"), ExitCode.USAGE, "are the same"),
        (("--from", "nosuch", "--to", "b", "--yes"), ExitCode.NOT_FOUND, "no metadata in nosuch/master"),
        (("--from", "postgresql://a:sesame@b/c", "--to", "b", "--yes"), ExitCode.BAD_CONFIG, "has a password"),
        (("--from", "x://a", "--to", "b", "--yes"), ExitCode.BAD_CONFIG, "neither `sqlite` nor"),
        (
            ("--from", "postgresql://a@b/c", "--to", "b", "--yes", "--password-file", "nosuch"),
            ExitCode.BAD_CONFIG,
            "the password file nosuch cannot be read",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    tube: Tube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = tube("master", "migrate", *arguments)
    assert (found.code, says in found.err) == (code, True), found.err
    assert "sesame" not in found.err


def _fail_at_the_second_call() -> Callable[[Metadata], list[object]]:
    calls: list[Metadata] = []

    def all_records(metadata: Metadata) -> list[object]:
        calls.append(metadata)
        if len(calls) > 1:
            raise OSError("the power is gone")
        return []

    return all_records


@pytest.mark.process
def test_into_zookeeper_and_back(
    tube: Tube, data: Path, zookeeper: ZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = zookeeper.options(zookeeper.new_root())
    monkeypatch.setenv(PASSWORD, str(options.password))
    before = _records(data)
    found = tube("master", "migrate", "--from", str(data), "--to", options.url, "--dry-run")
    assert "would copy 11 records; nothing was changed" in found.err
    found = tube("master", "migrate", "--from", str(data), "--to", options.url, "--yes")
    assert (found.code, "found them equal" in found.err) == (ExitCode.DONE, True)
    found = tube("master", "migrate", "--from", options.url, "--to", str(tmp_path / "back"), "--yes")
    assert found.code == ExitCode.DONE
    assert _records(tmp_path / "back") == before
