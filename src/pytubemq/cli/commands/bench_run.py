"""The measurements behind `pytubemq bench`, with the public client alone.

The invariants: a message counts when it was acknowledged (or received and confirmed); warming up is not measured;
the clock is read per chunk of messages for rates, per message for latencies.
"""

from __future__ import annotations

import asyncio
import functools
import os
import struct
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytubemq
from pytubemq.cli.output.words import count_of, size
from pytubemq.errors import BufferFullError, ConfigError, TubeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.client.consumer.consumer import Consumer
    from pytubemq.client.producer.producer import Producer
    from pytubemq.client.tube import Tube

_STAMP = struct.Struct("<q")
ASSIGNMENT_ROUNDS = 100
_POINTS = {"p50": (0.5, 2), "p90": (0.9, 10), "p99": (0.99, 100), "p99_9": (0.999, 1_000)}
"""The percentiles, each with the least number of samples that has any beyond it."""
STALL_TIMEOUT_S = 30.0
"""The time without any message after which a measurement gives up."""


@dataclass(frozen=True, slots=True)
class Load:
    """The messages of a measurement, and the cluster."""

    master: str
    topic: str
    size_bytes: int
    messages: int
    window: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Way:
    """The way in which a producer is used."""

    sync: bool = False
    """Wait for each message."""
    many: bool = False
    """Many with one call."""
    batching: bool = True


async def produce(load: Load, *, producers: int, way: Way) -> dict[str, Any]:
    """Measure messages per second over `producers` connections."""
    share = [load.messages // producers + (index < load.messages % producers) for index in range(producers)]
    async with _connect(load) as tube:
        await tube.partitions(load.topic)  # a missing topic is told before anything is started
    warm = asyncio.Barrier(producers + 1)
    latencies: list[float] = []

    async def one(count: int) -> tuple[int, int]:
        async with _connect(load) as tube, tube.producer(load.topic, batching=way.batching) as producer:
            body = os.urandom(load.size_bytes)
            send = _send_many if way.many else _send
            await send(producer, body, min(count, max(1, load.messages // 20)), load.window)
            await warm.wait()
            if way.sync:
                latencies.extend(await _send_one_by_one(producer, body, count))
            else:
                latencies.extend(await send(producer, body, count, load.window))
            return len(producer.partitions), producer.stats.retried

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(count)) for count in share]
        await warm.wait()
        started_s = time.perf_counter()
    seconds = time.perf_counter() - started_s
    return {
        "bench": "produce",
        "sync": way.sync,
        "api": "many" if way.many else "one",
        "batching": way.batching,
        "producers": producers,
        **_rates(load, load.messages, seconds),
        "partitions": tasks[0].result()[0],
        "retried": sum(task.result()[1] for task in tasks),
        "latency_ms": percentiles(latencies),
    }


async def consume(load: Load, *, may_fill: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure messages per second by a new group that begins at the start of the topic.

    With `may_fill` the topic is filled first if it has too few, which is announced before.
    """
    async with _connect(load) as tube:
        await _fill(tube, load, may_fill=may_fill, say=say)
        group = f"bench-{os.getpid()}-{time.time_ns()}"
        got = 0
        started_s = time.perf_counter()
        first_s: float | None = None
        async with tube.consumer(group, load.topic, start=pytubemq.Start.EARLIEST) as consumer:
            async for batch in consumer.batches(max_messages=5_000, idle_timeout_s=STALL_TIMEOUT_S):
                if first_s is None:
                    first_s = time.perf_counter() - started_s
                got += len(batch)
                await batch.confirm()
                if got >= load.messages:
                    break
            seconds = time.perf_counter() - started_s
        if got < load.messages or first_s is None:
            raise _stalled(load, got)
        return {"bench": "consume", **_rates(load, got, seconds), "first_message_s": round(first_s, 4)}


async def end_to_end(load: Load) -> dict[str, Any]:
    """Measure the time from submitting a message to receiving it, with `window` messages under way."""
    group = f"bench-{os.getpid()}-{time.time_ns()}"
    latencies: list[float] = []
    warm_up = min(200, load.messages)
    async with (
        _connect(load) as tube,
        tube.producer(load.topic) as producer,
        tube.consumer(group, load.topic, start=pytubemq.Start.LATEST) as consumer,
    ):
        # New messages are recognized by their bodies, so messages from before the group's start are skipped.
        run = os.urandom(8)
        filler = os.urandom(max(0, load.size_bytes - 16))
        sent = received = 0
        total = warm_up + load.messages
        batches = consumer.batches(idle_timeout_s=STALL_TIMEOUT_S)
        await _until_assigned(producer, consumer)
        started_s = time.perf_counter()
        while received < total:
            while sent < total and sent - received < load.window:
                if sent == warm_up:
                    started_s = time.perf_counter()
                producer.submit(_STAMP.pack(time.perf_counter_ns()) + run + filler)
                sent += 1
            batch = await anext(batches, None)
            if batch is None:
                raise _stalled(load, received)
            now_ns = time.perf_counter_ns()
            for message in batch:
                if message.body[8:16] == run:
                    received += 1
                    if received > warm_up:
                        latencies.append((now_ns - _STAMP.unpack_from(message.body)[0]) / 1e9)
            await batch.confirm()
        seconds = time.perf_counter() - started_s
    return {
        "bench": "e2e",
        "window": load.window,
        **_rates(load, len(latencies), seconds),
        "latency_ms": percentiles(latencies),
    }


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return `samples`, the number of samples; p50, p90, p99, p99.9 and the longest, in milliseconds.

    A point that so few samples cannot distinguish from the longest is left out: p99 takes a hundred.
    """
    ordered = sorted(seconds)
    count = len(ordered)
    found = {
        name: round(ordered[int(point * count)] * 1000, 3) for name, (point, least) in _POINTS.items() if count >= least
    }
    return {"samples": count, **found, **({"max": round(ordered[-1] * 1000, 3)} if ordered else {})}


def _connect(load: Load) -> Tube:
    return pytubemq.connect(load.master, request_timeout_s=load.timeout_s)


async def _send(producer: Producer, body: bytes, count: int, window: int) -> list[float]:
    """Send with at most `window` under way; return the latency of one message a chunk."""
    size = max(1, window // 4)
    under_way: deque[list[asyncio.Future[pytubemq.Receipt]]] = deque()
    latencies: list[float] = []
    left = count
    while left or under_way:
        if left and len(under_way) < 4:
            chunk = [await _submit(producer, body) for _ in range(min(size, left))]
            left -= len(chunk)
            submitted_s = time.perf_counter()
            chunk[-1].add_done_callback(functools.partial(_time, latencies, submitted_s))
            under_way.append(chunk)
            continue
        for future in under_way.popleft():
            await future
    await asyncio.sleep(0)  # futures that were done already have not recorded their time yet
    return latencies


async def _send_many(producer: Producer, body: bytes, count: int, window: int) -> list[float]:
    """Send as `_send` does, but with `submit_many`, a quarter of the window at a time."""
    size = max(1, window // 4)
    under_way: deque[asyncio.Future[pytubemq.Receipts]] = deque()
    latencies: list[float] = []
    left = count
    while left or under_way:
        if left and len(under_way) < 4:
            bodies = [body] * min(size, left)
            size_bytes = len(body) * len(bodies)
            await producer.room(messages=len(bodies), size_bytes=size_bytes)
            future = producer.submit_many(bodies)
            future.add_done_callback(functools.partial(_time, latencies, time.perf_counter()))
            left -= len(bodies)
            under_way.append(future)
            continue
        await under_way.popleft()
    await asyncio.sleep(0)
    return latencies


def _time(latencies: list[float], since_s: float, _: object) -> None:
    latencies.append(time.perf_counter() - since_s)


async def _submit(producer: Producer, body: bytes) -> asyncio.Future[pytubemq.Receipt]:
    while True:
        try:
            return producer.submit(body)
        except BufferFullError:
            await producer.room()


async def _send_one_by_one(producer: Producer, body: bytes, count: int) -> list[float]:
    latencies = []
    for _ in range(count):
        started_s = time.perf_counter()
        await producer.send(body)
        latencies.append(time.perf_counter() - started_s)
    return latencies


async def _fill(tube: Tube, load: Load, *, may_fill: bool, say: Callable[[str], None]) -> None:
    """Ensure that the topic has enough to read. Raises ConfigError: it has too few, and may not be filled."""
    offsets = await tube.offsets(await tube.partitions(load.topic))
    held = sum((end - start) // 28 for start, end in offsets.values())
    if held < load.messages:
        missing = count_of(load.messages - held, "message")
        if not may_fill:
            raise ConfigError(
                f"the topic {load.topic!r} has {held:,} of {load.messages:,} messages to read",
                hint=f"read fewer with --messages, or add {missing} of random bytes, which stay there, with --fill",
            )
        say(f"filling {load.topic} with {missing} of {size(load.size_bytes)}, which stay there")
        async with tube.producer(load.topic) as producer:
            await _send(producer, os.urandom(load.size_bytes), load.messages - held, 20_000)


async def _until_assigned(producer: Producer, consumer: Consumer) -> None:
    """Return once the consumer has had messages from every partition, so that all are assigned to it."""
    missing = set(producer.partitions)
    for _ in range(ASSIGNMENT_ROUNDS):
        for partition in missing:
            await producer.send(b"is anyone there?", partition=partition)
        while batch := await consumer.next_batch(timeout_s=0.1):
            missing.discard(batch.partition)
            await batch.confirm()
        if not missing:
            return
    raise TubeError(
        f"the consumer was not given {sorted(map(str, missing))}", hint=f"check: pytubemq topic show {producer.topic}"
    )


def _rates(load: Load, messages: int, seconds: float) -> dict[str, Any]:
    return {
        "topic": load.topic,
        "messages": messages,
        "size_bytes": load.size_bytes,
        "seconds": round(seconds, 4),
        "msgs_per_s": round(messages / seconds, 1),
        "mib_per_s": round(messages * load.size_bytes / seconds / 2**20, 2),
    }


def _stalled(load: Load, got: int) -> TubeError:
    return TubeError(
        f"only {got:,} of {load.messages:,} messages came; nothing new for {STALL_TIMEOUT_S:g} s",
        hint=f"check: pytubemq topic show {load.topic}",
    )
