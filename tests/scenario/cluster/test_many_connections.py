"""Thousands of connections that say nothing: they stay, they cost little, and others are served."""

from __future__ import annotations

import resource
import socket
from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytubemq import connect
from pytubemq.model.limits import KIB
from pytubemq.server.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.server.cluster import EmbeddedCluster as Cluster

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]

MOST_BYTES = 20 * KIB
"""Of the Broker's memory, for one connection."""


@pytest.fixture
def many(soak: bool) -> Iterator[int]:
    """How many connections; this process may have as many files open meanwhile."""
    count = 5_000 if soak else 1_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard > count + 500, "raise the hard limit of open files (ulimit -Hn)"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 500), hard))
    yield count
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def figures(cluster: Cluster) -> dict[str, float]:
    """The Broker's figures without labels."""
    async with httpx.AsyncClient(timeout=60) as http:
        answer = await http.get(cluster.broker_pages[1].replace("broker.htm", "metrics"))
    return {
        sample.name.removeprefix("pytubemq_"): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if not sample.labels
    }


async def test_idle_connections_stay_and_cost_little(many: int) -> None:
    async with EmbeddedCluster(broker_in_child=True) as cluster, connect(cluster.master) as tube:
        await cluster.create_topic("demo", partitions=2)
        async with tube.producer("demo") as producer:
            await producer.send(b"before")  # what is loaded at the first use counts for nobody
            await figures(cluster)
            before = await figures(cluster)
            host, _, port = cluster.brokers[1].partition(":")
            idle = []
            try:
                for _ in range(many):
                    connection = socket.create_connection((host, int(port)))
                    connection.setblocking(False)
                    idle.append(connection)
                found = before

                async def all_there() -> bool:
                    nonlocal found
                    found = await figures(cluster)
                    return found["broker_connections"] >= before["broker_connections"] + many

                while not await all_there():
                    pass
                grown = found["process_resident_memory_bytes"] - before["process_resident_memory_bytes"]
                assert grown / many < MOST_BYTES
                assert found["process_open_fds"] >= many
                for number in range(100):
                    await producer.send(b"%d" % number)
                assert not [connection for connection in idle if ended(connection)]
            finally:
                for connection in idle:
                    connection.close()

            async def all_gone() -> bool:
                return (await figures(cluster))["broker_connections"] <= before["broker_connections"]

            while not await all_gone():
                pass


def ended(connection: socket.socket) -> bool:
    """Whether the Broker has closed it; it says nothing to those that say nothing."""
    try:
        connection.recv(1)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True
