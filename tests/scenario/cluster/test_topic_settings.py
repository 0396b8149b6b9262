"""Durability and retention, from who says it to the Broker that keeps the messages."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest

from pytubemq import Start, connect
from pytubemq.cli.api import Api
from pytubemq.errors import BadRequestError, NotFoundError
from pytubemq.server.cluster import EmbeddedCluster
from tests.support.waiting import until, until_answer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

SAID = ("durability", "durability_from", "retention", "retention_from")


class Operator:
    """Asks the JSON API."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._api = Api(cluster.http, timeout_s=60)

    async def get(self, *path: str) -> Any:
        return await asyncio.to_thread(self._api.get, *path)

    async def post(self, *path: str, **body: Any) -> Any:
        return await asyncio.to_thread(lambda: self._api.post(*path, body=body))

    async def patch(self, *path: str, **body: Any) -> Any:
        return await asyncio.to_thread(lambda: self._api.patch(*path, body=body))

    async def said(self, topic: str) -> tuple[str, ...]:
        found = await self.get("topics", topic)
        return tuple(found[name] for name in SAID)


def kept(data_dir: Path, broker_id: int = 1) -> tuple[set[str], set[str]]:
    """What a Broker has on disk of durability and retention beyond the original's strings."""
    file = msgspec.json.decode((data_dir / f"broker-{broker_id}" / "topics.json").read_bytes())
    return set(file["topic_durability"]), set(file["topic_retention"])


async def test_a_topic_the_cluster_or_nobody_says_how_messages_are_kept(tmp_path: Path) -> None:
    settings = {"broker.durability": "process"}
    async with EmbeddedCluster(data_dir=tmp_path, brokers=2, settings=settings) as cluster:
        ask = Operator(cluster)
        await ask.post("topics", name="plain", partitions=1)
        assert await ask.said("plain") == ("process", "default", "168h", "default")
        made = await ask.post("topics", name="own", partitions=1, durability="memory", retention="72h,10GB")
        assert tuple(made[name] for name in SAID) == ("memory", "topic", "72h,10GB", "topic")
        assert made["delete_policy"] == "delete,72h,10GB"
        for broker_id in (1, 2):
            assert kept(tmp_path, broker_id) == ({"own:memory"}, {"own:delete,72h,10GB"})

        found = await ask.patch("cluster", "defaults", durability="disk", retention="forever")
        assert found == {
            "durability": "disk", "durability_from": "cluster", "retention": "forever", "retention_from": "cluster",
            "delete_policy": "keep", "max_message_bytes": 1 << 20,
        }  # fmt: skip
        assert await ask.said("plain") == ("disk", "cluster", "forever", "cluster")
        assert await ask.said("own") == ("memory", "topic", "72h,10GB", "topic")

        await ask.patch("topics", "own", durability="default", retention="default", partitions=3)
        assert await ask.said("own") == ("disk", "cluster", "forever", "cluster")
        for broker_id in (1, 2):  # in force when the change was answered
            assert kept(tmp_path, broker_id) == ({"own:disk", "plain:disk"}, {"own:keep", "plain:keep"})
        assert (await ask.get("topics", "own"))["partitions"] == 6

        found = await ask.patch("cluster", "defaults", durability="default", retention="default")
        assert (found["durability"], found["retention"], found["retention_from"]) == ("process", "168h", "default")
        assert await ask.said("own") == ("process", "default", "168h", "default")


async def test_what_was_said_is_so_after_a_restart_of_all(tmp_path: Path) -> None:
    async with EmbeddedCluster(data_dir=tmp_path) as cluster:
        ask = Operator(cluster)
        await ask.patch("cluster", "defaults", durability="process")
        await ask.post("topics", name="own", retention="10GB")
    async with EmbeddedCluster(data_dir=tmp_path) as cluster:
        assert await Operator(cluster).said("own") == ("process", "cluster", "10GB", "topic")
        assert kept(tmp_path) == ({"own:process"}, {"own:delete,10GB"})


async def test_the_older_api_says_both_too_and_shows_them(tmp_path: Path) -> None:
    async with EmbeddedCluster(data_dir=tmp_path) as cluster:
        ask = Operator(cluster)

        async def webapi(method: str, **params: str) -> Any:
            data = {"method": method, **params}
            answer = await asyncio.to_thread(httpx.post, f"{cluster.http}/webapi.htm", data=data)
            found = answer.json()
            assert found["result"], found
            return found["data"]

        await ask.post("topics", name="own")
        await webapi("admin_update_cluster_default_setting", modifyUser="ann", durability="process")
        (row,) = await webapi(
            "admin_update_topic_deploy_info", topicName="own", brokerId="1", durability="memory",
            deletePolicy="delete,24h,5GB", modifyUser="ann",
        )  # fmt: skip
        assert row["success"]
        assert await ask.said("own") == ("memory", "topic", "24h,5GB", "topic")
        (row,) = await webapi("admin_query_topic_deploy_configure", topicName="own", durability="memory")
        assert (row["deletePolicy"], row["durability"]) == ("delete,24h,5GB", "memory")
        await until(lambda: kept(tmp_path) == ({"own:memory"}, {"own:delete,24h,5GB"}))
        (row,) = await webapi("admin_query_cluster_default_setting")
        assert (row["deletePolicy"], row["durability"]) == ("delete,168h", "process")


async def test_what_is_kept_no_longer_goes_and_a_group_that_was_away_goes_on_behind_it(tmp_path: Path) -> None:
    settings = {"broker.retention_check_s": 0.2}
    async with EmbeddedCluster(data_dir=tmp_path, settings=settings) as cluster:
        for name, retention in (("short", "1s"), ("long", "forever")):
            await cluster.create_topic(name, partitions=1, retention=retention)
        async with connect(cluster.master) as tube, AsyncExitStack() as stack:
            producers = [await stack.enter_async_context(tube.producer(name)) for name in ("short", "long")]
            for producer in producers:
                for _ in range(3):
                    await producer.send(b"old")
            await tube.reset_group("away", "short", Start.EARLIEST)
            (short,), (long,) = await tube.partitions("short"), await tube.partitions("long")

            await until_answer(
                lambda: tube.offsets([short]), lambda found: found[short] == (84, 84), timeout_s=120, every_s=0.1
            )
            assert (await tube.offsets([long]))[long] == (0, 84)
            for producer in producers:
                await producer.send(b"new")
            async with tube.consumer("away", "short", start=Start.LATEST) as consumer, asyncio.timeout(120):
                batch = await consumer.next_batch()
                assert batch is not None
                assert [message.body for message in batch] == [b"new"]


async def test_a_change_that_cannot_be_is_refused_and_one_that_is_none_is_no_error(tmp_path: Path) -> None:
    async with EmbeddedCluster(data_dir=tmp_path) as cluster:
        ask = Operator(cluster)
        await ask.post("topics", name="own", partitions=3)
        for body, says in (
            ({"partitions": 2}, "has 3 partitions on broker 1, which cannot become 2"),
            ({"partitions": 10_001}, "partitions is 10001"),
            ({"durability": "tape"}, "not a durability: 'tape'"),
            ({"delete_policy": "72h"}, "not a delete policy: '72h'"),
        ):
            with pytest.raises(BadRequestError, match=says):
                await ask.patch("topics", "own", **body)
        with pytest.raises(NotFoundError, match="topic 'nosuch' does not exist"):
            await ask.patch("topics", "nosuch", durability="disk")
        for _ in range(2):
            assert (await ask.patch("topics", "own", partitions=3, durability="disk"))["partitions"] == 3
            assert (await ask.patch("cluster", "defaults", durability="disk"))["durability"] == "disk"
