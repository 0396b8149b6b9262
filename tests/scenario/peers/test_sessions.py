"""Whole sessions of clients like the C++ and the Go one, against a real Master and real Brokers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import httpx
import pytest

from pytubemq import Start, connect
from pytubemq.server.cluster import EmbeddedCluster

from .cpp import Cpp
from .foreign import BLOCK, MOST_BLOCKS
from .go import Go
from .session import Client, Consumer, Links, Producer, Told

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

PARTITIONS = 3
HELD = 2 * PARTITIONS
CLIENTS: dict[str, type[Client]] = {"C++": Cpp, "Go": Go}
EVERYTHING: dict[str, list[str]] = {"demo": []}


class City:
    """Two Brokers with the topic `demo`, and the clients that were made for it."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.links: list[Links] = []

    async def producer(self, client: Client, *topics: str) -> Producer:
        made = Producer(client, self.cluster.master, *(topics or ("demo",)))
        self.links.append(made.links)
        return await made.start()

    async def consumer(
        self, client: Client, *, group: str = "g", filters: dict[str, list[str]] = EVERYTHING, partitions: int = HELD
    ) -> Consumer:
        made = Consumer(client, self.cluster.master, group, filters)
        self.links.append(made.links)
        return await made.start(partitions=partitions)


@pytest.fixture
async def city() -> AsyncIterator[City]:
    async with EmbeddedCluster(brokers=2) as cluster:
        await cluster.create_topic("demo", partitions=PARTITIONS)
        made = City(cluster)
        yield made
        for links in made.links:
            await links.close()


def plain(count: int) -> list[Told]:
    """Bodies from 1 byte to many blocks, without attributes (Go sends none)."""
    rng = random.Random(count)
    sizes = [1, 8191, 8192, 8193, 100_000, *(rng.randint(1, 2000) for _ in range(count - 5))]
    return [Told(b"%06d" % number + rng.randbytes(size)) for number, size in enumerate(sizes)]


def dressed(count: int) -> list[Told]:
    """The same with attributes, types and times."""
    return [
        Told(told.body, {"n": str(number), "text": "ä ö ü"}, "even" if number % 2 == 0 else "odd", "202611211200")
        for number, told in enumerate(plain(count))
    ]


def in_order(messages: Iterable[Told]) -> list[Told]:
    return sorted(messages, key=lambda told: told.body)


@pytest.mark.parametrize("reader", CLIENTS)
@pytest.mark.parametrize("writer", CLIENTS)
async def test_what_one_sends_the_other_reads(city: City, writer: str, reader: str) -> None:
    sent = plain(60) if writer == "Go" else dressed(60)
    producer = await city.producer(CLIENTS[writer]())
    assert len(set(producer.partitions["demo"])) == HELD
    await producer.send("demo", *sent)
    consumer = await city.consumer(CLIENTS[reader]())
    assert in_order(await consumer.read(len(sent))) == sent
    assert await consumer.at_end()
    assert await consumer.beat_brokers() == []
    await consumer.close()
    await producer.close()


@pytest.mark.parametrize("name", CLIENTS)
async def test_ours_and_theirs_read_each_other(city: City, name: str) -> None:
    producer = await city.producer(CLIENTS[name]())
    sent = plain(20) if name == "Go" else dressed(20)
    await producer.send("demo", *sent)
    async with connect(city.cluster.master) as tube:
        found: list[Told] = []
        async with tube.consumer("ours", "demo", start=Start.EARLIEST) as consumer:
            while len(found) < len(sent):
                batch = await consumer.next_batch(timeout_s=20)
                assert batch is not None
                found += (Told(m.body, dict(m.attributes), m.msg_type, m.msg_time) for m in batch)
                await batch.confirm()
        assert in_order(found) == sent
        async with tube.producer("demo") as ours:
            await ours.send(b"from ours", attrs={"k": "v"}, msg_type="t")
    theirs = await city.consumer(CLIENTS[name](), group="theirs")
    everything = await theirs.read(len(sent) + 1)
    assert in_order(everything) == in_order([*sent, Told(b"from ours", {"k": "v"}, "t")])
    await theirs.close()
    await producer.close()


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_filter_takes_what_it_names(city: City, name: str) -> None:
    producer = await city.producer(Cpp())
    sent = dressed(40)
    await producer.send("demo", *sent)
    even = [told for told in sent if told.msg_type == "even"]
    consumer = await city.consumer(CLIENTS[name](), filters={"demo": ["even", "other"]})
    assert in_order(await consumer.read(len(even))) == even
    assert await consumer.at_end()
    assert consumer.passed_over == 0, "it was the Broker that filtered"
    await consumer.close()
    await producer.close()


@pytest.mark.parametrize("name", CLIENTS)
async def test_one_group_reads_several_topics(city: City, name: str) -> None:
    await city.cluster.create_topic("other", partitions=PARTITIONS)
    client = CLIENTS[name]()
    producer = await city.producer(client, "demo", "other")
    await producer.send("demo", *plain(20))
    await producer.send("other", *plain(30))
    consumer = await city.consumer(client, filters={"demo": [], "other": []}, partitions=2 * HELD)
    assert in_order(await consumer.read(50)) == in_order([*plain(20), *plain(30)])
    assert await consumer.at_end()
    await consumer.close()
    await producer.close()


@pytest.mark.parametrize("name", CLIENTS)
async def test_members_share_and_the_next_one_goes_on(city: City, name: str) -> None:
    client = CLIENTS[name]()
    producer = await city.producer(client)
    first = await city.consumer(client)
    await producer.send("demo", *plain(20))
    assert in_order(await first.read(20)) == plain(20)
    second = await city.consumer(client, partitions=0)
    while (len(first.held), len(second.held)) != (PARTITIONS, PARTITIONS):
        await first.heartbeat()
        await second.heartbeat()
    assert not first.held.keys() & second.held.keys()
    await first.close()
    await second.until(HELD)
    # what the first one had confirmed does not come again, though it gave its partitions back as "not consumed"
    assert await second.at_end()
    await producer.send("demo", *plain(30))
    assert in_order(await second.read(30)) == plain(30)
    await second.close()
    await producer.close()


@pytest.mark.parametrize("name", CLIENTS)
async def test_what_is_not_confirmed_comes_again(city: City, name: str) -> None:
    client = CLIENTS[name]()
    producer = await city.producer(client)
    await producer.send("demo", *plain(6))
    consumer = await city.consumer(client)
    info = next(iter(consumer.held))
    first = await consumer.get(info)
    assert first
    assert await consumer.confirm(info, consumed=False) == 0
    assert await consumer.get(info) == first
    assert await consumer.get(info) == first, "an automatic fetch without a word about the last one"
    consumer.consumed[info] = True  # confirmed along the way, by the next fetch
    assert await consumer.get(info) is None
    await consumer.close()
    await producer.close()


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_fetch_of_many_megabytes_keeps_within_what_cpp_takes(city: City, name: str) -> None:
    async with httpx.AsyncClient() as http:
        topic = {"name": "big", "partitions": 1, "max_message_bytes": 8 * 2**20 - 20_000}
        assert (await http.post(f"{city.cluster.http}/api/v1/topics", json=topic)).status_code == 201
    client = CLIENTS[name]()
    producer = await city.producer(client, "big")
    broker_id = producer.partitions["big"][0][0]
    # nearly a MiB of small ones, then one that is a whole answer by itself: together they are more than C++ takes
    sent = [
        *(Told(b"%04d" % number + bytes(9_000)) for number in range(110)),
        Told(b"9999" + bytes(8 * 2**20 - 25_000)),
    ]
    for message in sent:
        answer = await producer.send_to(broker_id, 0, "big", message)
        assert answer.success, answer.err_msg
    consumer = await city.consumer(client, filters={"big": []}, partitions=2)
    assert in_order(await consumer.read(len(sent))) == sent
    await consumer.close()
    assert 1000 < consumer.links.largest_blocks <= MOST_BLOCKS, f"blocks of {BLOCK}"
    await producer.close()


async def test_a_producer_that_beats_on_and_on_stays_as_it_is(city: City) -> None:
    producer = await city.producer(Cpp())
    known = len(producer.partitions["demo"])
    beats = producer.heartbeats
    for _ in range(200):  # one in 2 s: some minutes of its life
        assert (await producer.heartbeat()).topic_infos
    assert len(producer.partitions["demo"]) == known + 200 * HELD, "its list of partitions only grows"
    assert producer.heartbeats == beats + 200
    await producer.send("demo", *dressed(12))
    await producer.close()
