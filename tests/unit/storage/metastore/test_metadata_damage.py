"""A damaged or missing metadata file is named; it never becomes other metadata in silence."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import CorruptError, NewerVersionError, NotFoundError, StorageError
from pytubemq.model.ids import Address
from pytubemq.model.records import (
    AuditRecord,
    BrokerRecord,
    ClusterRecord,
    ConsumeRecord,
    DeployRecord,
    GroupRecord,
    PermissionRecord,
    Stamp,
    TopicProps,
    TopicRecord,
    UserRecord,
    UserTokenRecord,
)
from pytubemq.storage.metastore import sqlite
from pytubemq.storage.metastore.repair import examine, repair
from pytubemq.storage.metastore.seal import read_seal, seal_path, write_seal
from pytubemq.storage.metastore.sqlite import SqliteMetaStore
from tests.support.soaking import Part

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytubemq.model.records import Record
    from pytubemq.storage.metastore.port import Metadata

STAMP = Stamp("ann", 1, "bob", 2, 3, 4)
DEPLOY = DeployRecord("demo", 1, props=TopicProps(num_partitions=4, delete_policy="delete,72h"), stamp=STAMP)
RECORDS = (
    ClusterRecord(stamp=STAMP),
    BrokerRecord(1, Address("127.0.0.1", 8123), stamp=STAMP),
    TopicRecord("demo", stamp=STAMP),
    DEPLOY,
    ConsumeRecord("g", "demo", filter_conds=frozenset({"a"}), stamp=STAMP),
    GroupRecord("g", stamp=STAMP),
)
LATER = replace(DEPLOY, props=TopicProps(num_partitions=4, delete_policy="delete,62h"))
PRIVATE_DIRECTORY = 0o700
"""Of another mode is said in the log that it was changed, which is most of the log after ten thousand times."""
STEP = 211
"""Bits from one flip to the next; with --soak every bit is flipped."""


def made(directory: Path) -> Path:
    """A store with one record of each kind, in pages of 512 bytes so that few bits are unused."""
    path = directory / "meta.db"
    directory.mkdir(mode=PRIVATE_DIRECTORY)
    db = sqlite3.connect(path)
    db.executescript("PRAGMA page_size=512; VACUUM;")
    db.close()
    store = SqliteMetaStore(path)
    store.apply(RECORDS, [])
    store.close()
    return path


def loaded(path: Path) -> Metadata:
    store = SqliteMetaStore(path)
    try:
        return store.load()
    finally:
        store.close()


def loaded_or_named(path: Path) -> Metadata | None:
    """What is loaded; None after an error, which must name the file and say what to do."""
    try:
        return loaded(path)
    except (CorruptError, NewerVersionError, StorageError) as error:
        named = "meta.db" in error.message and error.hint
    assert named
    return None


def restored(directory: Path, files: dict[str, bytes]) -> None:
    """Make these all the files of the directory."""
    for file in directory.iterdir():
        if file.name not in files:
            file.unlink()
    for name, data in files.items():
        (directory / name).write_bytes(data)


def outcomes(path: Path, file: Path, scratch: Path, part: Part, *, soak: bool) -> Iterator[Metadata]:
    """Flip one bit of `file` after the other and yield what is loaded then; an error must name the metadata file."""
    beside = {other.name: other.read_bytes() for other in path.parent.iterdir()}
    data = beside[file.name]
    scratch.mkdir(mode=PRIVATE_DIRECTORY)
    for bit in part.of(range(0, len(data) * 8, 1 if soak else STEP)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        restored(scratch, beside | {file.name: bytes(changed)})
        found = loaded_or_named(scratch / path.name)
        if found is not None:
            yield found


@pytest.mark.slow
def test_each_bit_of_the_file_is_unused_or_named(memory_path: Path, part: Part, soak: bool) -> None:
    path = made(memory_path / "a")
    whole = loaded(path)
    loads = 0
    for metadata in outcomes(path, path, memory_path / "b", part, soak=soak):
        assert metadata == whole
        loads += 1
    flips = path.stat().st_size * 8 // (1 if soak else STEP) // part.count
    assert loads < flips, "some were named"


def test_each_bit_of_the_seal_changes_nothing(memory_path: Path, soak: bool) -> None:
    path = made(memory_path / "a")
    whole = loaded(path)
    found = outcomes(path, seal_path(path), memory_path / "b", Part(0, 1), soak=soak)
    assert all(metadata == whole for metadata in found)


@pytest.mark.parametrize("sealed", [True, False])
def test_each_bit_of_the_log_of_an_unclean_end_is_named_or_costs_the_unanswered_change(
    memory_path: Path, sealed: bool, part: Part, soak: bool
) -> None:
    path, after = crashed(memory_path, sealed=sealed)
    assert loaded_copy(path, memory_path / "copy") == after
    before = replace_deploy(after, DEPLOY)
    log = path.with_name("meta.db-wal")
    for metadata in outcomes(path, log, memory_path / "b", part, soak=soak):
        assert metadata == after or (not sealed and metadata == before)


@pytest.mark.parametrize("loss", ["removed", "halved", "emptied"])
@pytest.mark.parametrize("name", ["meta.db", "meta.db-wal"])
def test_a_file_that_is_missing_or_cut_is_named_and_kept(tmp_path: Path, name: str, loss: str) -> None:
    path, _ = crashed(tmp_path, sealed=True)
    file = path.with_name(name)
    if loss == "removed":
        file.unlink()
    else:
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2] if loss == "halved" else b"")
    log = path.with_name("meta.db-wal")
    kept = log.read_bytes() if log.exists() else b""
    with pytest.raises(CorruptError, match=r"meta\.db") as refused:
        loaded(path)
    assert "pytubemq store metadata" in str(refused.value)
    assert "pytubemq cluster adopt" in str(refused.value)
    if kept and name == "meta.db-wal":
        assert path.with_name("meta.db-wal.before").read_bytes() == kept, "what is damaged is put aside"
    with pytest.raises(CorruptError, match=r"meta\.db"):
        loaded(path)


def test_a_changed_value_is_named_by_its_record(tmp_path: Path) -> None:
    path = made(tmp_path / "a")
    data = path.read_bytes()
    assert data.count(b"delete,72h") == 1
    path.write_bytes(data.replace(b"delete,72h", b"delete,62h"))
    with pytest.raises(CorruptError, match="the record of deploy demo, 1"):
        loaded(path)


def test_a_record_that_vanished_from_a_sound_file_is_missed(tmp_path: Path) -> None:
    path = made(tmp_path / "a")
    db = sqlite3.connect(path)
    db.executescript("DELETE FROM consumer_group;")
    db.close()
    with pytest.raises(CorruptError, match="5 records where 6 should be"):
        loaded(path)


def test_an_older_copy_is_missed_by_the_seal_and_taken_without_it(tmp_path: Path) -> None:
    path = made(tmp_path / "a")
    older = path.read_bytes()
    store = SqliteMetaStore(path)
    store.apply([LATER], [])
    store.close()
    path.write_bytes(older)
    with pytest.raises(CorruptError, match=r"lacks 1 of 2 changes") as refused:
        loaded(path)
    assert str(seal_path(path)) in str(refused.value)
    seal_path(path).unlink()
    assert loaded(path).deploys == [DEPLOY]
    assert read_seal(seal_path(path)) is not None


def test_the_file_alone_holds_every_change_that_was_answered(tmp_path: Path) -> None:
    path = tmp_path / "a" / "meta.db"
    store = SqliteMetaStore(path)
    store.apply(RECORDS, [])
    copy = tmp_path / "b" / "meta.db"
    copy.parent.mkdir()
    shutil.copy(path, copy)
    assert store.load() == loaded(copy)
    assert path.with_name("meta.db-wal").stat().st_size == 0
    store.close()


def test_a_change_stands_when_it_cannot_be_counted_and_is_counted_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = made(tmp_path / "a")
    store = SqliteMetaStore(path)

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "write_seal", fail)
        store.apply([LATER], [])
    assert "Input/output error" in caplog.text
    store.close()
    assert loaded(path).deploys == [LATER]
    assert getattr(read_seal(seal_path(path)), "generation", None) == 2


def crashed(tmp_path: Path, *, sealed: bool) -> tuple[Path, Metadata]:
    """A store that ended after a change was in its log and before that was moved into the file."""
    path = made(tmp_path / "running")
    store = SqliteMetaStore(path)
    settled = sqlite.SqliteMetaStore._settle
    try:
        sqlite.SqliteMetaStore._settle = (  # type: ignore[method-assign]
            (lambda self, totals=None: write_seal(self._seal, self._totals)) if sealed else lambda *_: None
        )
        store.apply([LATER], [])
    finally:
        sqlite.SqliteMetaStore._settle = settled  # type: ignore[method-assign]
    after = store.load()
    at_end = tmp_path / "crashed"
    at_end.mkdir()
    for file in path.parent.iterdir():
        if not file.name.endswith("-shm"):
            shutil.copy(file, at_end / file.name)
    store.close()
    return at_end / "meta.db", after


def loaded_copy(path: Path, scratch: Path) -> Metadata:
    shutil.copytree(path.parent, scratch)
    return loaded(scratch / path.name)


def replace_deploy(metadata: Metadata, deploy: DeployRecord) -> Metadata:
    return replace(metadata, deploys=[deploy])


# --- what is kept of it ------------------------------------------------------------------------------------------


def test_a_repair_keeps_what_is_sound_and_names_and_puts_aside_the_rest(tmp_path: Path) -> None:
    path = made(tmp_path / "a")
    data = path.read_bytes().replace(b"delete,72h", b"delete,62h")
    path.write_bytes(data)
    found = examine(path)
    assert path.read_bytes() == data, "looking changes nothing"
    assert (found.damaged, found.is_sound) == (("the record of deploy demo, 1",), False)
    aside = repair(path, found)
    assert [file.read_bytes() for file in aside if file.name == "meta.db"] == [data]
    kept = loaded(path)
    assert (kept.deploys, kept.topics, kept.groups) == ([], [RECORDS[2]], [RECORDS[5]])
    assert examine(path).is_sound


def test_a_repair_keeps_users_with_all_that_they_have_and_the_audit_trail(tmp_path: Path) -> None:
    path = made(tmp_path / "a")
    more: tuple[Record, ...] = (
        UserRecord("ann", sealed_secret="1:x", password_hash="scrypt:y", stamp=STAMP),
        PermissionRecord("ann", "admin", "topic", "demo", STAMP),
        UserTokenRecord("ann", "1f", "hash", 5, STAMP),
        AuditRecord(7, "::1", "POST /topics", "topic demo", "done", stamp=STAMP),
    )
    with closing(SqliteMetaStore(path)) as store:
        store.apply(more, [])
    path.write_bytes(path.read_bytes().replace(b"delete,72h", b"delete,62h"))
    repair(path, examine(path))
    kept = loaded(path)
    assert (*kept.users, *kept.permissions, *kept.user_tokens, *kept.audit) == more


def test_a_repair_after_a_lost_log_keeps_the_state_before_it(tmp_path: Path) -> None:
    path, _ = crashed(tmp_path, sealed=True)
    path.with_name("meta.db-wal").unlink()
    found = examine(path)
    assert (found.lost_changes, found.metadata.deploys) == (1, [DEPLOY])
    repair(path, found)
    assert loaded(path).deploys == [DEPLOY]
    with pytest.raises(NotFoundError, match="no metadata in"):
        examine(tmp_path / "meta.db")


def test_a_repair_after_any_flipped_bit_keeps_only_what_was_written(memory_path: Path, part: Part, soak: bool) -> None:
    path = made(memory_path / "a")
    whole = {repr(record) for record in examine(path).records()}
    data = path.read_bytes()
    for bit in part.of(range(5, len(data) * 8, 7 if soak else 1_009)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            found = examine(path)
        except StorageError as error:
            named = "meta.db" in error.message
            assert named
            continue
        assert {repr(record) for record in found.records()} <= whole
        assert found.damaged or {repr(record) for record in found.records()} == whole
