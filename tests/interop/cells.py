"""The rows of the matrix: what each kind of client must be able to do in every column.

The invariant: a row ends with numbers for its cell, or raises what is wrong.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from pytubemq import Bound, Partition, Start

from .bench import MESSAGES, Bench, CellError, JavaReader, OurReader, connected, take
from .ledger import Received

if TYPE_CHECKING:
    from pytubemq import Batch

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
    return {"messages": count, "first_message_s": plain.first_s}


async def java_bound(bench: Bench) -> dict[str, Any]:
    """Java bound consumer (session key, offsets given)."""
    await produced(bench)
    topic = bench.column.topic("java")
    starts = starts_inside(bench, topic)
    claims = [sorted(starts)[0::2], sorted(starts)[1::2]]
    bound: dict[str, Any] = {"session_key": f"key{time.time_ns()}", "source_count": 2, "select_big": True}
    got = Received()
    members = [JavaReader(bench, f"bound{number}", got) for number in range(2)]
    await asyncio.gather(
        *(
            member.start({topic: []}, push=False, group="bound", offsets={key: starts[key] for key in claimed}, **bound)
            for member, claimed in zip(members, claims, strict=True)
        )
    )
    count = await bench.check(got, {topic: []}, starts=starts)
    shares = [sorted(await member.partitions()) for member in members]
    await asyncio.gather(*(member.close() for member in members))
    if shares != claims:
        raise CellError(f"the members hold {shares}, and claimed {claims}")
    return {"messages": count}


def starts_inside(bench: Bench, topic: str) -> dict[str, int]:
    """Per partition the offset at which a quarter of its messages is passed."""
    return {
        partition: sorted(receipts)[len(receipts) // 4][0]
        for partition, receipts in bench.sent(topic).partitions.items()
    }


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


async def our_push(bench: Bench) -> dict[str, Any]:
    """pytubemq push consumer."""
    await produced(bench)
    counts = await asyncio.gather(
        *(_our_push(bench, name, filters) for name, filters in (("push", both(bench)), ("part", one_filtered(bench))))
    )
    return {"messages": sum(counts)}


async def _our_push(bench: Bench, name: str, filters: dict[str, list[str]]) -> int:
    got = Received()

    async def handle(batch: Batch) -> None:
        take(got, name, batch)

    async with (
        connected(bench.column.masters) as tube,
        tube.push_consumer(
            bench.column.group(f"ours_{name}"),
            *filters,
            handler=handle,
            start=Start.EARLIEST,
            filters={topic: items for topic, items in filters.items() if items},
        ),
    ):
        return await bench.check(got, filters)


async def our_bound(bench: Bench) -> dict[str, Any]:
    """pytubemq bound consumer (session key, offsets given)."""
    await produced(bench)
    topic, got = bench.column.topic("java"), Received()
    starts = starts_inside(bench, topic)
    claims = [sorted(starts)[0::2], sorted(starts)[1::2]]
    key = f"key{time.time_ns()}"
    members = [OurReader(bench, f"our_bound{number}", got, group="our_bound") for number in range(2)]
    await asyncio.gather(
        *(
            member.start(
                {topic: []},
                bound=Bound(
                    session_key=key, source_count=2, offsets={Partition.parse(one): starts[one] for one in claimed}
                ),
            )
            for member, claimed in zip(members, claims, strict=True)
        )
    )
    count = await bench.check(got, {topic: []}, starts=starts)
    shares = [sorted(await member.partitions()) for member in members]
    await asyncio.gather(*(member.close() for member in members))
    if shares != claims:
        raise CellError(f"the members hold {shares}, and claimed {claims}")
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
        held = await java.partitions(), await ours.partitions()
        if len(held[0]) == len(held[1]) == 2 and not held[0] & held[1]:
            break
        if time.monotonic() > deadline_s:
            raise CellError(f"after {JOIN_TIMEOUT_S:g} s Java holds {sorted(held[0])}, ours {sorted(held[1])}")
        await asyncio.sleep(0.2)  # the members are asked, they tell nothing by themselves
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
