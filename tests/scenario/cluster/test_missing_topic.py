"""Topics that do not exist: one wording, with the topic that was probably meant, for whoever names one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.cli.api import Api
from pytubemq.errors import ExitCode, NotFoundError
from pytubemq.server.cluster import EmbeddedCluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import CommandLine

pytestmark = pytest.mark.anyio
MISSING = "topic 'demoo' does not exist"
CREATE = "did you mean demo? Else create it with  pytubemq topic create demoo"


async def test_clients_and_the_json_api_name_the_nearest_topic(tmp_path: Path) -> None:
    async with EmbeddedCluster(data_dir=tmp_path) as cluster:
        await cluster.create_topic("demo", partitions=1)
        async with pytubemq.connect(cluster.master) as tube:
            for enter in (
                tube.producer("demoo"),
                tube.consumer("g", "demoo"),
                tube.balance_consumer("g2", "demoo", node_id=0, source_count=1),
            ):
                with pytest.raises(NotFoundError) as found:
                    async with enter:
                        pass
                assert (found.value.message, found.value.hint, found.value.code) == (MISSING, CREATE, 431)
            with pytest.raises(NotFoundError) as found:
                await tube.partitions("demoo")
            assert (found.value.message, found.value.hint) == (MISSING, CREATE)
        api = Api(cluster.http, timeout_s=60)
        with pytest.raises(NotFoundError) as found:
            await asyncio.to_thread(api.get, "topics", "demoo")
        assert (found.value.message, found.value.code) == (MISSING, 404)
        assert found.value.hint == "did you mean demo? pytubemq topic list  names all topics"


async def test_a_member_whose_topic_is_deleted_logs_it_and_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with EmbeddedCluster(data_dir=tmp_path) as cluster:
        await cluster.create_topic("demo", partitions=1)
        api = Api(cluster.http, timeout_s=60)
        async with (
            pytubemq.connect(cluster.master) as tube,
            tube.consumer("g", "demo", start=pytubemq.Start.EARLIEST) as consumer,
            asyncio.timeout(60),
        ):
            await until(lambda: bool(consumer.assignment))
            await asyncio.to_thread(api.delete, "topics", "demo")
            await until(lambda: "group g: topic 'demo' does not exist any more" in caplog.text)
            await cluster.create_topic("demo", partitions=1)
            async with tube.producer("demo") as producer:
                await producer.send(b"new")
            batch = await consumer.next_batch()
            assert batch is not None
            assert [message.body for message in batch] == [b"new"]
            await batch.confirm()


async def test_who_reads_or_writes_a_topic_that_is_deleted_meanwhile_hears_what_to_do(
    tube: CommandLine, tmp_path: Path
) -> None:
    async with EmbeddedCluster(data_dir=tmp_path) as cluster:
        await cluster.create_topic("gone", partitions=1)
        api = Api(cluster.http, timeout_s=60)
        async with pytubemq.connect(cluster.master) as client, client.producer("gone") as producer, asyncio.timeout(60):
            await producer.send(b"here")
            args = ("consume", "gone", "--tail", "--from", "earliest", "--master", cluster.master)
            tail = tube.start(*args)
            assert tail.stdout is not None
            assert await asyncio.to_thread(tail.stdout.readline) == b"here\n"
            await asyncio.to_thread(api.delete, "topics", "gone")
            _, said = await asyncio.to_thread(tail.communicate)
            assert (tail.returncode, said.splitlines()[0]) == (
                ExitCode.NOT_FOUND,
                b"error TUBE-431  topic gone was deleted",
            )
            assert b"pytubemq topic create gone" in said
            await until(lambda: not producer.partitions)
            with pytest.raises(NotFoundError) as found:
                await producer.send(b"late")
            assert found.value.hint == "create it with  pytubemq topic create gone"
