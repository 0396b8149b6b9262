"""`/metrics` and `/health` of a Broker and of the Master, as a monitor sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytubemq import Start, connect
from pytubemq.broker.metrics import BROKER_METRICS
from pytubemq.master.metrics import MASTER_METRICS
from pytubemq.observe.metrics import PREFIX, Kind
from pytubemq.observe.process import PROCESS_METRICS
from pytubemq.server.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.observe.metrics import Source

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]

Figures = dict[tuple[str, ...], float]


async def scrape(url: str) -> tuple[set[str], Figures]:
    """The families, and values by name and labels."""
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{url}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(answer.text))
    values = {(s.name.removeprefix(PREFIX), *s.labels.values()): s.value for f in families for s in f.samples}
    return {family.name.removeprefix(PREFIX) for family in families}, values


def names(*tables: Iterable[Source[Any]]) -> set[str]:
    # the parser names a counter's family without the ending of its samples
    return {
        source.metric.name.removesuffix("_total") if source.metric.kind is Kind.COUNTER else source.metric.name
        for table in tables
        for source in table
    }


async def test_a_broker_tells_what_it_took_in_handed_out_and_refused() -> None:
    async with EmbeddedCluster() as cluster, connect(cluster.master) as tube:
        await cluster.create_topic("demo", partitions=2)
        async with tube.producer("demo") as producer:
            for number in range(10):
                await producer.send(b"x" * 100, partition=number % 2)
        async with tube.consumer("readers", "demo", start=Start.EARLIEST) as consumer:
            batch = await consumer.next_batch(timeout_s=30)
            assert batch is not None
            await batch.confirm()
        url = cluster.broker_pages[1].removesuffix("/broker.htm")
        told, values = await scrape(url)
        assert told == names(PROCESS_METRICS, BROKER_METRICS)
        assert values["broker_topic_messages_in_total", "demo"] == 10
        assert values["broker_topic_messages", "demo"] == 10
        assert values["broker_topic_bytes_in_total", "demo"] > 1_000
        assert len(batch) <= values["broker_topic_messages_out_total", "demo"] <= 10
        assert values["broker_topic_bytes_out_total", "demo"] >= 100 * values["broker_topic_messages_out_total", "demo"]
        assert values["broker_journal_blocks_total",] == values["broker_journal_write_seconds_count",] > 0
        assert values["broker_appended_messages_total",] == 10
        assert values["broker_group_lag_messages", "readers", "demo"] == 10 - len(batch)
        assert values["broker_registered",] == 1
        assert values["broker_connections",] >= 1
        assert (values["broker_disk_full",], values["broker_failed",], values["broker_problems",]) == (0, 0, 0)
        assert values["broker_disk_free_bytes",] > 0
        async with httpx.AsyncClient() as http:
            health = await http.get(f"{url}/health")
        assert (health.status_code, health.json()["status"]) == (200, "ok")


async def test_a_master_tells_who_is_there() -> None:
    async with EmbeddedCluster() as cluster, connect(cluster.master) as tube:
        await cluster.create_topic("demo", partitions=2)
        async with tube.producer("demo") as producer, tube.consumer("readers", "demo"):
            await producer.send(b"x")
            found: dict[str, Figures] = {}

            async def settled() -> bool:
                told, values = await scrape(cluster.http)
                assert told == names(PROCESS_METRICS, MASTER_METRICS)
                found["now"] = values
                return values["master_groups", "stable"] == 1

            while not await settled():
                pass
        values = found["now"]
        assert (values["master_brokers", "online"], values["master_brokers", "away"]) == (1, 0)
        assert values["master_topics",] == values["master_producers",] == values["master_consumers",] == 1
        assert values["master_healthy",] == 1
        assert values["master_rebalances_total",] >= 1
        assert values["master_requests_total", "broker_heartbeat_b2m"] >= 1
        assert values["master_requests_total", "producer_register_p2m"] == 1


async def test_a_server_that_does_not_run_yet_says_so() -> None:
    async with EmbeddedCluster() as cluster:
        node = cluster._running[1]
        url = cluster.broker_pages[1].removesuffix("/broker.htm")
        broker = node.broker  # type: ignore[union-attr]
        assert broker is not None
        await broker.close()
        async with httpx.AsyncClient() as http:
            for path in ("metrics", "health"):
                answer = await http.get(f"{url}/{path}")
                assert answer.status_code == 503, path
                assert "not running" in answer.text
