"""A Broker whose process is stopped for a while and continued: its clients go on as soon as a new one could.

What counts is the order of events, not seconds: a client that begins when the Broker continues sends one message after
the other with a pause between two, and by the time it has receipts for MOST_OF_NEWCOMER of them the clients that were
there before must have gone on, too. While one of three Brokers is stopped, the two others acknowledge messages without
a key, and once the producers know, they skip the stopped one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq import sync
from pytubemq.errors import BufferFullError, TubeError
from pytubemq.server.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

TOPIC = "orders"
MOST_OF_NEWCOMER = 40
NEWCOMERS_PAUSE_S = 0.05
REQUEST_TIMEOUT_S = 1.0
STOPS_S = (0.5, 5.5)
"""Within a request's time-out, and so long that connections are given up in between (3 s) and made again."""

STOPPED = 2
"""Of the three Brokers."""
LONG_TIMEOUT_S = 120.0
"""Of a request, so that no time-out helps the messages along within the test."""
UNTIL_KNOWN = 125
"""Acknowledgements of each running Broker, after which a producer knows of the stopped one: that takes 2.5 s."""
AFTERWARDS = 50
MOST_WITHOUT_ANY = 400
"""Messages sent one after the other with no acknowledgement in between: more than twice what leaves before a producer
knows of the stopped Broker."""
LOAD_PAUSE_S = 0.01


class Load:
    """A producer that always has messages under way, and a consumer that confirms."""

    def __init__(self) -> None:
        self.sent = self.acked = self.confirmed = 0
        self.read: set[bytes] = set()
        self.errors: list[BaseException] = []
        self.moved = asyncio.Event()
        self.stopping = False

    async def produce(self, tube: pytubemq.Tube) -> None:
        async with tube.producer(TOPIC, max_buffer_messages=500) as producer:
            while not self.stopping:
                try:
                    producer.submit(b"%d" % self.sent).add_done_callback(self._done)
                except BufferFullError:
                    await producer.room()
                    continue
                self.sent += 1
                await asyncio.sleep(0.002)  # the load's pace
            await producer.flush()

    async def consume(self, tube: pytubemq.Tube) -> None:
        async with tube.consumer("g", TOPIC, start=pytubemq.Start.EARLIEST) as consumer:
            async for batch in consumer.batches(max_wait_s=0.2):
                with contextlib.suppress(TubeError):  # what could not be confirmed in time comes again
                    await batch.confirm()
                    self.read.update(message.body for message in batch)
                    self.confirmed += 1
                    self.moved.set()

    def _done(self, future: asyncio.Future[pytubemq.Receipt]) -> None:
        if future.cancelled():
            return
        if (error := future.exception()) is not None:
            self.errors.append(error)
        self.acked += 1
        self.moved.set()

    async def go_on(self) -> None:
        """Wait until a message is acknowledged and a batch confirmed that were not before."""
        acked, confirmed = self.acked, self.confirmed
        while self.acked == acked or self.confirmed == confirmed:
            self.moved.clear()
            await self.moved.wait()


async def newcomer(master: str) -> int:
    """How many messages a client that knows of nothing gets receipts for, until it is cancelled."""
    receipts = 0
    async with pytubemq.connect(master) as tube, tube.producer(TOPIC) as producer:
        while receipts < MOST_OF_NEWCOMER:
            await producer.send(b"new")
            receipts += 1
            await asyncio.sleep(NEWCOMERS_PAUSE_S)  # the load's pace
    return receipts


async def stop_and_go_on(cluster: EmbeddedCluster, load: Load, stop_s: float) -> None:
    pid = cluster.child()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(stop_s)  # the disturbance itself, nothing that is waited for
    finally:
        os.kill(pid, signal.SIGCONT)
    others, fresh = asyncio.ensure_future(load.go_on()), asyncio.ensure_future(newcomer(cluster.master))
    async with asyncio.timeout(60):
        await asyncio.wait([others, fresh], return_when=asyncio.FIRST_COMPLETED)
    assert others.done(), f"a new client had {fresh.result()} receipts before the others went on"
    fresh.cancel()
    await asyncio.gather(fresh, return_exceptions=True)


async def test_clients_of_a_stopped_broker_go_on_as_soon_as_it_continues(tmp_path: Path) -> None:
    load = Load()
    async with EmbeddedCluster(data_dir=tmp_path, broker_in_child=True) as cluster:
        await cluster.create_topic(TOPIC, partitions=2)
        async with pytubemq.connect(cluster.master, request_timeout_s=REQUEST_TIMEOUT_S) as tube:
            tasks = [asyncio.ensure_future(load.produce(tube)), asyncio.ensure_future(load.consume(tube))]
            await load.go_on()
            for stop_s in STOPS_S:
                await stop_and_go_on(cluster, load, stop_s)
            load.stopping = True
            async with asyncio.timeout(60):
                await tasks[0]
                while load.read < {b"%d" % number for number in range(load.sent)}:
                    load.moved.clear()
                    await load.moved.wait()
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    assert not load.errors, load.errors[0]
    assert load.acked == load.sent


class Acknowledged:
    """A light load, sent one way, and the Brokers that acknowledged it."""

    def __init__(self) -> None:
        self.receipts: list[pytubemq.Receipt] = []
        self.of_brokers: list[Counter[int]] = [Counter()]
        """By Broker, the acknowledgements of messages that were sent in one step of the test."""
        self.moved = asyncio.Event()
        self.without_any = self.most_without_any = 0
        """Messages sent since the last acknowledgement, and the most there were."""
        self.stopping = False

    async def load(self, send: Callable[[bytes], Awaitable[pytubemq.Receipt]]) -> None:
        """Send a message after each pause, whether or not the ones before are acknowledged; then wait for all."""
        waiting: list[asyncio.Task[None]] = []
        while not self.stopping:
            waiting.append(asyncio.ensure_future(self._one(send, b"%d" % len(waiting))))
            await asyncio.sleep(LOAD_PAUSE_S)  # the load's pace
        await asyncio.gather(*waiting)

    async def _one(self, send: Callable[[bytes], Awaitable[pytubemq.Receipt]], body: bytes) -> None:
        step = self.of_brokers[-1]
        self.without_any += 1
        self.most_without_any = max(self.most_without_any, self.without_any)
        receipt = await send(body)
        self.without_any = 0
        self.receipts.append(receipt)
        step[receipt.partition.broker_id] += 1
        self.moved.set()

    async def have(self, brokers: set[int], count: int) -> None:
        """Begin a step, and wait until each of these Brokers acknowledged so many messages that were sent in it."""
        step: Counter[int] = Counter()
        self.of_brokers.append(step)
        while any(step[broker_id] < count for broker_id in brokers):
            self.moved.clear()
            await self.moved.wait()


async def test_the_other_brokers_get_what_has_no_key_while_one_of_three_is_stopped(tmp_path: Path) -> None:
    loads = [Acknowledged() for _ in range(4)]
    async with EmbeddedCluster(data_dir=tmp_path, brokers=3, broker_in_child=True) as cluster:
        await cluster.create_topic(TOPIC, partitions=1)
        pid = cluster.child(STOPPED)
        assert pid is not None
        async with (
            pytubemq.connect(cluster.master, request_timeout_s=LONG_TIMEOUT_S) as tube,
            tube.producer(TOPIC, delivery_timeout_s=LONG_TIMEOUT_S) as submits,
            tube.producer(TOPIC, delivery_timeout_s=LONG_TIMEOUT_S) as sends_lots,
            tube.producer(TOPIC, delivery_timeout_s=LONG_TIMEOUT_S, batching=False) as sends_singly,
        ):
            threaded = await asyncio.to_thread(
                lambda: sync.connect(cluster.master, request_timeout_s=LONG_TIMEOUT_S).__enter__()
            )
            blocking = await asyncio.to_thread(
                lambda: threaded.producer(TOPIC, delivery_timeout_s=LONG_TIMEOUT_S).__enter__()
            )

            async def lot(body: bytes) -> pytubemq.Receipt:
                return (await sends_lots.send_many([body, body]))[0]

            ways: list[Callable[[bytes], Awaitable[pytubemq.Receipt]]] = [
                submits.submit,
                lot,
                sends_singly.send,
                lambda body: asyncio.wrap_future(blocking.submit(body)),
            ]
            tasks = [asyncio.ensure_future(one.load(way)) for one, way in zip(loads, ways, strict=True)]
            try:
                async with asyncio.timeout(60):
                    await asyncio.gather(*(one.have({1, 2, 3}, 5) for one in loads))
                    os.kill(pid, signal.SIGSTOP)
                    try:
                        await asyncio.gather(*(one.have({1, 3}, UNTIL_KNOWN) for one in loads))
                        await asyncio.gather(*(one.have({1, 3}, AFTERWARDS) for one in loads))
                        passed_over = [one.of_brokers[-1] for one in loads]
                    finally:
                        os.kill(pid, signal.SIGCONT)
                    await asyncio.gather(*(one.have({1, 2, 3}, 5) for one in loads))
                    for one in loads:
                        one.stopping = True
                    await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.to_thread(blocking.close)
                await asyncio.to_thread(threaded.close)
    assert max(one.most_without_any for one in loads) < MOST_WITHOUT_ANY
    for step in passed_over:
        assert 4 * step[STOPPED] <= step[1] + step[3], "a third of all would be half of what the others got"
    for one in loads:
        places = [(receipt.partition, receipt.offset) for receipt in one.receipts]
        assert len(set(places)) == len(places), "each message is stored in a place of its own"
        assert not any(receipt.repeated for receipt in one.receipts), "none was sent twice"
