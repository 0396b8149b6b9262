"""The published Java system: its Master, its Broker with the memory its own measurements had, its official client.

The invariant: all of it ends with the block. Topics are there before the Broker starts: a later one takes 41 s more.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from bench.harness.processes import RunError, client, run
from bench.peers.cache import cached, tool
from tests.interop.fetch import INSTALL, FetchError, fetch
from tests.interop.processes import JavaBroker, JavaMaster
from tests.interop.webapi import WebApi, WebApiError
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from tests.interop.fetch import Java

SOURCE = Path(__file__).parents[1] / "java" / "Bench.java"
HEAP = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g")
CLIENT_HEAP = ("-Xms1g", "-Xmx3g")
PARTITIONS = 10
START_TIMEOUT_S = 120.0
WRITABLE_TIMEOUT_S = 180.0
FILL_TIMEOUT_S = 300.0
GROUP_TIMEOUT_S = 120.0
"""For a new group to be given its partitions."""


class JavaSystem:
    """A Java Master, a Java Broker and these topics."""

    def __init__(self, home: Path, topics: Sequence[str]) -> None:
        self._home = home
        self._topics = tuple(topics)
        self._java: Java | None = None
        self._classes = Path()
        self._master: JavaMaster | None = None
        self._broker: JavaBroker | None = None

    async def __aenter__(self) -> JavaSystem:
        try:
            self._java = await asyncio.to_thread(fetch)
        except FetchError as error:
            raise RunError(str(error)) from error
        self._classes = await cached("bench-driver", [SOURCE], self._compile)
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End both."""
        for process in (self._broker, self._master):
            if process is not None:
                await process.kill()

    @property
    def broker_pid(self) -> int:
        """The Broker's process."""
        assert self._broker is not None
        assert self._broker._process is not None
        return self._broker._process.pid

    async def produce(
        self, topic: str, *, size_bytes: int, window: int, warm_s: float, measure_s: float
    ) -> dict[str, Any]:
        """The official producer at work."""
        arguments = [topic, size_bytes, window, int(warm_s * 1000), int(measure_s * 1000), self.broker_pid]
        return await self._client("produce", *arguments, within_s=warm_s + measure_s + 60)

    async def fill(self, topic: str, *, size_bytes: int, messages: int) -> None:
        """Have so many messages in a topic."""
        await self._client("fill", topic, size_bytes, messages, within_s=FILL_TIMEOUT_S)

    async def consume(self, topic: str, *, group: str, messages: int) -> dict[str, Any]:
        """The official pull consumer at work, as a new group from the first message on."""
        return await self._client("consume", topic, group, messages, self.broker_pid, within_s=GROUP_TIMEOUT_S + 60)

    async def _client(self, op: str, *arguments: object, within_s: float) -> dict[str, Any]:
        java, master = self._java, self._master
        assert java is not None
        assert master is not None
        command = [
            java.command, *CLIENT_HEAP, f"-Dlog4j.configurationFile={java.log_config}", "-Dinterop.level=error",
            "-cp", f"{self._classes}:{java.libraries}/*", "Bench", op, master.address, *map(str, arguments),
        ]  # fmt: skip
        return await client(command, {}, within_s=within_s)

    async def _compile(self, into: Path) -> None:
        assert self._java is not None
        javac = tool("javac", INSTALL)
        await run([javac, "-cp", f"{self._java.libraries}/*", "-d", str(into), str(SOURCE)], within_s=120)

    async def _start(self) -> None:
        java = self._java
        assert java is not None
        for name in ("java-master", "java-broker"):
            (self._home / name).mkdir(parents=True)
        master = self._master = JavaMaster(java, self._home / "java-master")
        await master.start()
        api = WebApi(master.web)
        await _until(lambda: api.query("admin_query_master_group_info"), START_TIMEOUT_S, master.log)
        port = free_port()
        await api.modify(
            "admin_add_broker_configure", brokerId=1, brokerIp="127.0.0.1", brokerPort=port, manageStatus="online"
        )
        names = ",".join(self._topics)
        await api.modify("admin_add_new_topic_record", brokerId=1, topicName=names, numPartitions=PARTITIONS)
        broker = self._broker = JavaBroker(
            java, self._home / "java-broker", broker_id=1, host="127.0.0.1", masters=master.address, port=port
        )
        broker.options = HEAP
        await broker.start()
        for topic in self._topics:
            await _until(lambda topic=topic: _writable(api, topic), WRITABLE_TIMEOUT_S, broker.log)


async def _writable(api: WebApi, topic: str) -> None:
    rows = await api.query("admin_query_topic_info", topicName=topic)
    if not rows or not rows[0].get("isSrvAcceptPublish"):
        raise WebApiError(f"{topic} takes no messages yet")


async def _until(ask: Any, within_s: float, log: Path) -> None:
    """Ask until it does not raise."""
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            await ask()
            return
        except (httpx.HTTPError, WebApiError) as error:
            if time.monotonic() > deadline_s:
                raise RunError(f"{error}; the log is {log}") from error
        await asyncio.sleep(0.2)
