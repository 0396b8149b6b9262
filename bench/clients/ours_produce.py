"""Our producer at work: `python -m bench.clients.ours_produce '{"master": ..., "topics": [...], "way": "many"}'`.

Ways: `one` submits message by message; `many` hands over `chunk` bodies at a time; `single` sends every message in a
request of its own; `sync` waits for each receipt before the next message. At most `window` messages are under way; with
several topics the producers take turns, `chunk` messages each (`one` and `single`: one message each).
"""

import asyncio
import contextlib
import itertools
import os
import time
from collections import deque
from collections.abc import Sequence

import pytubemq
from bench.clients.window import Result, Spec, Window, percentiles, report, spec
from pytubemq.errors import BufferFullError
from pytubemq.server.run import run_loop

CHUNKS = 8
"""Of messages submitted one by one; the oldest is waited for when the window is full."""


class Load:
    """Sends until it is cancelled; `acked` counts what has its receipt."""

    def __init__(self, given: Spec, producers: Sequence[pytubemq.Producer]) -> None:
        self.acked = 0
        self.latencies: list[float] = []
        self._body = os.urandom(given["size_bytes"])
        self._window = given.get("window", 1)
        self._chunk = given.get("chunk", 1)
        self._turns = itertools.cycle(producers)

    async def one(self) -> None:
        """Message by message, all futures looked at."""
        size = max(1, self._window // CHUNKS)
        body, turns = self._body, self._turns
        under_way: deque[list[asyncio.Future[pytubemq.Receipt]]] = deque()
        while True:
            while len(under_way) < CHUNKS:
                chunk: list[asyncio.Future[pytubemq.Receipt]] = []
                while len(chunk) < size:
                    producer = next(turns)
                    try:
                        chunk.append(producer.submit(body))
                    except BufferFullError:
                        await producer.room()
                        chunk.append(producer.submit(body))
                under_way.append(chunk)
            for future in under_way.popleft():
                await future
            self.acked += size

    async def many(self) -> None:
        """Lists of bodies."""
        bodies = [self._body] * self._chunk
        most = max(1, self._window // self._chunk)
        under_way: deque[asyncio.Future[pytubemq.Receipts]] = deque()
        while True:
            while len(under_way) < most:
                producer = next(self._turns)
                try:
                    under_way.append(producer.submit_many(bodies))
                except BufferFullError:
                    await producer.room()
            await under_way.popleft()
            self.acked += self._chunk

    async def sync(self) -> None:
        """One after the other."""
        for producer in self._turns:
            begun_s = time.perf_counter()
            await producer.send(self._body)
            self.latencies.append(time.perf_counter() - begun_s)
            self.acked += 1


async def main(given: Spec) -> Result:
    """Warm up, measure, leave."""
    way = given["way"]
    async with pytubemq.connect(given["master"]) as tube, contextlib.AsyncExitStack() as stack:
        producers = []
        for topic in given["topics"]:
            producer = tube.producer(topic, batching=way != "single")
            producers.append(await stack.enter_async_context(producer))
        load = Load(given, producers)
        sending = asyncio.create_task(getattr(load, "one" if way == "single" else way)())
        window = Window(given.get("pids"))
        try:
            await _within(sending, given["warm_s"])
            load.latencies.clear()
            window.open(load.acked)
            await _within(sending, given["measure_s"])
            found = window.close(load.acked)
        finally:
            sending.cancel()
            await asyncio.wait({sending})
        failed = sum(producer.stats.failed for producer in producers)
        return {**found, "failed": failed, "latency_ms": percentiles(load.latencies)}


async def _within(sending: asyncio.Task[None], seconds: float) -> None:
    """Let it send for so long; its error is ours."""
    done, _ = await asyncio.wait({sending}, timeout=seconds)
    for task in done:
        task.result()


if __name__ == "__main__":
    report(run_loop(main(spec())))
