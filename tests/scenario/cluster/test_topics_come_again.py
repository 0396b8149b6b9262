"""A topic is deleted from a running cluster with all its messages, and one of its name begins empty."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import pytubemq
from pytubemq import Start
from pytubemq.cli.api import Api
from pytubemq.errors import NotFoundError
from pytubemq.server.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


def on_disk(data_dir: Path) -> list[Path]:
    """The topic's directories, on any Broker."""
    return list(data_dir.rglob("demo"))


async def test_deleted_and_created_again_on_two_brokers(tmp_path: Path) -> None:
    async with EmbeddedCluster(data_dir=tmp_path, brokers=2) as cluster:
        await cluster.create_topic("demo", partitions=1)
        async with pytubemq.connect(cluster.master) as tube, tube.producer("demo") as producer:
            for _ in range(20):
                await producer.send(b"old")
    assert {path.parent.parent.name for path in on_disk(tmp_path)} == {"broker-1", "broker-2"}

    async with EmbeddedCluster(data_dir=tmp_path, brokers=2) as cluster:
        api = Api(cluster.http, timeout_s=60)

        async def topic() -> dict[str, Any]:
            found: dict[str, Any] = await asyncio.to_thread(api.get, "topics", "demo")
            return found

        assert (await topic())["messages"] == 20
        async with pytubemq.connect(cluster.master) as tube:
            found = await asyncio.to_thread(api.delete, "topics", "demo")
            assert (found["removed"], found["pending"]) == (True, [])
            with pytest.raises(NotFoundError):
                await topic()
            assert not on_disk(tmp_path)

            await cluster.create_topic("demo", partitions=2)
            assert (await topic())["messages"] == 0
            async with tube.producer("demo") as producer:
                await producer.send(b"new")
            async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer, asyncio.timeout(60):
                batch = await consumer.next_batch()
                assert batch is not None
                assert [message.body for message in batch] == [b"new"]
                await batch.confirm()
