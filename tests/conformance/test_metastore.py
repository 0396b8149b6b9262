"""The contract of `MetaStore`, on every adapter."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import CorruptError, DiskFullError, NewerVersionError, NotFoundError, StorageError
from pytubemq.model.ids import UNDEFINED, Address
from pytubemq.model.records import (
    BrokerRecord,
    ClusterRecord,
    ConsumeRecord,
    DeployRecord,
    ManageStatus,
    Stamp,
    TopicProps,
    TopicRecord,
    TopicStatus,
)
from pytubemq.storage.metastore.memory import MemoryMetaStore
from pytubemq.storage.metastore.port import Metadata, MetaStore
from pytubemq.storage.metastore.sqlite import SqliteMetaStore
from pytubemq.storage.metastore.tables import TABLES, record_of, row_of
from tests.support.metadata import (
    ALL,
    ALLOWED,
    CLUSTER,
    DEMO,
    ENTRY,
    GROUP,
    ON_ONE,
    ON_TWO,
    ONE,
    READS,
    TOKEN,
    TWO,
    USER,
)
from tests.support.postgres_stores import leading_store
from tests.support.zookeeper.stores import leading_in_zookeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytubemq.model.records import Record


@pytest.fixture(
    params=["memory", "sqlite", *(pytest.param(name, marks=pytest.mark.process) for name in ("postgres", "zookeeper"))]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetaStore]:
    made = _make(request, tmp_path)
    yield made
    made.close()


def _make(request: pytest.FixtureRequest, tmp_path: Path) -> MetaStore:
    if request.param == "memory":
        return MemoryMetaStore()
    if request.param == "sqlite":
        return SqliteMetaStore(tmp_path / "meta.db")
    server = request.getfixturevalue(request.param)
    if request.param == "zookeeper":
        return leading_in_zookeeper(server, server.new_root())
    return leading_store(server, server.new_database())


def test_a_new_store_is_empty(store: MetaStore) -> None:
    assert store.load() == Metadata()
    assert store.load().cluster.stamp.serial_id == UNDEFINED


def test_every_kind_is_kept_as_it_is_in_the_order_of_its_key(store: MetaStore) -> None:
    store.apply(ALL[::-1], [])
    assert store.load() == Metadata(
        CLUSTER, [ONE, TWO], [DEMO], [ON_ONE, ON_TWO], [READS], [GROUP], [USER], [ALLOWED], [TOKEN], [ENTRY], 3000
    )


def test_a_record_of_the_same_key_is_replaced(store: MetaStore) -> None:
    store.apply(ALL, [])
    moved = replace(TWO, address=Address("127.0.0.2", 1), props=TopicProps())
    closed = replace(READS, filter_conds=frozenset(), filter_enable=True)
    store.apply([replace(CLUSTER, broker_port=1), moved, closed], [])
    found = store.load()
    assert (found.cluster.broker_port, found.brokers, found.consumes) == (1, [ONE, moved], [closed])
    assert found.deploys == [ON_ONE, ON_TWO]


def test_what_is_deleted_is_gone_and_may_be_deleted_again(store: MetaStore) -> None:
    store.apply(ALL, [])
    for _ in range(2):
        store.apply([], [ON_TWO, TWO, READS, CLUSTER])
    assert store.load() == Metadata(
        ClusterRecord(), [ONE], [DEMO], [ON_ONE], [], [GROUP], [USER], [ALLOWED], [TOKEN], [ENTRY], 3000
    )


def test_the_largest_serial_id_outlives_its_record(store: MetaStore) -> None:
    store.apply([replace(GROUP, stamp=Stamp(serial_id=9000))], [])
    store.apply([replace(READS, stamp=Stamp(serial_id=5000))], [GROUP])
    assert store.load().last_serial_id == 9000


@pytest.mark.parametrize(
    ("puts", "deletes"), [([DeployRecord("demo", 7)], []), ([DeployRecord("nosuch", 1)], []), ([], [ONE]), ([], [DEMO])]
)
def test_a_topic_on_what_is_not_there_leaves_everything_as_it_was(
    store: MetaStore, puts: list[DeployRecord], deletes: list[BrokerRecord | TopicRecord]
) -> None:
    store.apply(ALL, [])
    before = store.load()
    with pytest.raises(NotFoundError, match=r"topic \w+ cannot be on broker \d"):
        store.apply([replace(GROUP, alwd_broker_client_rate=9), *puts], deletes)
    assert store.load() == before


def test_a_broker_goes_together_with_what_is_on_it(store: MetaStore) -> None:
    store.apply(ALL, [])
    store.apply([], [ONE, TWO, ON_ONE, ON_TWO, DEMO])
    assert store.load() == Metadata(
        CLUSTER,
        consumes=[READS],
        groups=[GROUP],
        users=[USER],
        permissions=[ALLOWED],
        user_tokens=[TOKEN],
        audit=[ENTRY],
        last_serial_id=3000,
    )


def test_close_is_idempotent(store: MetaStore) -> None:
    store.close()
    store.close()


@given(st.one_of(*(st.from_type(table.kind) for table in TABLES if table.kind is not ConsumeRecord)))
def test_a_row_is_a_record(record: BrokerRecord) -> None:
    assert record_of(type(record), row_of(record)) == record


# --- what only a file can show ----------------------------------------------------------------------------------


def test_a_file_keeps_everything(tmp_path: Path) -> None:
    path = tmp_path / "made" / "meta.db"
    first = SqliteMetaStore(path)
    first.apply(ALL, [])
    kept = first.load()
    first.close()
    second = SqliteMetaStore(path)
    assert second.load() == kept
    second.close()


def test_a_full_disk_is_named_as_such_and_the_next_change_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def remember(path: Path, **options: Any) -> sqlite3.Connection:
        opened.append(connect(path, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", remember)
    store = SqliteMetaStore(tmp_path / "meta.db")
    store.apply(ALL, [])
    before = store.load()
    (pages,) = opened[0].execute("PRAGMA page_count").fetchone()
    (most,) = opened[0].execute(f"PRAGMA max_page_count = {pages}").fetchone()
    assert most == pages, "the file may not grow, as on a full disk"
    # SQLite ends the transaction itself at some of these changes and keeps it open at others. A rollback of ours fails
    # at the former, and must not be reported in place of the disk.
    large = "x" * 100_000
    changes: list[list[Record]] = [
        [replace(GROUP, flow_ctrl_info=large)],
        [replace(CLUSTER, flow_ctrl_info=large)],
        [replace(DEMO, topic=f"t{number}") for number in range(2000)],
    ]
    for change in changes:
        with pytest.raises(DiskFullError, match=r"no space left to write .*meta\.db"):
            store.apply(change, [])
        assert store.load() == before
    opened[0].execute(f"PRAGMA max_page_count = {pages + 1000}")
    store.apply([replace(DEMO, topic="later")], [])
    assert [topic.topic for topic in store.load().topics] == ["demo", "later"]
    store.close()


def test_a_file_of_the_first_layout_is_carried_over(tmp_path: Path) -> None:
    path = tmp_path / "meta.db"
    db = sqlite3.connect(path)
    db.executescript(
        (resources.files("pytubemq.storage.metastore") / "migrations" / "0001_first.sql").read_text()
        + """
        PRAGMA user_version=1;
        INSERT INTO broker VALUES (1, '127.0.0.1', 8123, 8124, 5, 1000, 1000, 0), (2, '::1', 9123, 9124, 6, 1, 1010, 0);
        INSERT INTO topic VALUES ('demo', 2048, 2000, 2000, 0);
        INSERT INTO deploy VALUES ('demo', 1, 3, 1, 1, 0, 'delete,72h', 2048, 0, 0),
                                  ('demo', 2, 2, 2, 1, 1, 'delete,168h', 2048, 1, 0);
        INSERT INTO cluster VALUES (1, 4096, 203, 3000, 0);
        UPDATE serial SET last = 3000;
        """
    )
    db.close()
    store = SqliteMetaStore(path)
    stamp = Stamp("", 2000, "", 2000, UNDEFINED, 2000)
    assert store.load() == Metadata(
        ClusterRecord(max_message_bytes=4096, qry_priority_id=203, stamp=Stamp(serial_id=3000)),
        [
            BrokerRecord(1, Address("127.0.0.1", 8123), stamp=Stamp("", 1000, "", 1000, UNDEFINED, 1000)),
            BrokerRecord(
                2,
                Address("::1", 9123),
                9124,
                manage_status=ManageStatus.ONLY_READ,
                stamp=Stamp("", 1, "", 1, UNDEFINED, 1010),
            ),
        ],
        [TopicRecord("demo", max_message_bytes=2048, stamp=stamp)],
        [
            DeployRecord(
                "demo",
                1,
                props=TopicProps(1, 3, accept_publish=True, accept_subscribe=False, delete_policy="delete,72h"),
                stamp=stamp,
            ),
            DeployRecord(
                "demo",
                2,
                TopicStatus.SOFT_DELETED,
                TopicProps(2, 2, accept_publish=True, accept_subscribe=True, delete_policy="delete,168h"),
                stamp,
            ),
        ],
        last_serial_id=3000,
    )
    store.apply([ON_ONE], [])
    with pytest.raises(NotFoundError):
        store.apply([], [ONE])
    store.close()


def _newer(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.close()


def _noise(path: Path) -> None:
    path.write_bytes(b"this is not a database, not at all" * 100)


@pytest.mark.parametrize(("spoil", "error"), [(_newer, NewerVersionError), (_noise, CorruptError)])
def test_a_file_that_is_not_ours_is_refused_untouched(
    tmp_path: Path, spoil: Callable[[Path], None], error: type[Exception]
) -> None:
    path = tmp_path / "meta.db"
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(error, match=r"meta\.db"):
        SqliteMetaStore(path)
    assert path.read_bytes() == before


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="file"):
        SqliteMetaStore(tmp_path / "file" / "meta.db")
