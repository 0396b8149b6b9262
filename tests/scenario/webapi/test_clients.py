"""What an administrator changes over HTTP, as our own clients meet it on a whole cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import pytubemq
from pytubemq.errors import Code, NotAllowedError
from pytubemq.server.cluster import EmbeddedCluster
from tests.scenario.webapi.house import USER
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]


async def change(cluster: EmbeddedCluster, method: str, **params: Any) -> None:
    async with httpx.AsyncClient(base_url=cluster.http) as client:
        answer = (await client.post("/webapi.htm", data={"method": method, **USER, **params})).json()
    assert answer["result"], answer
    assert all(item.get("success", True) for item in answer["data"]), answer


async def test_a_group_is_kept_out_let_in_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async with EmbeddedCluster(data_dir=tmp_path) as cluster:
        await cluster.create_topic("demo", partitions=2)
        pair = {"topicName": "demo", "groupName": "g"}
        async with pytubemq.connect(cluster.master) as tube, tube.producer("demo") as producer:
            async with tube.consumer("g", "demo", start=pytubemq.Start.EARLIEST) as consumer:
                await until(lambda: len(consumer.assignment) == 2)
                await producer.send(b"first")
                await consume_one(consumer, b"first")
                await change(cluster, "admin_add_black_consumergroup_info", **pair)
                await until(lambda: not consumer.assignment)
                await producer.send(b"second")
                await change(cluster, "admin_delete_black_consumergroup_info", **pair)
                await consume_one(consumer, b"second")
            await change(cluster, "admin_set_topic_authorize_control", topicName="demo", isEnable="true")
            with pytest.raises(NotAllowedError) as caught:
                async with tube.consumer("stranger", "demo"):
                    pass
            assert caught.value.code == Code.CONSUME_GROUP_FORBIDDEN
            assert "docs/how-to/control-groups.md" in str(caught.value)
            await producer.send(b"third")
            async with tube.consumer("g", "demo", start=pytubemq.Start.EARLIEST) as consumer:
                await consume_one(consumer, b"third")


async def consume_one(consumer: pytubemq.Consumer, body: bytes) -> None:
    """The next message, confirmed."""
    async with asyncio.timeout(30):
        batch = await consumer.next_batch()
    assert batch is not None
    assert [message.body for message in batch] == [body]
    await batch.confirm()


async def test_a_group_that_may_only_filter_gets_its_items(tmp_path: Path) -> None:
    async with EmbeddedCluster(data_dir=tmp_path) as cluster:
        await cluster.create_topic("demo", partitions=1)
        await change(cluster, "admin_set_topic_authorize_control", topicName="demo", isEnable="true")
        rule = {"topicName": "demo", "groupName": "g", "condStatus": "2", "filterConds": "refund,void"}
        await change(cluster, "admin_add_group_filtercond_info", **rule)
        async with pytubemq.connect(cluster.master) as tube:
            async with tube.producer("demo") as producer:
                await producer.send(b"sale", msg_type="sale")
                await producer.send(b"refund", msg_type="refund")
            for filters in (None, ["sale"]):
                with pytest.raises(NotAllowedError) as caught:
                    async with tube.consumer("g", "demo", filters=filters):
                        pass
                assert caught.value.code == Code.CONSUME_CONTENT_FORBIDDEN
            async with tube.consumer("g", "demo", filters=["refund"], start=pytubemq.Start.EARLIEST) as consumer:
                await consume_one(consumer, b"refund")
