"""Groups are moved over the JSON API, with and without members, on several Brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import pytubemq
from pytubemq import Start
from pytubemq.cli.api import Api
from pytubemq.errors import BadRequestError, NotFoundError, UnavailableError
from pytubemq.server.cluster import EmbeddedCluster

pytestmark = pytest.mark.anyio

COUNT = 5


class Operator:
    """Asks the JSON API to move the group `g`."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._api = Api(cluster.http, timeout_s=60)

    async def reset(self, to: str, **body: Any) -> Any:
        body = {"topic": "demo", "to": to, "user": "ann", **body}
        return await asyncio.to_thread(lambda: self._api.post("groups", "g", "resets", body=body))

    async def history(self) -> Any:
        return await asyncio.to_thread(self._api.get, "groups", "g", "resets")

    async def lag(self) -> int:
        found: dict[str, int] = await asyncio.to_thread(self._api.get, "groups", "g")
        return found["lag_messages"]


async def fill(cluster: EmbeddedCluster, brokers: int) -> None:
    """`COUNT` messages in the one partition that each Broker has."""
    await cluster.create_topic("demo", partitions=1)
    async with pytubemq.connect(cluster.master) as tube, tube.producer("demo") as producer:
        for number in range(COUNT * brokers):
            await producer.send(b"%d" % number)


async def test_a_group_is_moved_on_all_brokers_at_once_and_it_is_remembered() -> None:
    async with EmbeddedCluster(brokers=2) as cluster:
        await fill(cluster, 2)
        operator = Operator(cluster)
        looked = await operator.reset("latest", dry_run=True)
        assert (looked["dry_run"], (await operator.history())["resets"]) == (True, [])
        assert sum(one["old_lag"] for one in looked["partitions"]) == 2 * COUNT
        assert sum(one["new_lag"] for one in looked["partitions"]) == 0
        moved = await operator.reset("latest")
        assert moved["partitions"] == looked["partitions"]
        assert await operator.lag() == 0
        back = await operator.reset("number:2", partitions=["2:0"])
        (one,) = back["partitions"]
        assert (one["partition"], one["new_offset"]) == ("2:demo:0", 56)
        assert await operator.lag() == one["new_lag"]
        history = await operator.history()
        assert [(past["partition"], past["asked"], past["user"]) for past in history["resets"][:1]] == [
            ("2:demo:0", "number:2 (offset 56)", "ann")
        ]
        assert {past["asked"] for past in history["resets"][1:]} == {"latest"}
        assert len(history["resets"]) == 3


async def test_a_member_that_reads_goes_on_at_the_new_place() -> None:
    async with EmbeddedCluster() as cluster:
        await fill(cluster, 1)
        operator = Operator(cluster)
        async with (
            pytubemq.connect(cluster.master) as tube,
            tube.consumer("g", "demo", start=Start.EARLIEST) as consumer,
            asyncio.timeout(60),
        ):

            async def read(count: int) -> list[bytes]:
                bodies: list[bytes] = []
                while len(bodies) < count:
                    batch = await consumer.next_batch()
                    assert batch is not None
                    bodies += [message.body for message in batch]
                    await batch.confirm()
                return bodies

            assert len(await read(COUNT)) == COUNT
            await operator.reset("number:3")
            assert await read(2) == [b"3", b"4"]
            await operator.reset("earliest")
            assert len(await read(COUNT)) == COUNT


async def test_nothing_is_moved_unless_every_partition_can_be() -> None:
    async with EmbeddedCluster(brokers=2) as cluster:
        await fill(cluster, 2)
        operator = Operator(cluster)
        with pytest.raises(BadRequestError, match=r"nothing was moved: .*offset 2800 is not in partition 0 of demo"):
            await operator.reset("offset:2800")
        with pytest.raises(NotFoundError, match="there is no partition '7'"):
            await operator.reset("latest", partitions=["7"])
        with pytest.raises(BadRequestError, match="not a reset target: 'soon'"):
            await operator.reset("soon")
        with pytest.raises(NotFoundError, match="topic 'nosuch' does not exist"):
            await operator.reset("latest", topic="nosuch")
        assert (await operator.history())["resets"] == []


async def test_a_broker_that_is_away_is_named_and_the_others_move_nothing() -> None:
    async with EmbeddedCluster(brokers=2, broker_in_child=True) as cluster:
        await fill(cluster, 2)
        operator = Operator(cluster)
        await cluster.kill_broker(2)
        with pytest.raises(UnavailableError, match="nothing was moved: broker 2 at") as raised:
            await operator.reset("latest")
        assert "cluster health" in (raised.value.hint or "")
        (told,) = (await operator.reset("latest", partitions=["1:0"]))["partitions"]
        assert told["partition"] == "1:demo:0"
        assert [past["partition"] for past in (await operator.history())["resets"]] == ["1:demo:0"]
