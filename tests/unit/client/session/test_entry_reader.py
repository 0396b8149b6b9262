"""Lists of a Master with entries that cannot be read, or that say very much in few characters."""

from __future__ import annotations

import logging
import tracemalloc

import pytest

from pytubemq.client.consumer.client_balance.partition_metadata import PartitionMeta
from pytubemq.client.options import ConnectOptions
from pytubemq.client.session.cluster_connection import Cluster
from pytubemq.client.session.entry_reader import EntryReader
from pytubemq.client.session.routes import RouteDiscovery
from pytubemq.model.ids import Address, BrokerInfo, Partition
from pytubemq.model.limits import MAX_KNOWN_PARTITIONS, WARNING_PERIOD_S
from pytubemq.wire.text.broker_strings import parse_broker_info

POISONED = (
    "0:h:1",
    "9999999999:h:1",
    "2:a b:1",
    "3:h:99999",
    "4:a\x1b[2J:1",
    "5:a..b:1",
    "6:a#b:1",
    "x",
    "1:10.1.2.3: ",
)
BROKER = BrokerInfo(1, Address("10.1.2.3", 8123))
pytestmark = pytest.mark.anyio


@pytest.fixture
async def discovery() -> RouteDiscovery:
    return RouteDiscovery(Cluster(ConnectOptions([Address("127.0.0.1", 1)])), ("demo",))


async def test_a_producer_goes_on_with_the_brokers_that_it_can_read(discovery: RouteDiscovery) -> None:
    discovery._learn(1, POISONED, None)
    assert discovery._cluster.brokers == {1: BROKER.address}
    routes = discovery._parse_routes(["demo#9999999999:3:1,1:2:1,2:1000000:1#", "../x#1:1:1#", "other#1:1000000:1#"])
    assert routes["demo"].partitions == (Partition(1, "demo", 0), Partition(1, "demo", 1))
    assert set(routes) == {"demo"}


async def test_a_list_that_names_very_many_partitions_costs_little(discovery: RouteDiscovery) -> None:
    discovery._learn(1, [f"{number}:h:1" for number in range(1, 1001)], None)
    text = "demo#" + ",".join(f"{number}:10000:1" for number in range(1, 1001)) + "#"
    tracemalloc.start()
    routes = discovery._parse_routes([text, text.replace("demo", "other")])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(len(one.partitions) for one in routes.values()) == MAX_KNOWN_PARTITIONS
    assert peak < 400 * MAX_KNOWN_PARTITIONS


async def test_a_group_that_divides_partitions_itself_does_likewise() -> None:
    meta = PartitionMeta()
    assert meta.update_brokers(3, POISONED) == [BROKER]
    texts = ("demo#1:1:2:1,9999999999:1:1:1,2:1:1000000:1", "a\nb#1:1:1:1", "other#1:1:1:0")
    assert meta.update_topics(4, texts, now_ms=0, now_s=0.0)
    assert meta.partitions == {
        Partition(1, "demo", 0): True,
        Partition(1, "demo", 1): True,
        Partition(1, "other", 0): False,
    }
    many = "demo#" + ",".join(f"{number}:1:10000:1" for number in range(1, 1001))
    assert meta.update_topics(5, (many,), now_ms=0, now_s=0.0)
    assert len(meta.partitions) == MAX_KNOWN_PARTITIONS


async def test_what_is_left_out_is_named_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [1.0]
    entries = EntryReader(now_s=lambda: now_s[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            assert entries.read(POISONED, parse_broker_info, "a list") == [BROKER]
    assert len(caplog.records) == 1
    assert "skipped an entry of a list" in caplog.records[0].getMessage()
    assert entries.skipped == 800
    now_s[0] += WARNING_PERIOD_S
    with caplog.at_level(logging.WARNING):
        entries.read(POISONED, parse_broker_info, "a list")
        entries.read(POISONED, parse_broker_info, "another list")
    assert len(caplog.records) == 3
