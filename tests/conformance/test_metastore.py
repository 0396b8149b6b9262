"""The contract of `MetaStore`, on every adapter."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import CorruptError, NewerVersionError, NotFoundError, RefusedError, StorageError
from pytubemq.model.ids import UNDEFINED, Address
from pytubemq.model.topic import TopicConfig
from pytubemq.storage.metastore.memory import MemoryMetaStore
from pytubemq.storage.metastore.port import BrokerRecord, ClusterSettings, MetaStore, TopicRecord
from pytubemq.storage.metastore.sqlite import SqliteMetaStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ONE = BrokerRecord(1, Address("127.0.0.1", 8123))
TWO = BrokerRecord(2, Address("::1", 9123), tls_port=9124, manage_status=6)
DEMO = TopicRecord("demo", 2048, deploys={2: TopicConfig("demo", 2, accept_publish=False), 1: TopicConfig("demo", 3)})


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetaStore]:
    made: MetaStore = MemoryMetaStore() if request.param == "memory" else SqliteMetaStore(tmp_path / "meta.db")
    yield made
    made.close()


def test_a_new_store_is_empty(store: MetaStore) -> None:
    assert store.brokers() == []
    assert store.topics() == []
    assert store.settings() == ClusterSettings()
    assert store.settings().serial_id == UNDEFINED


def test_brokers_are_kept_by_id_and_replaced(store: MetaStore) -> None:
    two = store.put_broker(TWO, now_ms=1000)
    one = store.put_broker(ONE, now_ms=1000)
    assert store.brokers() == [one, two]
    assert (one.created_ms, one.address, two.tls_port, two.manage_status) == (1000, ONE.address, 9124, 6)
    moved = store.put_broker(BrokerRecord(1, Address("127.0.0.1", 8999)), now_ms=5000)
    assert store.brokers()[0] == moved
    assert (moved.created_ms, moved.address.port) == (1000, 8999)


def test_serial_ids_grow_even_when_the_clock_does_not(store: MetaStore) -> None:
    serials = [store.put_broker(ONE, now_ms=now_ms).serial_id for now_ms in (1000, 1000, 900, 2000)]
    serials.append(store.put_settings(ClusterSettings(), now_ms=2000).serial_id)
    assert serials == sorted(set(serials))
    assert serials[0] == 1000
    assert serials[3] == 2000


def test_a_topic_is_kept_with_its_deployment(store: MetaStore) -> None:
    store.put_broker(ONE, now_ms=1)
    store.put_broker(TWO, now_ms=1)
    made = store.create_topic(DEMO, now_ms=2000)
    assert store.topics() == [made]
    assert made.deploys == DEMO.deploys
    assert list(made.deploys) == [1, 2]
    assert (made.created_ms, made.serial_id, made.max_message_bytes) == (2000, 2000, 2048)


def test_a_second_topic_of_a_name_is_refused(store: MetaStore) -> None:
    store.put_broker(ONE, now_ms=1)
    made = store.create_topic(TopicRecord("demo", deploys={1: TopicConfig("demo", 3)}), now_ms=2)
    with pytest.raises(RefusedError, match="topic demo exists already"):
        store.create_topic(TopicRecord("demo", deploys={1: TopicConfig("demo", 9)}), now_ms=3)
    assert store.topics() == [made]


def test_a_topic_on_an_unknown_broker_leaves_nothing(store: MetaStore) -> None:
    store.put_broker(ONE, now_ms=1)
    with pytest.raises(NotFoundError, match="no Broker 2"):
        store.create_topic(DEMO, now_ms=2)
    assert store.topics() == []


def test_a_deployment_is_added_and_replaced(store: MetaStore) -> None:
    store.put_broker(ONE, now_ms=1)
    store.put_broker(TWO, now_ms=1)
    made = store.create_topic(TopicRecord("demo", deploys={1: TopicConfig("demo", 3)}), now_ms=2)
    grown = store.deploy_topic("demo", [(1, TopicConfig("demo", 5)), (2, TopicConfig("demo", 1))], now_ms=3)
    assert {broker: config.partitions for broker, config in grown.deploys.items()} == {1: 5, 2: 1}
    assert grown.serial_id > made.serial_id
    assert store.topics() == [grown]
    with pytest.raises(NotFoundError, match="no topic nosuch"):
        store.deploy_topic("nosuch", [], now_ms=4)
    with pytest.raises(NotFoundError, match="no Broker 7"):
        store.deploy_topic("demo", [(1, TopicConfig("demo", 9)), (7, TopicConfig("demo", 1))], now_ms=4)
    assert store.topics() == [grown]


def test_answers_are_copies(store: MetaStore) -> None:
    store.put_broker(ONE, now_ms=1)
    made = store.create_topic(TopicRecord("demo", deploys={1: TopicConfig("demo", 3)}), now_ms=2)
    made.deploys.clear()
    store.topics()[0].deploys.clear()
    assert list(store.topics()[0].deploys) == [1]


def test_settings_are_replaced(store: MetaStore) -> None:
    set_ = store.put_settings(ClusterSettings(max_message_bytes=4096, qry_priority_id=203), now_ms=10)
    assert store.settings() == set_
    assert (set_.max_message_bytes, set_.qry_priority_id, set_.serial_id) == (4096, 203, 10)


def test_close_is_idempotent(store: MetaStore) -> None:
    store.close()
    store.close()


# --- what only a file can show ----------------------------------------------------------------------------------


def test_a_file_keeps_everything(tmp_path: Path) -> None:
    path = tmp_path / "made" / "meta.db"
    first = SqliteMetaStore(path)
    one, two = first.put_broker(ONE, now_ms=1), first.put_broker(TWO, now_ms=1)
    topic = first.create_topic(DEMO, now_ms=2)
    settings = first.put_settings(ClusterSettings(qry_priority_id=101), now_ms=3)
    first.close()
    second = SqliteMetaStore(path)
    assert (second.brokers(), second.topics(), second.settings()) == ([one, two], [topic], settings)
    assert second.put_broker(ONE, now_ms=0).serial_id > settings.serial_id
    second.close()


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
