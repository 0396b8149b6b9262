"""A topic in use: producers of both kinds that send on and on, and members that come and go.

The invariant: whatever happens meanwhile, every message with a receipt is in the books.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pytubemq.errors import TubeError
from tests.support.proc import DIE_WITH_US

from .bench import CellError, connected
from .message_set import make

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from .bench import Bench
    from .ledger import Received

PAUSE_S = 0.02
"""Between two messages of one producer."""
ENDLESS = 1_000_000
SHARE_TIMEOUT_S = 200.0


class Member(Protocol):
    """A consumer of a group."""

    async def partitions(self) -> set[str]:
        """What it holds."""
        ...


async def wait_for(what: str, condition: Callable[[], Awaitable[bool]], timeout_s: float = SHARE_TIMEOUT_S) -> float:
    """Wait until it is so; returns how long that took, in seconds.

    Raises:
        CellError: it was not so in time.
    """
    started_s = time.monotonic()
    while not await condition():
        if time.monotonic() - started_s > timeout_s:
            raise CellError(f"after {timeout_s:g} s still not: {what}")
        await asyncio.sleep(0.1)  # members are asked, they tell nothing by themselves
    return round(time.monotonic() - started_s, 1)


async def until_shared(members: Sequence[Member], count: int) -> float:
    """Wait until the members have `count` partitions among them, each at least one, none two of them the same."""
    held: list[set[str]] = []

    async def shared() -> bool:
        held[:] = [await member.partitions() for member in members]
        return all(held) and sum(map(len, held)) == count == len(set().union(*held))

    try:
        return await wait_for("shared", shared)
    except CellError as error:
        raise CellError(f"{error}; held: {[sorted(one) for one in held]}") from None


class Live:
    """Producers of both kinds on one topic."""

    def __init__(self, bench: Bench, topic: str) -> None:
        self.bench = bench
        self.topic = bench.column.topic(topic)
        self._sets = {kind: f"{self.topic}-{kind}" for kind in ("java", "ours")}
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._ours = 0

    async def start(self) -> Live:
        """Begin to send."""
        self.bench.closing.append(self.stop)
        client = self._sets["java"]
        await self.bench.driver.call(client, "producer", masters=self.bench.column.masters)
        await self.bench.driver.call(client, "publish", topics=[self.topic])
        self._tasks = [asyncio.create_task(self._send_java()), asyncio.create_task(self._send_ours())]
        return self

    async def sent(self) -> tuple[int, int]:
        """Messages that Java's producer and ours have receipts for."""
        java: int = await self.bench.driver.call(self._sets["java"], "sent")
        return java, self._ours

    async def go_on(self, count: int = 100) -> float:
        """Wait until each producer has sent so many more; how long that takes is no fault while both go on."""
        before = await self.sent()
        started_s = time.monotonic()
        last = before
        while not all(now - then >= count for now, then in zip(last, before, strict=True)):
            then = last

            async def more(then: tuple[int, int] = then) -> bool:
                nonlocal last
                self._raise()
                last = await self.sent()
                return last != then

            await wait_for(f"more messages (sent: {then}, at first {before})", more)
        return round(time.monotonic() - started_s, 1)

    async def stop(self) -> None:
        """Send no more; when this returns all receipts are in the books."""
        if self._stop.is_set():
            return
        self._stop.set()
        await self.bench.driver.call(self._sets["java"], "stop")
        await asyncio.gather(*self._tasks)
        await self.bench.driver.call(self._sets["java"], "close")

    def _raise(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def _send_java(self) -> None:
        receipts = await self.bench.driver.call(
            self._sets["java"], "send", within_s=ENDLESS, topic=self.topic, set=self._sets["java"], first=0,
            count=ENDLESS, sync=True, pause_ms=int(PAUSE_S * 1000), tries=ENDLESS,
        )  # fmt: skip
        for index, partition, offset, tries in receipts:
            self.bench.sent(self.topic).add(self._sets["java"], index, partition, offset, tries)

    async def _send_ours(self) -> None:
        async with connected(self.bench.column.masters) as tube, tube.producer(self.topic) as producer:
            for index in range(ENDLESS):
                if self._stop.is_set():
                    return
                tries = 1
                while True:
                    one = make(self._sets["ours"], index)
                    retried = producer.stats.retried
                    try:
                        receipt = await producer.send(
                            one.body, attrs=one.attributes, msg_type=one.msg_type, msg_time=one.msg_time
                        )
                        break
                    except TubeError as error:
                        if not error.retriable:
                            raise
                        tries += 1
                tries += producer.stats.retried - retried
                self.bench.sent(self.topic).add(
                    self._sets["ours"], index, str(receipt.partition), receipt.offset or 0, tries
                )
                self._ours = index + 1
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), PAUSE_S)


class KilledMember:
    """Our consumer in a process of its own."""

    def __init__(self, bench: Bench, name: str, group: str, topic: str, got: Received) -> None:
        self._bench, self._name, self._group, self._topic, self._got = bench, name, group, topic, got
        self._held: set[str] = set()
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process; it joins when it is up."""
        root = Path(__file__).parents[2]
        path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = await asyncio.create_subprocess_exec(
            *DIE_WITH_US, sys.executable, "-m", "tests.interop.member", self._bench.column.masters,
            self._bench.column.group(self._group), self._topic,
            stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}, cwd=root, limit=64 << 20,
        )  # fmt: skip
        self._reading = asyncio.create_task(self._read())
        self._bench.closing.append(self.kill)

    async def partitions(self) -> set[str]:
        """What it said last that it holds."""
        if self._process is not None and self._process.returncode is not None:
            raise CellError(f"{self._name} has ended with {self._process.returncode}")
        return self._held

    async def kill(self) -> None:
        """End it without any goodbye."""
        assert self._process is not None
        assert self._reading is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while (line := await self._process.stdout.readline()).endswith(b"\n"):
            found: dict[str, Any] = msgspec.json.decode(line)
            if found["event"] == "held":
                self._held = set(found["partitions"])
            else:
                self._got.add(self._name, found["partition"], found["messages"])
