"""What a Master keeps: copied while it runs, put back, and lost."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.cli.api import Api
from pytubemq.server.cluster import EmbeddedCluster
from tests.support.waiting import until_answer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]
BODIES = [b"%d" % number for number in range(30)]


async def bodies(tube: pytubemq.Tube) -> list[bytes]:
    found: list[bytes] = []
    for partition in await tube.partitions("demo"):
        async with tube.reader(partition, end=pytubemq.Start.LATEST) as reader:
            found += [message.body async for batch in reader.batches() for message in batch]
    return sorted(found)


async def fill(place: Path, copy: Path) -> None:
    """A topic with messages and a group, and a copy of what the Master keeps, made while it runs."""
    async with EmbeddedCluster(data_dir=place) as cluster:
        await cluster.create_topic("demo", partitions=2, retention="forever")
        body = {"durability": "process"}
        await asyncio.to_thread(Api(cluster.http, timeout_s=30).patch, "topics", "demo", body=body)
        async with pytubemq.connect(cluster.master) as tube:
            async with tube.producer("demo") as producer:
                await producer.send_many(BODIES[:10], partition=0)
                await producer.send_many(BODIES[10:], partition=1)
            async with tube.consumer("g", "demo", start=pytubemq.Start.EARLIEST) as consumer:
                taken = 0
                async for batch in consumer.batches():
                    taken += len(batch)
                    await batch.confirm()
                    if taken == len(BODIES):
                        break
        await asyncio.to_thread(copy_database, place / "master" / "meta.db", copy)


def copy_database(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


def lose(place: Path) -> None:
    for path in (place / "master").glob("meta.*"):
        path.unlink()


async def test_a_copy_made_while_the_master_runs_can_be_put_back(tmp_path: Path) -> None:
    place, copy = tmp_path / "data", tmp_path / "copy.db"
    await fill(place, copy)
    lose(place)
    copy.rename(place / "master" / "meta.db")
    async with EmbeddedCluster(data_dir=place) as cluster, pytubemq.connect(cluster.master) as tube:
        assert await bodies(tube) == sorted(BODIES)


async def test_what_brokers_hold_is_served_again_when_it_is_taken_over(tmp_path: Path) -> None:
    place = tmp_path / "data"
    await fill(place, tmp_path / "copy.db")
    lose(place)
    async with EmbeddedCluster(data_dir=place, settings={"broker.retention_check_s": 0.2}) as cluster:
        api = Api(cluster.http, timeout_s=30)
        health = await asyncio.to_thread(api.health)
        assert health["status"] == "degraded"
        assert "it has topics that this Master does not know (demo) and is given no orders" in str(health["reasons"])
        with pytest.raises(pytubemq.errors.TubeError, match="holds topics that this Master does not know"):
            await cluster.create_topic("other")
        found = await asyncio.to_thread(api.post, "cluster", "adopt", body={})
        demo = {"topic": "demo", "broker": 1, "partitions": 2, "retention": "keep"}
        assert found == {"adopted": [demo], "discarded": []}
        assert (await asyncio.to_thread(api.health))["status"] == "healthy"
        demo = await asyncio.to_thread(api.get, "topics", "demo")
        assert (demo["retention"], demo["durability"], demo["partitions"]) == ("forever", "process", 2)
        async with pytubemq.connect(cluster.master) as tube:
            assert await bodies(tube) == sorted(BODIES)
            async with tube.consumer("g", "demo", start=pytubemq.Start.EARLIEST) as consumer:
                async with tube.producer("demo") as producer:
                    await producer.send(b"next")
                async for batch in consumer.batches():
                    assert [message.body for message in batch] == [b"next"], "the group goes on where it stood"
                    await batch.confirm()
                    break


def spoil(file: Path, how: str) -> None:
    if how == "deleted":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes().replace(b"demo", b"dent"))


@pytest.mark.parametrize("how", ["deleted", "damaged"])
async def test_topics_that_only_the_store_knows_are_reported_and_taken_over(tmp_path: Path, how: str) -> None:
    place = tmp_path / "data"
    await fill(place, tmp_path / "copy.db")
    lose(place)
    spoil(place / "broker-1" / "topics.json", how)
    async with EmbeddedCluster(data_dir=place, settings={"broker.retention_check_s": 0.2}) as cluster:
        api = Api(cluster.http, timeout_s=30)
        health = await asyncio.to_thread(api.health)
        assert "it has topics that this Master does not know (demo)" in str(health["reasons"])
        with pytest.raises(pytubemq.errors.TubeError, match="holds topics that this Master does not know"):
            await cluster.create_topic("demo", partitions=1)
        found = await asyncio.to_thread(api.post, "cluster", "adopt", body={})
        demo = {"topic": "demo", "broker": 1, "partitions": 2, "retention": "keep"}
        assert found == {"adopted": [demo], "discarded": []}
        async with pytubemq.connect(cluster.master) as tube:
            assert await bodies(tube) == sorted(BODIES)
        await until_answer(lambda: asyncio.to_thread(api.health), lambda found: found["status"] == "healthy")


async def test_topics_of_the_store_that_are_let_go_are_not_asked_about_again(tmp_path: Path) -> None:
    place = tmp_path / "data"
    await fill(place, tmp_path / "copy.db")
    lose(place)
    spoil(place / "broker-1" / "topics.json", "deleted")
    async with EmbeddedCluster(data_dir=place) as cluster:
        api = Api(cluster.http, timeout_s=30)
        found = await asyncio.to_thread(api.post, "cluster", "adopt", body={"discard": True})
        assert [topic["topic"] for topic in found["discarded"]] == ["demo"]
        await cluster.create_topic("other")
    assert (place / "broker-1" / "logs" / "demo").is_dir()
    async with EmbeddedCluster(data_dir=place) as cluster:
        assert (await asyncio.to_thread(Api(cluster.http, timeout_s=30).health))["status"] == "healthy"


async def test_stored_partitions_that_a_topic_does_not_name_are_reported(tmp_path: Path) -> None:
    place = tmp_path / "data"
    await fill(place, tmp_path / "copy.db")
    lose(place)
    spoil(place / "broker-1" / "topics.json", "deleted")
    async with EmbeddedCluster(data_dir=place) as cluster:
        await asyncio.to_thread(Api(cluster.http, timeout_s=30).post, "cluster", "adopt", body={"discard": True})
        await cluster.create_topic("demo", partitions=1)
    async with EmbeddedCluster(data_dir=place) as cluster:
        api = Api(cluster.http, timeout_s=30)
        reasons = str((await asyncio.to_thread(api.health))["reasons"])
        assert "has messages in partitions beyond those of the Master's configuration (demo:1)" in reasons
        await asyncio.to_thread(api.patch, "topics", "demo", body={"partitions": 2})
        async with pytubemq.connect(cluster.master) as tube:
            assert await bodies(tube) == sorted(BODIES)


async def test_settings_that_older_metadata_brings_back_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place, copy = tmp_path / "data", tmp_path / "copy.db"
    async with EmbeddedCluster(data_dir=place) as cluster:
        await cluster.create_topic("demo", partitions=1)
        await asyncio.to_thread(copy_database, place / "master" / "meta.db", copy)
        body = {"retention": "99h", "durability": "process"}
        await asyncio.to_thread(Api(cluster.http, timeout_s=30).patch, "topics", "demo", body=body)
    lose(place)
    copy.rename(place / "master" / "meta.db")
    with caplog.at_level(logging.WARNING):
        async with EmbeddedCluster(data_dir=place):
            pass
        (text,) = [text for text in caplog.messages if "other settings than the records have" in text]
        assert "demo: retention delete,99h becomes delete,168h, durability process becomes the Broker's own" in text
        caplog.clear()
        async with EmbeddedCluster(data_dir=place):
            pass
        assert not [text for text in caplog.messages if "other settings" in text], "they are in force now"
