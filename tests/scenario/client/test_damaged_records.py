"""One changed bit in the log of a Broker with the settings that it has by default, seen by a consumer and a reader.

Whichever part of a single message the bit is in (its length, its tag, its id, its payload), all other messages arrive
at a consumer, a reader names the offset behind it, and the Broker's health names the loss.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from pytubemq import Start, connect
from pytubemq.broker.upkeep import health
from pytubemq.client.reader.range_reads import DamagedRangeError, RangeWay
from pytubemq.errors import CorruptError
from pytubemq.model.ids import Address, Partition
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.server.cluster import EmbeddedCluster
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.index import INDEX_BYTES, decode_index_entry
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytubemq import Tube

pytestmark = pytest.mark.anyio

MESSAGES = 60
HIT = 30
PLACES = {"its length": 1, "its tag": 3, "its id": 8, "its payload's length": 20, "its payload": 60}
"""Bytes of a record, each in another part."""
ID_TOPIC = "t2"
"""The topic whose message has a damaged id, which only the Broker's check finds."""


async def test_all_messages_but_the_damaged_one_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LOOK_S", 0.0)
    async with EmbeddedCluster() as cluster:
        await fill(cluster, topics())
        await cluster.stop_broker(1)
        for topic, place in zip(topics(), PLACES.values(), strict=True):
            flip(cluster.data_dir / f"broker-1/logs/{topic}/0", place)
        await cluster.restart_broker(1)
        for topic in topics():
            await check_messages(cluster, topic)
        async with httpx.AsyncClient() as http:
            found = (await http.get(cluster.broker_pages[1].replace("broker.htm", "health"))).text
        assert "lost" in found, found


@pytest.mark.parametrize("who", ["consumer", "reader", "range"])
async def test_where_the_broker_does_not_check_damage_is_passed_all_the_same(who: str) -> None:
    """The first who meets the damage makes the Broker check; so each of them has a Broker of its own."""
    unreadable = {topic: place for topic, place in zip(topics(), PLACES.values(), strict=True) if topic != ID_TOPIC}
    wanted = [number for number in range(MESSAGES) if number != HIT]
    lost = rf":0 from offset {HIT * OFFSET_UNIT} to before {(HIT + 1) * OFFSET_UNIT} \(1 messages\) cannot be read"
    async with EmbeddedCluster(settings={"broker.check_on_read": False}) as cluster:
        await fill(cluster, unreadable)
        await cluster.stop_broker(1)
        for topic, place in unreadable.items():
            flip(cluster.data_dir / f"broker-1/logs/{topic}/0", place)
        await cluster.restart_broker(1)
        for topic in unreadable:
            async with connect(cluster.master) as client:
                if who == "consumer":
                    assert await consume(client, topic, len(wanted)) == (wanted, 1), topic
                elif who == "reader":
                    read: list[int] = []
                    with pytest.raises(CorruptError, match=topic + lost):
                        await read_on(client, topic, Start.EARLIEST, read)
                    assert read == wanted[:HIT], topic
                else:
                    with pytest.raises(DamagedRangeError, match=topic + lost):
                        await asyncio.to_thread(read_range, cluster.brokers[1], topic)


async def fill(cluster: EmbeddedCluster, names: Iterable[str]) -> None:
    for topic in names:
        await cluster.create_topic(topic, partitions=1)
    async with connect(cluster.master) as client:
        for topic in names:
            async with client.producer(topic, batching=False) as producer:
                for number in range(MESSAGES):
                    await producer.send(b"%d %s" % (number, b"x" * 100))


async def consume(client: Tube, topic: str, count: int) -> tuple[list[int], int]:
    """The numbers that a consumer gets, and how many messages it skipped."""
    found: list[int] = []
    async with client.consumer("g", topic, start=Start.EARLIEST) as consumer, asyncio.timeout(60):
        async for batch in consumer.batches(max_wait_s=0.5):
            found += [int(message.body.split()[0]) for message in batch]
            await batch.confirm()
            if len(found) >= count:
                break
    return found, consumer.stats.skipped


def read_range(broker: str, topic: str) -> None:
    """Read all of the topic as a task of Spark does."""
    auth = AuthorizedInfo(visit_authorized_token=0)
    connection = RangeWay(Address.parse(broker), "r_127.0.0.1-1-1-1-1", auth, 10.0).connect()
    try:
        for stretch in connection.read(
            Partition(1, topic, 0), 0, MESSAGES * OFFSET_UNIT, max_messages=MESSAGES, max_bytes=1 << 20
        ):
            assert stretch.next_offset
    finally:
        connection.close()


async def check_messages(cluster: EmbeddedCluster, topic: str) -> None:
    wanted = [number for number in range(MESSAGES) if number != HIT]
    async with connect(cluster.master) as client:
        assert await consume(client, topic, len(wanted)) == (wanted, 1), topic
        read: list[int] = []
        with pytest.raises(CorruptError, match=rf"1:{topic}:0 from offset \d+ .*\(1 messages\) cannot be read"):
            await read_on(client, topic, Start.EARLIEST, read)
        assert read == wanted[:HIT], topic
        await read_on(client, topic, (HIT + 1) * OFFSET_UNIT, read)
        assert read == wanted, topic


async def read_on(client: Tube, topic: str, start: int | Start, read: list[int]) -> None:
    async with client.reader(Partition(1, topic, 0), start=start, end=Start.LATEST) as reader:
        async for batch in reader.batches():
            read += [int(message.body.split()[0]) for message in batch]


def topics() -> list[str]:
    return [f"t{number}" for number in range(len(PLACES))]


def flip(directory: Path, place: int) -> None:
    """Change a bit of the record of message HIT."""
    (log,), (index,) = directory.glob("*.log"), directory.glob("*.index")
    entries = index.read_bytes()[HEADER_BYTES:]
    first, hit = decode_index_entry(entries, 0), decode_index_entry(entries, HIT)
    assert first is not None
    assert hit is not None
    assert len(entries) >= MESSAGES * INDEX_BYTES
    data = bytearray(log.read_bytes())
    data[HEADER_BYTES + hit.position - first.position + place] ^= 0x10
    log.write_bytes(data)
