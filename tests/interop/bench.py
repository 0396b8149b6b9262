"""What the cells of one column share: its clients, what was produced, and reading it with either kind of client."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytubemq import Start, connect
from pytubemq.errors import StaleBatchError, TransportError, UnavailableError, UnreachableError

from .ledger import Received, Sent, compare
from .message_set import make, seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from pytubemq import Tube
    from pytubemq.client.received.batch import Batch

    from .driver import Driver
    from .system import Column, System

MESSAGES = 20_000
READ_TIMEOUT_S = 120.0
"""Without anything new."""
CLOSE_TIMEOUT_S = 30.0
CONNECT_TRIES = 10
"""All cells share one event loop, which may stand for longer than a connection's time-out when many are busy."""
SYNC_SENDERS = 8
"""Threads that wait for each answer: a Broker that flushes before it answers serves them together."""
SETTLE_S = 1.0
"""How long is looked for messages beyond those expected."""


class CellError(AssertionError):
    """A cell of the matrix failed; the text says in what."""


async def opened(masters: str, **options: Any) -> Tube:
    """Connect, and try again while the Master is not reached in time."""
    for _ in range(CONNECT_TRIES - 1):
        with contextlib.suppress(UnreachableError):
            return await connect(masters, **options).__aenter__()
    return await connect(masters, **options).__aenter__()


@contextlib.asynccontextmanager
async def connected(masters: str, **options: Any) -> AsyncIterator[Tube]:
    """Connect like `opened`, and close at the end."""
    tube = await opened(masters, **options)
    try:
        yield tube
    finally:
        await tube.close()


@dataclass
class Bench:
    """One column at work."""

    system: System
    column: Column
    driver: Driver
    new_driver: Callable[[str], Awaitable[Driver]]
    """Starts another JVM, by a name, for clients that are to be killed."""
    topics: dict[str, Sent] = field(default_factory=dict)
    produced: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    closing: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """What is still open, to be closed when the cell ends, in whatever way."""

    def for_cell(self) -> Bench:
        """The same, with things of its own to be closed."""
        return replace(self, closing=[])

    async def close(self) -> None:
        """Close what the cell has left open."""
        for close in reversed(self.closing):
            with contextlib.suppress(Exception):
                await asyncio.wait_for(close(), CLOSE_TIMEOUT_S)

    def sent(self, topic: str) -> Sent:
        """The receipts of a topic."""
        return self.topics.setdefault(topic, Sent(topic))

    # --- producing ------------------------------------------------------------------------------------------

    async def java_send(self, topic: str, set_name: str, count: int, *, sync: bool, masters: str = "") -> None:
        """Send a set with the official producer and keep the receipts."""
        client = f"{set_name}-producer"
        await self.driver.call(client, "producer", masters=masters or self.column.masters)
        await self.driver.call(client, "publish", topics=[topic])
        part = -(-count // SYNC_SENDERS) if sync else count
        sending = [
            self.driver.call(
                client, "send", topic=topic, set=set_name, first=first, count=min(part, count - first), sync=sync
            )
            for first in range(0, count, part)
        ]
        for receipts in await asyncio.gather(*sending):
            for index, partition, offset, tries in receipts:
                self.sent(topic).add(set_name, index, partition, offset, tries)
        await self.driver.call(client, "close")

    async def our_send(self, topic: str, set_name: str, count: int, *, masters: str = "") -> None:
        """Send a set with our producer and keep the receipts."""
        async with connected(masters or self.column.masters) as tube, tube.producer(topic) as producer:
            futures = []
            for index in range(count):
                one = make(set_name, index)
                await producer.room()
                futures.append(
                    producer.submit(one.body, attrs=one.attributes, msg_type=one.msg_type, msg_time=one.msg_time)
                )
            for index, receipt in enumerate(await asyncio.gather(*futures)):
                if receipt.offset is None:
                    raise CellError(f"the receipt of message {index} tells no offset")
                self.sent(topic).add(set_name, index, str(receipt.partition), receipt.offset)

    # --- reading --------------------------------------------------------------------------------------------

    async def java_read(
        self, name: str, filters: Mapping[str, list[str]], *, push: bool = False, **bound: Any
    ) -> JavaReader:
        """A consumer of the official client, from the first message on."""
        reader = JavaReader(self, name, Received())
        await reader.start(filters, push=push, **bound)
        return reader

    async def check(
        self,
        got: Received,
        filters: Mapping[str, list[str]],
        *,
        starts: dict[str, int] | None = None,
        may_repeat: bool = False,
    ) -> int:
        """Wait until all has come, and compare it with what was sent; returns how many messages came.

        Raises:
            CellError: something is missing, strange, changed, out of order or there twice.
        """
        order: dict[str, list[tuple[str, int]]] = {}
        doubtful: set[tuple[str, int]] = set()
        for topic, items in filters.items():
            order |= self.sent(topic).order(frozenset(items), starts)
            doubtful |= self.sent(topic).doubtful
        wanted = {index for partition in order.values() for index in partition}
        await self._until_all(wanted, got)
        await asyncio.sleep(SETTLE_S)  # what comes twice comes behind, and that nothing comes has no event
        faults = compare(order, got, doubtful=doubtful, may_repeat=may_repeat)
        if faults:
            told = [
                f"{client} was told {list(codes)}"
                for client, codes in self.driver.codes.items()
                if client.startswith(f"{self.column.prefix}-")
            ]
            raise CellError("\n".join([*faults, *told]))
        return len(wanted)

    async def _until_all(self, wanted: set[tuple[str, int]], got: Received) -> None:
        """Wait until all has come, or nothing new for READ_TIMEOUT_S: a slow machine is no fault."""
        count, at_s = 0, time.monotonic()
        while not (len(got.seen) >= len(wanted) and wanted <= got.seen):
            if len(got.seen) != count:
                count, at_s = len(got.seen), time.monotonic()
            elif time.monotonic() - at_s > READ_TIMEOUT_S:
                return
            await asyncio.sleep(0.05)  # between two looks at whether anything comes


@dataclass
class JavaReader:
    """An official consumer that reads and confirms by itself."""

    bench: Bench
    name: str
    got: Received
    driver: Driver | None = None
    """The JVM it lives in, when that is one of its own."""
    masters: str = ""
    group: str = ""
    closed: bool = False

    async def start(self, filters: Mapping[str, list[str]], *, push: bool, group: str = "", **bound: Any) -> None:
        """Subscribe."""
        driver, column = self._jvm, self.bench.column
        client = self.client
        self.group = column.group(group or self.name)
        driver.on_batch(client, self._on_batch)
        self.bench.closing.append(self.close)
        await driver.call(
            client, "consumer", push=push, masters=self.masters or column.masters, group=self.group,
            topics=filters, position=-1, **bound,
        )  # fmt: skip

    @property
    def first_s(self) -> float:
        """How long the first message took."""
        return self._jvm.first_s[self.client]

    @property
    def _jvm(self) -> Driver:
        return self.driver or self.bench.driver

    @property
    def client(self) -> str:
        """Its name in the driver."""
        return f"{self.bench.column.prefix}-{self.name}"

    def _on_batch(self, partition: str, messages: list[Any]) -> None:
        self.got.add(self.name, partition, messages)

    async def partitions(self) -> set[str]:
        """The partitions that it holds."""
        return set(await self._jvm.call(self.client, "partitions"))

    async def close(self) -> None:
        """Leave with a goodbye."""
        if self.closed:
            return
        self.closed = True
        await self._jvm.call(self.client, "close")


class OurReader:
    """Our consumer, reading and confirming."""

    def __init__(self, bench: Bench, name: str, got: Received, *, group: str = "", masters: str = "") -> None:
        self.bench = bench
        self.name = name
        self.got = got
        self.group = bench.column.group(group or name)
        self.masters = masters or bench.column.masters
        self.unconfirmed = 0
        self._tube: Tube | None = None
        self._consumer: Any = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self, filters: Mapping[str, list[str]], **more: Any) -> OurReader:
        """Join the group and begin to read."""
        self._tube = await opened(self.masters)
        self.bench.closing.append(self.close)
        for tries_left in reversed(range(CONNECT_TRIES)):  # it connects to each of its Masters, as `opened` does
            self._consumer = self._tube.consumer(
                self.group,
                *filters,
                start=Start.EARLIEST,
                filters={topic: items for topic, items in filters.items() if items},
                **more,
            )
            try:
                await self._consumer.__aenter__()
                break
            except UnreachableError:
                if not tries_left:
                    raise
        self._reading = asyncio.create_task(self._read())
        return self

    async def _read(self) -> None:
        async for batch in self._consumer.batches():
            take(self.got, self.name, batch)
            try:
                await batch.confirm()
            except (StaleBatchError, TransportError, UnavailableError):  # a Broker that stops says so, too
                self.unconfirmed += 1

    async def partitions(self) -> set[str]:
        """The partitions that it holds. A failure of the reading is raised."""
        assert self._reading is not None
        if self._reading.done():
            self._reading.result()
        return {str(partition) for partition in self._consumer.assignment}

    async def close(self) -> None:
        """Leave with a goodbye. A failure of the reading is raised."""
        tube, self._tube = self._tube, None
        if tube is None:
            return
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        await tube.close()
        if self._reading is not None and not self._reading.cancelled():
            self._reading.result()


def take(got: Received, member: str, batch: Batch) -> None:
    """Enter a batch of ours into the books."""
    got.add(member, str(batch.partition), list(map(seen, batch)))
