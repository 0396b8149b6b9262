"""A Broker whose process is stopped for a while and continued: its clients go on as soon as a new one could.

What counts is the order of events, not seconds: a client that begins when the Broker continues sends one message after
the other with a pause between two, and by the time it has receipts for MOST_OF_NEWCOMER of them the clients that were
there before must have gone on, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.errors import BufferFullError, TubeError
from pytubemq.server.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

TOPIC = "orders"
MOST_OF_NEWCOMER = 40
NEWCOMERS_PAUSE_S = 0.05
REQUEST_TIMEOUT_S = 1.0
STOPS_S = (0.5, 5.5)
"""Within a request's time-out, and so long that connections are given up in between (3 s) and made again."""


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
                await asyncio.sleep(0.002)
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
            await asyncio.sleep(NEWCOMERS_PAUSE_S)
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
