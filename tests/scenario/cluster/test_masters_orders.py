"""Rules and removals that an operator gives the Master, as its Broker carries them out."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pytubemq import Consumer, Start, Throttled, connect
from pytubemq.server.cluster import EmbeddedCluster
from pytubemq.server.compose import Node
from tests.support.waiting import until

if TYPE_CHECKING:
    from pytubemq.broker.state import BrokerState

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]
RULES = [{"type": 0, "rule": [{"start": "00:00", "end": "24:00", "dltInM": 21, "limitInM": 0, "freqInMs": 400}]}]


async def call(http: httpx.AsyncClient, cluster: EmbeddedCluster, method: str, **params: object) -> dict[str, Any]:
    answer = await http.post(
        f"{cluster.http}/webapi.htm",
        data={"method": method, "createUser": "me", "modifyUser": "me", **params},
    )
    found: dict[str, Any] = answer.json()
    assert found["result"] is True, found
    assert all(row.get("success", True) for row in found["data"]), found
    return found


def state(cluster: EmbeddedCluster) -> BrokerState:
    node = cluster._running[1]
    assert isinstance(node, Node)
    assert node.broker is not None
    assert node.broker._state is not None
    return node.broker._state


async def test_the_clusters_rules_reach_a_broker_at_once_and_go_at_once() -> None:
    async with EmbeddedCluster() as cluster, httpx.AsyncClient() as http:
        flow = state(cluster).flow
        await call(
            http, cluster, "admin_set_cluster_default_setting", flowCtrlEnable="true", flowCtrlInfo=json.dumps(RULES)
        )
        await until(lambda: flow.limits, timeout_s=5)
        await call(http, cluster, "admin_set_cluster_default_setting", flowCtrlEnable="false")
        await until(lambda: not flow.limits, timeout_s=5)


async def test_a_consumer_far_behind_is_slowed_down_and_goes_on_when_the_rules_go() -> None:
    async with EmbeddedCluster() as cluster, httpx.AsyncClient() as http, connect(cluster.master) as tube:
        await cluster.create_topic("demo", partitions=1)
        async with tube.producer("demo") as producer:
            for number in range(26):
                await producer.send(bytes([number]) * 1_000_000)
        await call(
            http, cluster, "admin_set_cluster_default_setting", flowCtrlEnable="true", flowCtrlInfo=json.dumps(RULES)
        )
        flow = state(cluster).flow
        await until(lambda: flow.limits)
        found: list[int] = []

        async def read(consumer: Consumer) -> None:
            async for batch in consumer.batches():
                found.extend(message.body[0] for message in batch)
                await batch.confirm()
                if len(found) == 26:
                    return

        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            reading = asyncio.create_task(read(consumer))
            async for event in tube.events():
                if isinstance(event, Throttled):
                    break
            await until(lambda: found)
            assert len(found) < 26
            await call(http, cluster, "admin_set_cluster_default_setting", flowCtrlEnable="false")
            await asyncio.wait_for(reading, 60)
        assert found == list(range(26))


async def test_a_topic_is_removed_from_its_broker_and_made_anew() -> None:
    async with EmbeddedCluster() as cluster, httpx.AsyncClient() as http, connect(cluster.master) as tube:
        await cluster.create_topic("demo", partitions=2)
        async with tube.producer("demo") as producer:
            await producer.send(b"old", partition=0)
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batch = await consumer.next_batch()
            assert batch is not None
            await batch.confirm()
        where = {"brokerId": 1, "topicName": "demo"}
        await call(http, cluster, "admin_modify_topic_info", **where, acceptPublish="false", acceptSubscribe="false")
        await call(http, cluster, "admin_delete_topic_info", **where)
        await call(http, cluster, "admin_remove_topic_info", **where)
        broker = state(cluster)
        await until(lambda: not [key for key in broker.store.partitions() if key[0] == "demo"])
        assert not broker.store.positions()
        assert cluster._master is not None
        master = cluster._master.master
        assert master is not None
        await until(lambda: not master.catalogue.deploys)
        await call(http, cluster, "admin_add_new_topic_record", **where, numPartitions=1)
        await until(lambda: broker.topics.get("demo"))
        async with tube.producer("demo") as producer:
            assert (await producer.send(b"new")).offset == 0
