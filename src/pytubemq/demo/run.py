"""The demo's course: cluster, topic, flights in, first message out, Spark, proof.

The invariants: everything that was started is stopped, whatever happens, and a temporary directory is gone; every kill
of the Broker that was planned happens, at a count of rows that is reached before the work is done, and the demo fails
if the Broker does not start again.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytubemq
from pytubemq.demo.data import messages
from pytubemq.demo.produce import Produced, produce
from pytubemq.demo.report import Measured
from pytubemq.demo.spark_job import SparkDone, check_installed, run_pipeline
from pytubemq.errors import ConfigError, TubeError
from pytubemq.model.offset import messages_between
from pytubemq.server.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from pytubemq.demo.data import FlightMessage
    from pytubemq.demo.report import Bars

PARTITIONS: Final = 4
_BATCHES: Final = 4
"""Micro-batches of the Spark run: several, so that limits and restarts are real; few, as each has its price."""
_FIRST_MESSAGE_LIMIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the demo."""

    rows: int
    chaos: bool = False
    data: Path | None = None


class Chaos:
    """SIGKILL for the Broker at chosen counts of rows."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.kills = 0
        self._cluster = cluster

    @contextlib.asynccontextmanager
    async def during(self, thresholds: Sequence[int]) -> AsyncIterator[Callable[[int], None]]:
        """Kill the Broker during a block of work, which calls the yielded function with its count of rows."""
        reached = [asyncio.Event() for _ in thresholds]

        def report_rows(rows: int) -> None:
            for threshold, event in zip(thresholds, reached, strict=True):
                if rows >= threshold:
                    event.set()

        async with asyncio.TaskGroup() as group:
            killer = group.create_task(self._kill_at(reached))
            yield report_rows
            if not all(event.is_set() for event in reached):
                killer.cancel()

    async def _kill_at(self, reached: Sequence[asyncio.Event]) -> None:
        for event in reached:
            await event.wait()
            await self._cluster.kill_broker()
            self.kills += 1
            await self._cluster.restart_broker()


class Demo:
    """One run on one cluster. Use `async with` around it; the cluster is up until the block ends."""

    def __init__(self, options: DemoOptions, bars: Bars) -> None:
        self.options = options
        self._bars = bars
        self._stack = contextlib.AsyncExitStack()
        self._begun_s = time.monotonic()

    async def __aenter__(self) -> Demo:
        check_installed()
        async with contextlib.AsyncExitStack() as stack:
            self.directory = stack.enter_context(_directory(self.options.data))
            self.cluster = await stack.enter_async_context(
                EmbeddedCluster(data_dir=self.directory / "cluster", broker_in_child=self.options.chaos)
            )
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def run(self) -> Measured:
        """Run all stages, in order, and return the measurements."""
        flights = await asyncio.to_thread(lambda: list(messages(self.options.rows)))
        topic, work = await self._new_topic()
        chaos = Chaos(self.cluster)
        produced = await self._produce(topic, flights, chaos)
        first_message_s = await self._first_message(topic)
        stored = await self._stored(topic)
        spark = await self._pipeline(topic, work, stored, chaos)
        return await self._verify(produced, first_message_s, stored, spark, chaos)

    async def _new_topic(self) -> tuple[str, Path]:
        """Return a topic of its own for this run, also in a directory where others ran before, and its directory."""
        number = 1
        while (self.directory / f"run-{number}").exists():
            number += 1
        topic, work = f"flights_{number}", self.directory / f"run-{number}"
        await asyncio.to_thread(work.mkdir, parents=True)
        await self.cluster.create_topic(topic, partitions=PARTITIONS)
        return topic, work

    async def _produce(self, topic: str, flights: list[FlightMessage], chaos: Chaos) -> Produced:
        total = len(flights)
        bar = self._bars.add("produce", total)
        async with contextlib.AsyncExitStack() as stack:
            thresholds = [total // 3, total * 2 // 3] if self.options.chaos else []
            report_rows = await stack.enter_async_context(chaos.during(thresholds))

            def on_progress(rows: int) -> None:
                bar.show(rows)
                report_rows(rows)

            tube = await stack.enter_async_context(pytubemq.connect(self.cluster.master))
            produced = await produce(tube, topic, flights, on_progress)
        bar.note(f"{produced.rows / produced.seconds:,.0f} messages/s")
        return produced

    async def _first_message(self, topic: str) -> float:
        """Return the time in which a new group gets its first message: connect, register, assignment, fetch."""
        begun_s = time.monotonic()
        async with (
            asyncio.timeout(_FIRST_MESSAGE_LIMIT_S),
            pytubemq.connect(self.cluster.master) as tube,
            tube.consumer(f"demo-{topic}", topic, start=pytubemq.Start.EARLIEST) as consumer,
        ):
            async for batch in consumer.batches():
                if batch.messages:
                    return time.monotonic() - begun_s
        raise TubeError(f"a new consumer of {topic} got no message")

    async def _stored(self, topic: str) -> int:
        """Return the number of messages in the topic: the produced ones, and duplicates."""
        async with pytubemq.connect(self.cluster.master) as tube:
            ends = await tube.offsets(await tube.partitions(topic))
        return sum(messages_between(first, last) for first, last in ends.values())

    async def _pipeline(self, topic: str, work: Path, stored: int, chaos: Chaos) -> SparkDone:
        bar = self._bars.add("spark", stored)
        async with chaos.during([1] if self.options.chaos else []) as report_rows:

            def on_batch(rows: int) -> None:
                bar.show(rows)
                report_rows(rows)

            done = await run_pipeline(
                master=self.cluster.master,
                topic=topic,
                directory=work,
                rows_per_trigger=max(1, -(-stored // _BATCHES)),
                report=page_path(self.options.data, work),
                on_batch=on_batch,
            )
        bar.note(f"{done.rows_read / done.query_s:,.0f} rows/s, {done.batches} batches")
        return done

    async def _verify(
        self, produced: Produced, first_message_s: float, stored: int, spark: SparkDone, chaos: Chaos
    ) -> Measured:
        from pytubemq.demo.data import source_table
        from pytubemq.demo.verify import compare, read_written

        bar = self._bars.add("verify", produced.rows)
        verdict = await asyncio.to_thread(lambda: compare(source_table(self.options.rows), read_written(spark.table)))
        bar.show(verdict.rows)
        bar.note(f"{len(verdict.mismatches)} mismatches, {verdict.duplicates} duplicates")
        return Measured(
            rows_produced=produced.rows,
            produce_msgs_per_s=produced.rows / produced.seconds,
            first_message_s=first_message_s,
            spark_rows_per_s=verdict.rows / spark.query_s,
            spark_start_s=spark.session_s,
            batches=spark.batches,
            total_s=time.monotonic() - self._begun_s,
            repeats=stored - produced.rows,
            kills=chaos.kills if self.options.chaos else None,
            verdict=verdict,
            report=spark.report,
        )


def page_path(data: Path | None, work: Path) -> Path:
    """Return the path of a run's page: beside its table, or in a new directory where the table is temporary.

    That directory is the user's own, so that no page replaces that of another user.
    """
    return (work if data is not None else Path(tempfile.mkdtemp(prefix="pytubemq-demo-report-"))) / "report.html"


@contextlib.contextmanager
def _directory(data: Path | None) -> Iterator[Path]:
    if data is None:
        with tempfile.TemporaryDirectory(prefix="pytubemq-demo-", ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the data directory {data} cannot be created: {error.strerror}", hint="name another: --data DIR"
        ) from error
    yield data.resolve()
