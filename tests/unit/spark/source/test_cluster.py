"""The source's way to the cluster, against scripted Brokers: what is away is waited for and then named."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import pytubemq.sync
from pytubemq.errors import OffsetMovedError, TransportError
from pytubemq.model.ids import Partition
from pytubemq.net.iothread import IoThread
from pytubemq.net.masters import parse_masters
from pytubemq.spark.source import cluster as cluster_module
from pytubemq.spark.source.cluster import Cluster
from pytubemq.spark.source.plan import Ends, OffsetRange
from pytubemq.testing.mock_broker import MockBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

P0 = Partition(1, "demo", 0)
P1 = Partition(2, "demo", 0)


@pytest.fixture
def io() -> Iterator[IoThread]:
    thread = IoThread()
    yield thread
    thread.close()


@pytest.fixture
def mocks(io: IoThread, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[MockBroker, MockBroker]]:
    """Two Brokers with a partition of the topic each; the first one's Master names both."""
    monkeypatch.setattr(cluster_module, "_reached", set())
    monkeypatch.setattr(pytubemq.sync, "connect", partial(pytubemq.sync.connect, request_timeout_s=0.3))

    async def start() -> tuple[MockBroker, MockBroker]:
        first, second = MockBroker(topics={"demo": 1}), MockBroker(topics={"demo": 1}, broker_id=2)
        await first.start()
        await second.start()
        first.peers.append(second)
        first.store("demo", b"a", b"b")
        second.store("demo", b"c")
        return first, second

    made = io.run(start())
    yield made
    for mock in made:
        io.run(mock.stop())


@pytest.fixture
def cluster(mocks: tuple[MockBroker, MockBroker]) -> Iterator[Cluster]:
    cluster = Cluster(parse_masters(mocks[0].masters))
    yield cluster
    cluster.forget()


def go_away(io: IoThread, mock: MockBroker) -> None:
    """As a Master sees it that has noticed: producers are not told of this Broker any more."""
    mock.online = False
    io.run(mock.stop_broker())


def test_a_topic_is_never_taken_for_the_part_whose_brokers_are_there(
    io: IoThread, mocks: tuple[MockBroker, MockBroker], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "OUTAGE_S", 0.5)
    go_away(io, mocks[1])
    with pytest.raises(TransportError, match="Broker 2"):
        cluster.ends(["demo"])


def test_a_broker_that_comes_back_completes_the_answer(
    io: IoThread, mocks: tuple[MockBroker, MockBroker], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = mocks[1]
    go_away(io, away)
    pauses: list[float] = []

    def sleep(pause_s: float) -> None:
        if not pauses:
            io.run(away.start_broker())
        pauses.append(pause_s)

    monkeypatch.setattr(cluster_module.time, "sleep", sleep)
    assert cluster.ends(["demo"]) == {P0: Ends(0, 56), P1: Ends(0, 28)}


def test_a_range_beyond_a_log_that_shrank_is_data_loss_and_no_wait(
    io: IoThread, mocks: tuple[MockBroker, MockBroker], cluster: Cluster
) -> None:
    go_away(io, mocks[1])  # another Broker's absence does not keep this from being told
    wanted = OffsetRange(P0, 0, 28 * 5)
    fetches = iter(cluster.fetches(wanted))
    assert [message.body for message in next(fetches)] == [b"a", b"b"]
    with pytest.raises(OffsetMovedError, match=r"data loss in partition 1:demo:0.*the Broker has 0 to 56"):
        next(fetches)
    kept = [message.body for batch in cluster.fetches(wanted, fail_on_data_loss=False) for message in batch]
    assert kept == [b"a", b"b"]


def test_a_loss_at_a_broker_that_is_away_is_no_empty_partition(
    io: IoThread, mocks: tuple[MockBroker, MockBroker], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "OUTAGE_S", 0.5)
    io.run(mocks[1].stop_broker())
    error = OffsetMovedError("moved", code=301)
    for fail in (True, False):
        with pytest.raises(TransportError, match="Broker 2"):
            cluster._after_loss(OffsetRange(P1, 0, 28), 0, error, fail=fail)
