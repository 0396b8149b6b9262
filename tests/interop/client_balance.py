"""The rows of consumers that divide partitions among themselves: official ones, by each operation, and ours."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from pytubemq import Start
from pytubemq.errors import GroupMismatchError, NotFoundError, StaleBatchError, TransportError

from .bench import Bench, CellError, connected, take
from .cells import both, one_filtered, produced, starts_inside
from .ledger import Received

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pytubemq import BalanceConsumer

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
            await asyncio.sleep(0.5)  # a member is asked, it tells nothing by itself

    async def connect(self, partition: str, offset: int = -1) -> None:
        """Take a partition, for which other members may be waited."""
        found = await self("connect2Partition", partition=partition, offset=offset)
        expect(f"connect2Partition {partition}", (found["done"], found["code"]), (True, 200))


async def java_client_balance(bench: Bench) -> dict[str, Any]:
    """Java client-balance consumer (all 17 operations)."""
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
        batches.append((found["partition"], found["first"]))
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
        await asyncio.sleep(0.05)  # a member is asked, it tells nothing by itself


# --- ours -----------------------------------------------------------------------------------------------------------


async def our_client_balance(bench: Bench) -> dict[str, Any]:
    """pytubemq client-balance consumer."""
    await produced(bench)
    counts = await asyncio.gather(_two_of_ours(bench), _ours_and_java(bench), _by_hand(bench))
    return {"messages": sum(counts)}


async def _two_of_ours(bench: Bench) -> int:
    """Two members share everything; each keeps its half."""
    got, filters = Received(), one_filtered(bench)
    async with connected(bench.column.masters) as tube:
        members = [
            tube.balance_consumer(
                bench.column.group("our_balance"),
                *filters,
                node_id=node,
                source_count=2,
                start=Start.EARLIEST,
                filters={topic: items for topic, items in filters.items() if items},
            )
            for node in range(2)
        ]
        async with members[0] as one, members[1] as other:
            reading = [asyncio.create_task(_read(member, got)) for member in members]
            for member in members:
                expect("ready", await member.ready(READY_TIMEOUT_S), True)
            expect("registered", {len(one.registered), len(other.registered)}, {4})
            expect("the members' shares", one.share & other.share, frozenset())
            count = await bench.check(got, filters)
            for task in reading:
                task.cancel()
            await asyncio.wait(reading)
    return count


async def _ours_and_java(bench: Bench) -> int:
    """One member of each kind: the Java one takes what ours leaves to it."""
    got, filters = Received(), both(bench)
    java = JavaMember(bench, "balance_beside", got, "both_balance")
    await java.make()
    found = await java("start", topics=filters, source_count=2, node_id=1)
    expect("start", (found["done"], found["code"]), (True, 200))
    partitions = await java.partitions(8)
    async with (
        connected(bench.column.masters) as tube,
        tube.balance_consumer(java.group, *filters, node_id=0, source_count=2, start=Start.EARLIEST) as ours,
    ):
        reading = asyncio.create_task(_read(ours, got))
        expect("ready", await ours.ready(READY_TIMEOUT_S), True)
        share = {str(partition) for partition in ours.share}
        expect("our share", len(share), 4)
        for partition in partitions:
            if partition not in share:
                await java.connect(partition)
        await java("read")
        count = await bench.check(got, filters)
        reading.cancel()
        await asyncio.wait({reading})
    await java("close")
    if set(got.by_member) != {"balance_beside", "ours"}:
        raise CellError(f"one member read nothing: {dict(got.by_member)}")
    return count


async def _read(consumer: BalanceConsumer, got: Received) -> None:
    async for batch in consumer.batches():
        take(got, "ours", batch)
        with contextlib.suppress(StaleBatchError, TransportError):
            await batch.confirm()


async def _by_hand(bench: Bench) -> int:
    """One member that is told what to take, with each refusal that there is; it begins where it is told."""
    topic, got = bench.column.topic("java"), Received()
    starts = starts_inside(bench, topic)
    group = bench.column.group("our_manual")
    async with connected(bench.column.masters) as tube:
        more: dict[str, Any] = {"source_count": 2, "start": Start.EARLIEST}
        async with tube.balance_consumer(group, topic, node_id=0, manual=True, **more) as one:
            expect("filters", one.filters(topic), frozenset())
            expect("node and count", (one.node_id, one.source_count), (0, 2))
            meta = {str(partition): is_open for partition, is_open in (await one.partition_meta()).items()}
            expect("partition_meta", meta, dict.fromkeys(sorted(starts), True))
            await _refused(NotFoundError, one.connect(f"{bench.column.broker_id}:{topic}:999"))
            same_node = tube.balance_consumer(group, topic, node_id=0, node_wait_s=0.0, **more)
            await _refused(GroupMismatchError, same_node.__aenter__())
            other_count = tube.balance_consumer(group, topic, node_id=1, source_count=3, node_wait_s=0.0)
            await _refused(GroupMismatchError, other_count.__aenter__())
            first, *others = sorted(starts)
            await one.connect(first)
            await one.disconnect(first)
            expect("registered", one.registered, ())
            await asyncio.gather(*(one.connect(partition, starts[partition]) for partition in (first, *others)))
            expect("registered", sorted(map(str, one.registered)), sorted(starts))
            reading = asyncio.create_task(_read(one, got))
            count = await bench.check(got, {topic: []}, starts=starts)
            expect("offsets", sorted(map(str, one.offsets())), sorted(starts))
            reading.cancel()
            await asyncio.wait({reading})
    return count


async def _refused(kind: type[Exception], doing: Awaitable[object]) -> None:
    """It must raise an error of that kind."""
    try:
        await doing
    except kind:
        return
    raise CellError(f"it was done, and not refused with {kind.__name__}")
