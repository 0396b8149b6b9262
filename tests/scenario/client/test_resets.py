"""A program moves a group."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

import pytubemq
from pytubemq import Partition, Start
from pytubemq.client.group_resets import reset_target
from pytubemq.errors import BadRequestError, ConfigError, MessageError, NotFoundError
from pytubemq.server.cluster import EmbeddedCluster

pytestmark = pytest.mark.anyio

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


async def test_a_group_is_moved_to_each_kind_of_place() -> None:
    async with EmbeddedCluster() as cluster:
        await cluster.create_topic("demo", partitions=2)
        async with pytubemq.connect(cluster.master, client_name="ann") as tube, tube.producer("demo") as producer:
            for partition in (0, 1):
                for _ in range(3):
                    await producer.send(b"x", partition=partition)
            zero, one = await tube.partitions("demo")
            assert await tube.reset_group("g", "demo", Start.LATEST, dry_run=True) == {
                zero: (None, 84),
                one: (None, 84),
            }
            assert await tube.reset_group("g", "demo", Start.LATEST) == {zero: (None, 84), one: (None, 84)}
            assert await tube.reset_group("g", "demo", 28, partitions=[one]) == {one: (84, 28)}
            assert await tube.reset_group("g", "demo", LONG_AGO) == {zero: (84, 0), one: (28, 0)}
            later = datetime.now(UTC) + timedelta(days=1)
            assert await tube.reset_group("g", "demo", later) == {zero: (0, 84), one: (0, 84)}
            assert await tube.reset_group("g", "demo", Start.EARLIEST) == {zero: (84, 0), one: (84, 0)}
            assert await tube.reset_group("g", "demo", "latest") == {zero: (0, 84), one: (0, 84)}
            async with tube.reader(zero, start="earliest", end="latest") as reader:
                assert (reader.position, reader.end) == (0, 84)


async def test_what_cannot_be_moves_nothing() -> None:
    async with EmbeddedCluster() as cluster:
        await cluster.create_topic("demo", partitions=2)
        async with pytubemq.connect(cluster.master) as tube, tube.producer("demo") as producer:
            await producer.send(b"x", partition=0)
            zero, one = await tube.partitions("demo")
            with pytest.raises(
                BadRequestError, match=r"nothing was moved: offset 28 is not in partition 1.*\nchoose a"
            ):
                await tube.reset_group("g", "demo", 28)
            with pytest.raises(BadRequestError, match=r"offset 13 is not a message's: .* are 0 and 28"):
                await tube.reset_group("g", "demo", 13, partitions=[zero])
            with pytest.raises(NotFoundError):
                await tube.reset_group("g", "nosuch", 0)
            with pytest.raises(MessageError):
                await tube.reset_group("no group", "demo", 0)
            for strange in ("0", "1:demo:0", 0):
                with pytest.raises(ConfigError, match="not a Partition"):
                    await tube.reset_group("g", "demo", 0, partitions=cast("list[Partition]", [strange]))
            with pytest.raises(ConfigError, match="no partition is named"):
                await tube.reset_group("g", "demo", 0, partitions=[])
            with pytest.raises(ConfigError, match="1:other:0 is none of topic 'demo'"):
                await tube.reset_group("g", "demo", 0, partitions=[Partition(1, "other", 0)])
            assert await tube.reset_group("g", "demo", 0, dry_run=True) == {zero: (None, 0), one: (None, 0)}


@pytest.mark.parametrize("place", [-1, True, "newest", None, 1.5])
def test_what_is_no_place_is_refused(place: Any) -> None:
    with pytest.raises(ConfigError, match="not a reset target"):
        reset_target(place)
