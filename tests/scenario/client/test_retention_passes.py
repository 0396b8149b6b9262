"""Retention overtakes a group that reads slowly: its consumer and the Broker's operator hear of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

import pytubemq
from pytubemq.model.ids import Partition
from pytubemq.server.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.broker.service import BrokerService

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

TOPIC = "kept"
P0 = Partition(1, TOPIC, 0)
BODY = bytes(64 * 1024)


def broker_of(cluster: EmbeddedCluster) -> BrokerService:
    node: Any = cluster._running[1]
    assert node.broker is not None
    broker: BrokerService = node.broker
    return broker


async def one_pass(cluster: EmbeddedCluster) -> int:
    """Let retention run over what was sent; the offset of the first message that is kept."""
    broker = broker_of(cluster)
    assert broker._store is not None
    assert broker.retention is not None
    await asyncio.to_thread(broker._store.checkpoint)
    await broker.retention.one_pass()
    return broker._store.ends(TOPIC, 0)[0]


def figure(cluster: EmbeddedCluster, name: str) -> dict[tuple[str, ...], float]:
    """A metric of the Broker, as it is scraped."""
    (found,) = [one.values for one in broker_of(cluster).facts().readings() if one.metric.name == name]
    assert isinstance(found, Mapping)
    return dict(found)


async def fill(tube: pytubemq.Tube, megabytes: int) -> None:
    async with tube.producer(TOPIC) as producer:
        for _ in range(megabytes):
            await producer.send_many([BODY] * 16)


async def skipped_event(tube: pytubemq.Tube) -> pytubemq.Skipped:
    async with asyncio.timeout(10):
        async for event in tube.events():
            if isinstance(event, pytubemq.Skipped):
                return event
    raise AssertionError("the connection was closed")


async def test_a_slow_group_that_retention_passes_hears_of_it_everywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with EmbeddedCluster(data_dir=tmp_path) as cluster:
        await cluster.create_topic(TOPIC, partitions=1, retention="1MB")
        async with pytubemq.connect(cluster.master) as tube:
            await fill(tube, 1)
            async with tube.consumer("slow", TOPIC, start=pytubemq.Start.EARLIEST) as consumer:
                batches = consumer.batches(max_messages=2)
                batch = await anext(batches)
                await batch.confirm()
                await fill(tube, 5)
                kept = await one_pass(cluster)
                assert kept > 2 * 28, "nothing of what the group has not read went"
                while True:  # what was fetched before the pass comes first
                    batch = await anext(batches)
                    assert batch.start_offset is not None
                    assert batch.next_offset is not None
                    expected = batch.next_offset
                    await batch.confirm()
                    if batch.start_offset >= kept:
                        break
                    confirmed = expected
                lost = (kept - confirmed) // 28
                event = await skipped_event(tube)
                assert (event.partition, event.messages, event.offset) == (P0, lost, kept)
                assert "retention" in event.reason
                assert consumer.stats.skipped == lost
            assert figure(cluster, "broker_expired_messages_total") == {("slow", TOPIC): lost}
    said = [record.getMessage() for record in caplog.records if "retention" in record.getMessage()]
    assert any(text.startswith(f"group slow: retention removed {lost} messages of topic {TOPIC}") for text in said)
    assert any(text.startswith(f"{P0}: {lost} messages skipped") for text in said), said
