"""What the measures share: how long to measure, the servers, the progress; servers start when first asked for.

The invariant: everything started here has ended, and its files are gone, when the block is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bench.harness import device
from bench.harness.cluster import Ours
from bench.harness.decisions import alternating
from bench.harness.processes import client, ours
from bench.peers.java import JavaSystem
from bench.peers.kafka import Kafka

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from types import TracebackType

    from bench.harness.decisions import Row

PRODUCE_TOPIC, CONSUME_TOPIC = "produce", "consume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How thorough a run is."""

    runs: int = 3
    quick: bool = False
    data: Path | None = None
    """Directory on the device to measure; None: the system's directory for temporary files."""

    @property
    def warm_s(self) -> float:
        """Seconds before measuring begins."""
        return 1.0 if self.quick else 2.0

    @property
    def jvm_warm_s(self) -> float:
        """Seconds of load that a server in a JVM gets before its first run counts, for its compiler."""
        return 5.0 if self.quick else 10.0

    @property
    def measure_s(self) -> float:
        """Seconds of measuring."""
        return 2.0 if self.quick else 5.0


class Measure(Protocol):
    """One file of `bench/measures`."""

    name: str
    """As given after --only."""
    title: str
    limit_s: float
    """The longest it may take in a full run."""

    async def run(self, bench: Bench) -> list[Row]:
        """Take it."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """What one side of a measure gave: one object a run, as its client printed it."""

    runs: tuple[dict[str, Any], ...]

    def of(self, *path: str) -> list[float]:
        """One figure of every run, as in `of("latency_ms", "p50")`."""
        found: list[float] = []
        for run in self.runs:
            value: Any = run
            for key in path:
                value = value[key]
            found.append(float(value))
        return found


class Bench:
    """The servers of a run and what is known about the machine."""

    def __init__(self, options: Options, progress: Callable[[str], None]) -> None:
        self.options = options
        self.progress = progress
        self._home = Path()
        self._stack = contextlib.AsyncExitStack()
        self._java: JavaSystem | None = None
        self._kafka: Kafka | None = None
        self._ours: Ours | None = None
        self._serial = 0
        self.known: dict[str, Any] = {}
        """Readings that more than one measure shows, kept by the first."""

    async def __aenter__(self) -> Bench:
        self._home = Path(tempfile.mkdtemp(prefix="pytubemq-bench-", dir=self.options.data))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._stack.aclose()
        finally:
            shutil.rmtree(self._home, ignore_errors=True)

    @property
    def home(self) -> Path:
        """The run's directory."""
        return self._home

    def fresh(self, what: str) -> str:
        """A name that was not used before in this run."""
        self._serial += 1
        return f"{what}_{self._serial}"

    # --- servers --------------------------------------------------------------------------------------------

    async def ours(self) -> Ours:
        """Our Master and Broker with their defaults, shared by the measures."""
        if self._ours is None:
            self.progress("starting pytubemq")
            self._ours = await self._stack.enter_async_context(Ours(self._home / "ours"))
        return self._ours

    @contextlib.asynccontextmanager
    async def own(self, settings: Mapping[str, object] | None = None, *, broker: bool = True) -> AsyncIterator[Ours]:
        """A Master, and unless told otherwise a Broker, of the caller's own; their files are removed at the end."""
        home = self._home / self.fresh("own")
        try:
            async with Ours(home, settings, broker=broker) as cluster:
                yield cluster
        finally:
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)

    async def java(self) -> JavaSystem:
        """The Java system with PRODUCE_TOPIC and CONSUME_TOPIC."""
        if self._java is None:
            self.progress("starting the Java system (its topics take 41 s)")
            topics = (PRODUCE_TOPIC, CONSUME_TOPIC)
            self._java = java = await self._stack.enter_async_context(JavaSystem(self._home / "java", topics))
            self.progress("warming up the Java system")
            warm_up_s = self.options.jvm_warm_s
            await java.produce(PRODUCE_TOPIC, size_bytes=1024, window=1_000, warm_s=warm_up_s, measure_s=0.1)
        return self._java

    async def kafka(self) -> Kafka:
        """A Kafka node, shared by the measures."""
        if self._kafka is None:
            self.progress("starting Kafka")
            self._kafka = kafka = await self._stack.enter_async_context(Kafka(self._home / "kafka"))
            self.progress("warming up Kafka")
            load = {"way": "one", "size_bytes": 1024, "warm_s": self.options.jvm_warm_s, "measure_s": 0.1}
            await self.kafka_produce(kafka, **load)
        return self._kafka

    @contextlib.asynccontextmanager
    async def own_kafka(self) -> AsyncIterator[Kafka]:
        """A Kafka node of the caller's own."""
        home = self._home / self.fresh("kafka")
        try:
            async with Kafka(home) as kafka:
                yield kafka
        finally:
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)

    # --- running --------------------------------------------------------------------------------------------

    async def take(self, sides: Mapping[str, Callable[[], Awaitable[dict[str, Any]]]]) -> dict[str, Reading]:
        """Run every side as often as was asked for, in turn; what each gave."""
        found: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
        for number, side in alternating(tuple(sides), self.options.runs):
            self.progress(f"{side}, run {number + 1} of {self.options.runs}")
            await asyncio.to_thread(device.settle)
            found[side].append(await sides[side]())
        return {side: Reading(tuple(runs)) for side, runs in found.items()}

    async def our_client(self, name: str, cluster: Ours, spec: dict[str, Any]) -> dict[str, Any]:
        """Run one of our client programs against a cluster of ours."""
        return await client(ours(name), {"master": cluster.master, "pids": cluster.pids, **spec})

    async def our_produce(self, cluster: Ours, **spec: Any) -> dict[str, Any]:
        """Our producer for the usual time, into a topic that is there for this alone unless `topics` names some."""
        times = {"warm_s": self.options.warm_s, "measure_s": self.options.measure_s}
        if "topics" in spec:
            return await self.our_client("ours_produce", cluster, times | spec)
        topic = self.fresh("produce")
        await cluster.create([topic])
        try:
            return await self.our_client("ours_produce", cluster, times | {"topics": [topic]} | spec)
        finally:
            await cluster.delete([topic])

    async def kafka_produce(self, kafka: Kafka, **spec: Any) -> dict[str, Any]:
        """confluent-kafka's producer, likewise."""
        times = {"warm_s": self.options.warm_s, "measure_s": self.options.measure_s}
        if "topics" in spec:
            return await kafka.client("confluent_produce", times | spec)
        topic = self.fresh("produce")
        await kafka.create([topic])
        try:
            return await kafka.client("confluent_produce", times | {"topics": [topic]} | spec)
        finally:
            await kafka.delete([topic])
