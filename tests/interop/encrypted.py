"""The row of clients over TLS: official ones and ours, each with a certificate that the servers demand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytubemq
from tests.support.waiting import until

from .bench import CellError, connected
from .safe_system import TOPIC, SafeSystem

if TYPE_CHECKING:
    from .bench import Bench

COUNT = 500
"""Sent by each kind of producer."""
READ_TIMEOUT_S = 180.0


async def over_tls(bench: Bench) -> dict[str, Any]:
    """TLS in both directions, both kinds of clients."""
    column, prefix = bench.column, f"{bench.column.prefix}_tls"
    system = SafeSystem(bench.system.home / prefix, bench.system.java)
    bench.closing.append(system.close)
    await system.start(java_master=column.java_master, java_broker=column.java_broker)
    java: dict[str, Any] = {"masters": system.master, "tls": system.client.client_options(two_way=True)}
    driver, producer, consumer = bench.driver, f"{prefix}-producer", f"{prefix}-consumer"
    await driver.call(producer, "producer", **java)
    bench.closing.append(lambda: driver.call(producer, "close"))
    await driver.call(producer, "publish", topics=[TOPIC])
    receipts = await driver.call(producer, "send", topic=TOPIC, set="java", first=0, count=COUNT, sync=True)
    if len(receipts) != COUNT:
        raise CellError(f"{len(receipts)} receipts for {COUNT} messages")
    async with connected(system.master, tls=system.options) as tube:
        async with tube.producer(TOPIC) as ours:
            await ours.send_many([b"ours %d" % number for number in range(COUNT)])
        reading = asyncio.create_task(_read(tube))
        seen: set[tuple[str, int]] = set()
        driver.on_batch(consumer, lambda _, messages: seen.update((one[0], one[1]) for one in messages))
        await driver.call(
            consumer, "consumer", push=False, group=f"{prefix}_java", topics={TOPIC: []}, position=-1, **java
        )
        bench.closing.append(lambda: driver.call(consumer, "close"))
        count = await reading
        await until(lambda: len(seen) >= COUNT, timeout_s=READ_TIMEOUT_S)
    return {"messages": count}


async def _read(tube: pytubemq.Tube) -> int:
    """Read the messages of both producers."""
    bodies: set[bytes] = set()
    async with (
        asyncio.timeout(READ_TIMEOUT_S),
        tube.consumer("our_tls_group", TOPIC, start=pytubemq.Start.EARLIEST) as consumer,
    ):
        async for batch in consumer.batches():
            bodies |= {message.body for message in batch}
            await batch.confirm()
            if len(bodies) >= 2 * COUNT:
                break
    return len(bodies)
