"""A Broker in trouble says so: the Master's verdict names it, and producers are kept off one that takes nothing."""

from __future__ import annotations

import asyncio
import json
import shutil
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import pytubemq
from pytubemq.errors import ExitCode, TubeError, UnavailableError
from pytubemq.model.limits import MIB
from pytubemq.server.cluster import EmbeddedCluster
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.support.waiting import until_answer

if TYPE_CHECKING:
    from tests.scenario.cluster.conftest import CommandLine

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]

TOPIC = "demo"


async def verdict(cluster: EmbeddedCluster, status: str) -> dict[str, Any]:
    """The Master's health as soon as it is `status`."""
    async with httpx.AsyncClient(base_url=cluster.http) as http:
        answer = await until_answer(lambda: http.get("/api/v1/health"), lambda one: one.json()["status"] == status)
    assert answer.status_code == (HTTPStatus.OK if status == "healthy" else HTTPStatus.SERVICE_UNAVAILABLE)
    found: dict[str, Any] = answer.json()
    return found


async def fill(producer: pytubemq.Producer) -> None:
    """Send more than the disk has room for."""
    for _ in range(64):
        await producer.send(bytes(512 * 1024))


async def test_a_broker_whose_disk_fails_is_named_and_producers_are_kept_off(tmp_path: Path, tube: CommandLine) -> None:
    disk = FaultyDisk()
    async with EmbeddedCluster(data_dir=tmp_path / "data", disk=disk) as cluster:
        await cluster.create_topic(TOPIC, partitions=1)
        assert (await verdict(cluster, "healthy"))["reasons"] == []
        disk.fail(Operation.FDATASYNC, path_contains="journal")
        async with pytubemq.connect(cluster.master) as client, client.producer(TOPIC, delivery_timeout_s=2.0) as it:
            with pytest.raises(TubeError):
                await it.send(b"refused")
        reasons = (await verdict(cluster, "degraded"))["reasons"]
        assert {reason["thing"] for reason in reasons} == {"broker 1"}
        assert reasons[0]["why"].startswith("online: takes no messages: journal: ")
        said = await asyncio.to_thread(tube, "cluster", "health", "--http", cluster.http, "-o", "json")
        assert said.returncode == ExitCode.UNHEALTHY
        assert json.loads(said.stdout)["reasons"][0] == reasons[0]
        async with httpx.AsyncClient(base_url=cluster.http) as http:
            (broker,) = (await http.get("/api/v1/brokers")).json()
        assert broker["state"] == "online"
        assert broker["why"].startswith(reasons[0]["why"].removeprefix("online: "))
        assert cluster._master is not None
        assert cluster._master.master is not None
        assert cluster._master.master._brokers.topics.publishing(TOPIC) == ()
        async with pytubemq.connect(cluster.master) as client:
            with pytest.raises(UnavailableError, match="no Broker takes messages of topic 'demo' now"):
                async with client.producer(TOPIC):
                    pass


async def test_a_full_disk_is_named_and_the_verdict_is_good_again_with_space(tmp_path: Path, tube: CommandLine) -> None:
    disk = FaultyDisk(capacity_bytes=64 * MIB)
    settings = {"broker.reserve_bytes": 8 * MIB, "broker.journal_segment_bytes": 4 * MIB}
    async with EmbeddedCluster(data_dir=tmp_path / "data", disk=disk, settings=settings) as cluster:
        await cluster.create_topic(TOPIC, partitions=1)
        disk.put(Path("/ballast"), bytes(50 * MIB))
        async with pytubemq.connect(cluster.master) as client:
            async with client.producer(TOPIC, delivery_timeout_s=2.0) as it:
                with pytest.raises(TubeError):
                    await fill(it)
            reasons = (await verdict(cluster, "degraded"))["reasons"]
            assert {reason["thing"] for reason in reasons} == {"broker 1"}
            assert any("disk full" in reason["why"] for reason in reasons)
            said = await asyncio.to_thread(tube, "cluster", "health", "--http", cluster.http)
            assert said.returncode == ExitCode.UNHEALTHY
            disk.unlink(Path("/ballast"))
            await verdict(cluster, "healthy")
            async with client.producer(TOPIC) as it:
                await it.send(b"there is room again")


async def test_each_partition_in_trouble_is_a_reason_of_its_own_and_shown_with_its_topic(
    tmp_path: Path, tube: CommandLine
) -> None:
    async with EmbeddedCluster(data_dir=tmp_path / "data") as cluster:
        for topic in (TOPIC, "other"):
            await cluster.create_topic(topic, partitions=3)
        async with pytubemq.connect(cluster.master) as client, client.producer(TOPIC) as it:
            for number in range(3):
                await it.send(b"x", partition=number)
        await cluster.stop_broker()
        for number in (0, 2):
            shutil.rmtree(next((tmp_path / "data").glob(f"**/logs/{TOPIC}/{number}")))
        await cluster.restart_broker()
        reasons = (await verdict(cluster, "degraded"))["reasons"]
        whys = [reason["why"] for reason in reasons if reason["thing"] == "broker 1"]
        assert [why.split(": ")[:2] for why in whys] == [
            ["online", f"partition {TOPIC}:0"],
            ["online", f"partition {TOPIC}:2"],
        ]
        async with httpx.AsyncClient(base_url=cluster.http) as http:
            shown = (await http.get(f"/api/v1/topics/{TOPIC}")).json()
            assert shown["problems"] == [why.replace("online", "broker 1", 1) for why in whys]
            assert (await http.get("/api/v1/topics/other")).json()["problems"] == []
        said = await asyncio.to_thread(tube, "topic", "show", TOPIC, "--http", cluster.http)
        assert f"broker 1: partition {TOPIC}:0: ".encode() in said.stdout
