"""The rows of consumers that divide partitions among themselves: official ones, by each operation, and ours."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from .bench import Bench, CellError
from .cells import both, one_filtered, produced
from .ledger import Received

READY_TIMEOUT_S = 60.0


def expect(what: str, found: object, wanted: object) -> None:
    """Raise when they differ."""
    if found != wanted:
        raise CellError(f"{what}: {found!r} instead of {wanted!r}")


class JavaMember:
    """An official client-balance consumer."""

    def __init__(self, bench: Bench, name: str, got: Received, group: str) -> None:
        self.bench, self.client, self.group = bench, f"{bench.column.prefix}-{name}", bench.column.group(group)
        self.driver = bench.driver
        self.driver.on_batch(self.client, lambda partition, messages: got.add(name, partition, messages))

    async def make(self) -> None:
        """Make it; it is started with an operation of its own."""
        await self(
            "balance", masters=self.bench.column.masters, group=self.group, position=-1,
        )  # fmt: skip

    async def __call__(self, op: str, **more: Any) -> Any:
        """One of the operations."""
        return await self.driver.call(self.client, op, **more)

    async def partitions(self, count: int) -> list[str]:
        """The partitions that can be consumed, when there are so many."""
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while True:
            found = await self("getPartitionMetaInfo")
            ready = sorted(key for key, open_ in found["partitions"].items() if open_)
            if len(ready) >= count:
                return ready
            if time.monotonic() > deadline_s:
                raise CellError(f"getPartitionMetaInfo gives {found}")
            await asyncio.sleep(0.5)

    async def connect(self, partition: str, offset: int = -1) -> None:
        """Take a partition, for which other members may be waited."""
        found = await self("connect2Partition", partition=partition, offset=offset)
        expect(f"connect2Partition {partition}", (found["done"], found["code"]), (True, 200))


async def java_client_balance(bench: Bench) -> dict[str, Any]:
    """Java client-balance consumer (all 17 operations)"""
    await produced(bench)
    got = Received()
    filters = one_filtered(bench)
    members = [JavaMember(bench, f"balance{number}", got, "balance") for number in range(2)]
    await asyncio.gather(*(member.make() for member in members))
    one, other = members
    await _before_start(one)
    for node, member in enumerate(members):
        found = await member("start", topics=filters, source_count=2, node_id=node)
        expect("start", (found["done"], found["code"]), (True, 200))
    await _once_started(one, bench)
    await _refused_members(bench, filters)
    partitions = await one.partitions(8)
    await other.partitions(8)
    expect("partitions", len(partitions), 8)
    await _take_and_leave(one, partitions)
    for at, partition in enumerate(partitions):
        await members[at % 2].connect(partition)
    expect("getCurRegisteredPartSet", sorted(await one("getCurRegisteredPartSet")), partitions[0::2])
    await asyncio.gather(*(member("read") for member in members))
    count = await bench.check(got, filters)
    offsets = await one("getCurPartitionOffsetInfos")
    expect("getCurPartitionOffsetInfos", sorted(offsets), partitions[0::2])
    await asyncio.gather(*(member("shutdown") for member in members))
    expect("isShutdown after shutdown", await one("isShutdown"), True)
    return {"messages": count, "operations": 17}


async def _before_start(one: JavaMember) -> None:
    expect("getClientVersion", await one("getClientVersion"), "1.13.0")
    expect("isShutdown before start", await one("isShutdown"), True)
    expect("getNodeId before start", await one("getNodeId"), -2)
    expect("getConsumerConfig", await one("getConsumerConfig"), one.group)
    found = await one("getPartitionMetaInfo")
    expect("getPartitionMetaInfo before start", (found["done"], found["code"]), (False, 420))
    found = await one("start", topics={"some_topic": []}, source_count=2, node_id=2)
    expect("start with a node id beyond the count", (found["done"], found["code"]), (False, 400))


async def _once_started(one: JavaMember, bench: Bench) -> None:
    expect("isShutdown", await one("isShutdown"), False)
    expect("getNodeId", await one("getNodeId"), 0)
    expect("getSourceCount", await one("getSourceCount"), 2)
    expect("getConsumerId", (await one("getConsumerId")).startswith(f"{one.group}_"), True)
    for name, filtered in (("java", True), ("python", False)):
        expect("isFilterConsume", await one("isFilterConsume", topic=bench.column.topic(name)), filtered)


async def _refused_members(bench: Bench, filters: dict[str, list[str]]) -> None:
    """A node id that is taken, another count, other filters: each has its code."""
    plain = both(bench)
    tries = ((1, 2, filters, 430), (0, 3, filters, 429), (-2, -2, plain, 426))

    async def one(number: int, node: int, count: int, topics: dict[str, list[str]], code: int) -> None:
        member = JavaMember(bench, f"refused{number}", Received(), "balance")
        await member.make()
        found = await member("start", topics=topics, source_count=count, node_id=node)
        expect(f"start of a member to be refused with {code}", (found["done"], found["code"]), (False, code))
        await member("close")

    await asyncio.gather(*(one(number, *given) for number, given in enumerate(tries)))


async def _take_and_leave(one: JavaMember, partitions: list[str]) -> None:
    """Each operation on a partition, with its refusals; nothing is confirmed."""
    broker, topic, _ = partitions[0].split(":")
    found = await one("connect2Partition", partition=f"{broker}:{topic}:999", offset=-1)
    expect("connect2Partition of an unknown partition", (found["done"], found["code"]), (False, 404))
    await one.connect(partitions[0], 0)
    expect("getCurRegisteredPartSet", await one("getCurRegisteredPartSet"), partitions[:1])
    expect("isPartitionsReady", await one("isPartitionsReady", wait_ms=300), True)
    batches = []
    for _ in range(2):  # given back, the same comes again
        found = await _message(one)
        batches.append((found["partition"], found["count"]))
        bad = await one("confirmConsume", context="1:nothing:0", consumed=True)
        expect("confirmConsume of nothing", bad["done"], False)
        back = await one("confirmConsume", context=found["context"], consumed=False)
        expect("confirmConsume", (back["done"], back["code"]), (True, 200))
    expect("what comes after it was given back", batches[1], batches[0])
    left = await one("disconnectFromPartition", partition=partitions[0])
    expect("disconnectFromPartition", (left["done"], left["code"]), (True, 200))
    expect("getCurRegisteredPartSet", await one("getCurRegisteredPartSet"), [])


async def _message(one: JavaMember) -> dict[str, Any]:
    """A batch that holds something."""
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while True:
        found: dict[str, Any] = await one("getMessage")
        if found["done"] and found["count"]:
            return found
        if found["done"]:
            await one("confirmConsume", context=found["context"], consumed=False)
        if time.monotonic() > deadline_s:
            raise CellError(f"getMessage gives {found}")
        await asyncio.sleep(0.05)
