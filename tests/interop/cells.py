"""The rows of the matrix: what each kind of client must be able to do in every column.

The invariant: a row ends with numbers for its cell, or raises what is wrong.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from .bench import MESSAGES, Bench, CellError, JavaReader, OurReader
from .ledger import Received

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FILTERED = ["t1", "t3"]
JOIN_TIMEOUT_S = 120.0


async def produce_java(bench: Bench) -> None:
    """Fill the topic of Java producers: one that waits for each answer, one that does not."""
    topic, prefix = bench.column.topic("java"), bench.column.prefix
    await bench.java_send(topic, f"{prefix}-sync", MESSAGES, sync=True)
    await bench.java_send(topic, f"{prefix}-async", MESSAGES, sync=False)


async def produce_ours(bench: Bench) -> None:
    """Fill the topic of our producer."""
    await bench.our_send(bench.column.topic("python"), f"{bench.column.prefix}-ours", MESSAGES)


async def produced(bench: Bench) -> None:
    """Both topics are full; whoever asks first has them filled."""
    for name, fill in (("java", produce_java), ("python", produce_ours)):
        if name not in bench.produced:
            bench.produced[name] = asyncio.create_task(fill(bench))
    await asyncio.gather(*(asyncio.shield(task) for task in bench.produced.values()))


def both(bench: Bench) -> dict[str, list[str]]:
    """Both topics, without filters."""
    return {bench.column.topic("java"): [], bench.column.topic("python"): []}


def one_filtered(bench: Bench) -> dict[str, list[str]]:
    """Both topics, the first one filtered."""
    return {bench.column.topic("java"): FILTERED, bench.column.topic("python"): []}


# --- producers ------------------------------------------------------------------------------------------------------


async def java_producer(bench: Bench) -> dict[str, Any]:
    """Java producer, sync and async."""
    await produced(bench)
    return await _producer(bench, "java", 2 * MESSAGES)


async def our_producer(bench: Bench) -> dict[str, Any]:
    """pytubemq producer."""
    await produced(bench)
    return await _producer(bench, "python", MESSAGES)


async def _producer(bench: Bench, topic: str, count: int) -> dict[str, Any]:
    """Every message has a receipt, and is read back as it was sent, by both kinds of consumer."""
    name = bench.column.topic(topic)
    sent = bench.sent(name)
    if sent.count != count:
        raise CellError(f"{sent.count} receipts for {count} messages")
    reader = await bench.java_read(f"back_{topic}", {name: []})
    ours = await OurReader(bench, f"ours_back_{topic}", Received()).start({name: []})
    for got in (reader.got, ours.got):
        await bench.check(got, {name: []})
    await reader.close()
    await ours.close()
    return {"messages": count, "sent_again": len(sent.doubtful)}


# --- Java consumers -------------------------------------------------------------------------------------------------


async def java_pull(bench: Bench) -> dict[str, Any]:
    """Java pull consumer."""
    return await _java_consumer(bench, "pull", push=False)


async def java_push(bench: Bench) -> dict[str, Any]:
    """Java push consumer."""
    return await _java_consumer(bench, "push", push=True)


async def _java_consumer(bench: Bench, name: str, *, push: bool) -> dict[str, Any]:
    await produced(bench)
    plain, filtered = await asyncio.gather(
        bench.java_read(name, both(bench), push=push),
        bench.java_read(f"{name}_filtered", one_filtered(bench), push=push),
    )
    count = await bench.check(plain.got, both(bench))
    count += await bench.check(filtered.got, one_filtered(bench))
    await asyncio.gather(plain.close(), filtered.close())
    return {"messages": count, "first_message_s": round(plain.first_s or 0.0, 2)}


async def java_bound(bench: Bench) -> dict[str, Any]:
    """Java bound consumer (session key, offsets given)."""
    await produced(bench)
    topic = bench.column.topic("java")
    starts = {
        partition: sorted(receipts)[len(receipts) // 4][0]
        for partition, receipts in bench.sent(topic).partitions.items()
    }
    bound: dict[str, Any] = {
        "group": "bound",
        "session_key": f"key{time.time_ns()}",
        "source_count": 2,
        "select_big": True,
    }
    got = Received()
    members = [JavaReader(bench, f"bound{number}", got) for number in range(2)]
    await asyncio.gather(*(member.start({topic: []}, push=False, offsets=starts, **bound) for member in members))
    count = await bench.check(got, {topic: []}, starts=starts)
    shares = await asyncio.gather(*(member.partitions() for member in members))
    await asyncio.gather(*(member.close() for member in members))
    if not all(shares) or shares[0] & shares[1]:
        raise CellError(f"the partitions were not shared by the two members: {shares}")
    return {"messages": count}


# --- our consumers --------------------------------------------------------------------------------------------------


async def our_pull(bench: Bench) -> dict[str, Any]:
    """pytubemq pull consumer, filters, several topics per group."""
    await produced(bench)
    plain, filtered = await asyncio.gather(
        OurReader(bench, "ours", Received()).start(both(bench)),
        OurReader(bench, "ours_filtered", Received()).start(one_filtered(bench)),
    )
    count = await bench.check(plain.got, both(bench))
    count += await bench.check(filtered.got, one_filtered(bench))
    await asyncio.gather(plain.close(), filtered.close())
    return {"messages": count}


# --- together -------------------------------------------------------------------------------------------------------


async def mixed_group(bench: Bench) -> dict[str, Any]:
    """One group with a Java and a pytubemq member."""
    topic, got = bench.column.topic("mixed"), Received()
    java = JavaReader(bench, "java_member", got)
    ours = OurReader(bench, "our_member", got, group="mixed")
    await java.start({topic: []}, push=False, group="mixed")
    await ours.start({topic: []})
    deadline_s = time.monotonic() + JOIN_TIMEOUT_S
    while True:
        held = await java.partitions(), ours.partitions()
        if len(held[0]) == len(held[1]) == 2 and not held[0] & held[1]:
            break
        if time.monotonic() > deadline_s:
            raise CellError(f"after {JOIN_TIMEOUT_S:g} s Java holds {sorted(held[0])}, ours {sorted(held[1])}")
        await asyncio.sleep(0.2)
    prefix = bench.column.prefix
    await asyncio.gather(
        bench.java_send(topic, f"{prefix}-mixed-java", MESSAGES // 2, sync=False),
        bench.our_send(topic, f"{prefix}-mixed-ours", MESSAGES // 2),
    )
    count = await bench.check(got, {topic: []})
    await java.close()
    await ours.close()
    if min(got.by_member[name] for name in ("java_member", "our_member")) == 0:
        raise CellError(f"one member read nothing: {dict(got.by_member)}")
    return {"messages": count, **got.by_member}


ROWS: dict[str, Callable[[Bench], Awaitable[dict[str, Any]]]] = {
    row.__doc__.rstrip("."): row
    for row in (java_producer, java_pull, java_push, java_bound, our_producer, our_pull, mixed_group)
    if row.__doc__
}
