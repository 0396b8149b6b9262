"""What a Broker's `/health` names, and what `/metrics` counts of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import httpx
import pytest

from pytubemq import Start, connect
from pytubemq.broker.upkeep import health
from pytubemq.errors import CorruptError
from pytubemq.observe.trace_events import ROOT
from pytubemq.server.cluster import EmbeddedCluster
from pytubemq.server.compose import Node

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]


async def damaged(cluster: EmbeddedCluster, damage: Callable[[Path], None]) -> None:
    """Ten messages in demo:0, and its log damaged while the Broker is away."""
    await cluster.create_topic("demo", partitions=1)
    async with connect(cluster.master) as tube, tube.producer("demo") as producer:
        for number in range(10):
            await producer.send(b"%d" % number * 100)
    await cluster.stop_broker(1)
    (log,) = (cluster.data_dir / "broker-1/logs/demo/0").glob("*.log")
    damage(log)
    await cluster.restart_broker(1)


async def asked(cluster: EmbeddedCluster, path: str) -> httpx.Response:
    async with httpx.AsyncClient() as http:
        return await http.get(cluster.broker_pages[1].replace("broker.htm", path))


async def test_messages_lost_to_damage_are_named_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "LOOK_S", 0.0)
    caplog.set_level(logging.DEBUG, f"{ROOT}.partition")

    def flip(log: Path) -> None:
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 0x40
        log.write_bytes(data)

    async with EmbeddedCluster(settings={"broker.check_on_read": True}) as cluster:
        await damaged(cluster, flip)
        async with connect(cluster.master) as tube, tube.reader("1:demo:0", end=Start.LATEST) as reader:
            with pytest.raises(CorruptError, match=r"^1:demo:0 .* \(1 messages\) cannot be read"):
                [batch async for batch in reader.batches()]
        found = await asked(cluster, "health")
        assert (found.status_code, found.json()["status"]) == (200, "degraded")
        (problem,) = found.json()["problems"]
        assert problem.startswith("messages lost to damage: 1, in 1 partition(s), the first in demo:0 at offset ")
        figures = (await asked(cluster, "metrics")).text
        assert "\npytubemq_broker_fenced_messages_total 1.0\n" in figures
        assert "\npytubemq_broker_problems 1.0\n" in figures
    assert "partition fenced topic=demo partition=0 offset=" in caplog.text


async def test_a_partition_whose_file_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LOOK_S", 0.0)
    async with EmbeddedCluster() as cluster:
        await damaged(cluster, lambda log: log.unlink())
        problems = (await asked(cluster, "health")).json()["problems"]
        assert len(problems) == 1
        assert problems[0].startswith("partition demo:0: ")
        assert "missing" in problems[0]


async def test_workers_that_are_down_are_named() -> None:
    async with EmbeddedCluster() as cluster:
        node = cluster._running[1]
        assert isinstance(node, Node)
        node.on_message({"workers_down": ["worker-1 (Broker 2) was ended by SIGKILL"], "unknown": 1})
        assert (await asked(cluster, "health")).json()["problems"] == ["worker-1 (Broker 2) was ended by SIGKILL"]
        node.on_message({"workers_down": []})
        assert (await asked(cluster, "health")).json()["status"] == "ok"
