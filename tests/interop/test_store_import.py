"""A real Java Broker's data becomes a store, and a Broker of ours goes on with it in its place, under the same Master.

Three topics in several stores and partitions, with types; two groups stopped part-way. After the change each group gets
exactly what the Java Broker still owed it, and every message is the one that was sent.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from pytubemq import Start, connect
from pytubemq.admin.app import create_app
from pytubemq.admin.serving.http import HttpServer
from pytubemq.admin.webapi.authorization import Access
from pytubemq.admin.webapi.routes import master_routes
from pytubemq.broker.service import BrokerService, BrokerSettings
from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.model.ids import Address
from pytubemq.storage.java.java_import import import_java
from pytubemq.storage.tools.verify import verify
from tests.support.waiting import until

from .fetch import fetch
from .processes import TOKEN, JavaBroker
from .webapi import WebApi

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pytubemq.client.tube import Tube

pytestmark = [pytest.mark.interop, pytest.mark.anyio, pytest.mark.timeout(600)]

WAIT_S = 120.0
TOPICS = {"plain": (1, 3, 40_000), "stores": (3, 2, 40_000), "typed": (2, 1, 20_000)}
"""Stores, partitions in each, messages."""
TYPES = ("red", "green", "blue")
GROUPS = {"early": 5_000, "late": 17_000}
"""So many messages of each topic a group has confirmed, about."""


def body(topic: str, number: int) -> bytes:
    return f"{topic} {number} ".encode() + b"x" * (number % 97)


@pytest.fixture
async def master(tmp_path: Path) -> AsyncIterator[tuple[MasterService, WebApi]]:
    made = MasterService(
        MasterSettings(listen=Address("127.0.0.1", 0), data_dir=tmp_path / "master", foreign_topic_timeout_s=WAIT_S)
    )
    await made.start()
    server = HttpServer(create_app(made, pages=master_routes(made, Access(TOKEN))), Address("127.0.0.1", 0))
    try:
        yield made, WebApi(f"http://{await server.start()}")
    finally:
        await server.close()
        await made.close()


async def send(tube: Tube, topic: str, count: int) -> None:
    async with tube.producer(topic) as producer:
        for first in range(0, count, 1000):
            async with asyncio.TaskGroup() as group:
                for number in range(first, first + 1000):
                    kind = TYPES[number % 3] if topic == "typed" else None
                    group.create_task(producer.send(body(topic, number), msg_type=kind))


async def read(tube: Tube, topic: str, group: str, *, least: int) -> Counter[bytes]:
    """What a group gets, whole batches of it confirmed, until it has so many."""
    got: Counter[bytes] = Counter()
    async with asyncio.timeout(WAIT_S):
        async with tube.consumer(group, topic, start=Start.EARLIEST) as consumer:
            while got.total() < least:
                batch = await consumer.next_batch()
                assert batch is not None
                got.update(message.body for message in batch)
                await batch.confirm()
    return got


async def test_a_broker_of_ours_goes_on_where_the_java_broker_stopped(
    master: tuple[MasterService, WebApi], tmp_path: Path
) -> None:
    ours, api = master
    java = JavaBroker(fetch(), tmp_path / "java", broker_id=1, host="127.0.0.1", masters=str(ours.address))
    added = {"brokerId": 1, "brokerIp": "127.0.0.1", "brokerPort": java.port, "manageStatus": "online"}
    await api.modify("admin_add_broker_configure", **added)
    for topic, (stores, partitions, _) in TOPICS.items():
        await api.modify(
            "admin_add_new_topic_record",
            brokerId=1,
            topicName=topic,
            numTopicStores=stores,
            numPartitions=partitions,
            unflushInterval=1000,
        )
    had: dict[tuple[str, str], Counter[bytes]] = {}
    await java.start()
    try:
        await until(lambda: all(_count(ours, topic) for topic in TOPICS), timeout_s=WAIT_S)
        async with connect(str(ours.address)) as tube:
            for topic, (_, _, count) in TOPICS.items():
                await send(tube, topic, count)
            for group, least in GROUPS.items():
                for topic in TOPICS:
                    had[group, topic] = await read(tube, topic, group, least=least)
    finally:
        await java.stop()

    told = import_java(tmp_path / "ours" / "broker-1", tmp_path / "java" / "data" / "store")
    assert told.bad == []
    assert told.messages == sum(count for *_, count in TOPICS.values())
    assert verify(tmp_path / "ours" / "broker-1").findings == []

    broker = BrokerService(
        BrokerSettings(
            broker_id=1,
            listen=Address("127.0.0.1", java.port),
            data_dir=tmp_path / "ours",
            masters=(ours.address,),
            heartbeat_period_s=0.5,
        )
    )
    await broker.start()
    try:
        await until(lambda: all(_count(ours, topic) for topic in TOPICS), timeout_s=WAIT_S)
        async with connect(str(ours.address)) as tube:
            for (group, topic), before in had.items():
                count = TOPICS[topic][2]
                sent = Counter(body(topic, number) for number in range(count))
                after = await read(tube, topic, group, least=count - before.total())
                assert before + after == sent, f"{group} has every message of {topic} once"
    finally:
        await broker.close()


def _count(master: MasterService, topic: str) -> int:
    """Partitions that producers are told of."""
    return sum(place.partitions * place.stores for place in master.broker_room.topics.publishing(topic))
