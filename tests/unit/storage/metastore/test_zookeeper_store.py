"""What only ZooKeeper can show: fencing, lost responses, damaged nodes, who may read them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import (
    ConfigError,
    CorruptError,
    DatabaseUnreachableError,
    FencedError,
    NewerVersionError,
    StorageError,
)
from pytubemq.model.ids import Address
from pytubemq.model.records import BrokerRecord, GroupRecord
from tests.support.ports import free_port
from tests.support.zookeeper.stores import leading_in_zookeeper, open_in_zookeeper, raw, succeed

if TYPE_CHECKING:
    from pytubemq.core.database.zookeeper_options import ZooKeeperOptions
    from pytubemq.storage.metastore.zookeeper_store.store import ZooKeeperMetaStore
    from tests.support.zookeeper.server import ZooKeeper

pytestmark = pytest.mark.process

GROUP = GroupRecord("g", alwd_broker_client_rate=4)
BROKER = BrokerRecord(1, Address("127.0.0.1", 8123))


@pytest.fixture
def root(zookeeper: ZooKeeper) -> str:
    return zookeeper.new_root()


@pytest.fixture
def options(zookeeper: ZooKeeper, root: str) -> ZooKeeperOptions:
    return zookeeper.options(root)


def test_another_process_loads_what_was_written(zookeeper: ZooKeeper, root: str) -> None:
    first = leading_in_zookeeper(zookeeper, root)
    first.apply([GROUP, BROKER], [])
    second = open_in_zookeeper(zookeeper.options(root))
    assert second.load() == first.load()
    assert second.changes() == 1
    for store in (first, second):
        store.close()


def test_a_master_that_does_not_lead_changes_nothing(options: ZooKeeperOptions) -> None:
    store = open_in_zookeeper(options)
    with pytest.raises(FencedError, match="does not lead"):
        store.apply([GROUP], [])
    assert store.load().groups == []
    store.close()


def test_an_older_epoch_changes_nothing(zookeeper: ZooKeeper, root: str, options: ZooKeeperOptions) -> None:
    old = leading_in_zookeeper(zookeeper, root)
    old.apply([GROUP], [])
    new = open_in_zookeeper(options)
    new.lead(succeed(options))
    before = new.load()
    with pytest.raises(FencedError, match="another one has led since, and this one had epoch 1"):
        old.apply([BROKER], [GROUP])
    assert new.load() == before
    new.apply([BROKER], [])
    assert new.load().brokers == [BROKER]
    for store in (old, new):
        store.close()


def test_no_change_is_made_over_one_that_is_not_known(zookeeper: ZooKeeper, root: str) -> None:
    one = leading_in_zookeeper(zookeeper, root)
    one.load()
    other = open_in_zookeeper(zookeeper.options(root))
    other.lead(1)
    other.apply([GROUP], [])
    with pytest.raises(StorageError, match="not those that this Master knows"):
        one.apply([BROKER], [])
    assert other.load().brokers == []
    for store in (one, other):
        store.close()


@pytest.mark.parametrize("took_place", [True, False])
def test_a_change_whose_response_was_lost_is_looked_up(
    zookeeper: ZooKeeper, root: str, monkeypatch: pytest.MonkeyPatch, took_place: bool
) -> None:
    store = leading_in_zookeeper(zookeeper, root)
    store.load()
    _lose_the_response(store, monkeypatch, send=took_place)
    if took_place:
        store.apply([GROUP], [])
    else:
        with pytest.raises(DatabaseUnreachableError, match="nothing was changed"):
            store.apply([GROUP], [])
    store.apply([BROKER], [])
    found = store.load()
    assert (found.groups, found.brokers) == ([GROUP] if took_place else [], [BROKER])
    store.close()


def test_a_lost_request_that_arrives_late_changes_nothing(
    zookeeper: ZooKeeper, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = leading_in_zookeeper(zookeeper, root)
    store.load()
    late = _lose_the_response(store, monkeypatch, send=False)
    with pytest.raises(DatabaseUnreachableError, match="nothing was changed"):
        store.apply([GROUP], [])
    (operations,) = late
    results = store._session.multi(operations, limit_s=60)
    assert any(isinstance(result, Exception) for result in results)
    assert store.load().groups == []
    store.close()


def _lose_the_response(store: ZooKeeperMetaStore, monkeypatch: pytest.MonkeyPatch, *, send: bool) -> list[Any]:
    """Lose the response of the next transaction, or the request; return what was to be sent."""
    plain, seen = store._session.multi, []

    def multi(operations: Any, **limits: Any) -> Any:
        seen.append(operations)
        monkeypatch.undo()
        if send:
            plain(operations, **limits)
        store._session.drop()
        raise DatabaseUnreachableError("the connection broke")

    monkeypatch.setattr(store._session, "multi", multi)
    return seen


def test_a_change_that_is_larger_than_zookeeper_takes_is_refused_whole(zookeeper: ZooKeeper, root: str) -> None:
    store = leading_in_zookeeper(zookeeper, root)
    with pytest.raises(StorageError, match=r"a change of 9000 records has \d+ bytes"):
        store.apply([GroupRecord(f"a group with a longer name {number}") for number in range(9000)], [])
    assert store.load().groups == []
    # As large as it may be, and read back in many parts.
    some = [GroupRecord(f"g{number:05}") for number in range(4000)]
    store.apply(some, [])
    assert store.load().groups == some
    store.close()


@pytest.mark.parametrize("change", ["value", "removed", "moved", "state", "no state"])
def test_a_change_behind_our_back_is_found(
    zookeeper: ZooKeeper, root: str, options: ZooKeeperOptions, change: str
) -> None:
    store = leading_in_zookeeper(zookeeper, root)
    store.apply([GROUP, BROKER], [])
    node, state = options.node("records", "consumer_group", "=g"), options.node("state")
    content = raw(options, "get_async", node)[0]
    if change == "value":
        raw(options, "set_async", node, json.dumps([*json.loads(content)[:-1], 7]).encode())
    elif change == "removed":
        raw(options, "delete_async", node)
    elif change == "moved":
        raw(options, "delete_async", node)
        raw(options, "create_async", options.node("records", "consumer_group", "=h"), content)
    elif change == "state":
        raw(options, "set_async", state, raw(options, "get_async", state)[0].replace(b"2", b"3"))
    else:
        raw(options, "delete_async", state)
    with pytest.raises(CorruptError, match=r"damaged|missing"):
        store.load()
    store.close()


def test_a_newer_layout_is_refused_untouched(options: ZooKeeperOptions) -> None:
    open_in_zookeeper(options).close()
    raw(options, "set_async", options.node("layout"), b"99")
    with pytest.raises(NewerVersionError, match="has layout 99"):
        open_in_zookeeper(options)
    assert raw(options, "get_async", options.node("layout"))[0] == b"99"


def test_the_nodes_belong_to_their_user(options: ZooKeeperOptions) -> None:
    open_in_zookeeper(options).close()
    with pytest.raises(ConfigError, match="belongs to another user") as caught:
        open_in_zookeeper(replace(options, password="a wrong one"))
    assert "a wrong one" not in str(caught.value)
    with pytest.raises(ConfigError, match="has a user without a password"):
        open_in_zookeeper(replace(options, password=None))


def test_servers_that_are_away_are_named(options: ZooKeeperOptions) -> None:
    place = f"127.0.0.1:{free_port()}"
    url = options.url.replace(options.hosts, place)
    with pytest.raises(DatabaseUnreachableError, match=rf"{place}/of_test_\d+/records cannot be used now"):
        open_in_zookeeper(replace(options, url=url))
