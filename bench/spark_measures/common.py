"""What the measures of Spark share: the same rows on both sides, and Spark as a program of its own for every run.

The invariant: both sides read the same number of messages of the same sizes from as many partitions, with the same
Spark, the same settings and the same query.
"""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any

from bench.harness.decisions import Row, at_least, median
from bench.harness.processes import RunError, client, ours
from bench.measures.common import KIB, cores, notes, rate, runs
from tests.interop.fetch import FetchError
from tests.spark.artifacts import jars

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.harness.bench import Bench, Reading

ROWS, QUICK_ROWS = 2_000_000, 300_000
PARTITIONS = 4
SPARK_LIMIT_S = 300.0
FILL_LIMIT_S = 600.0

Side = "Callable[[], Awaitable[dict[str, Any]]]"


def rows_of(bench: Bench) -> int:
    """How many messages the topics of this run have."""
    return QUICK_ROWS if bench.options.quick else ROWS


async def spark(bench: Bench, spec: dict[str, Any], *, within_s: float = SPARK_LIMIT_S) -> dict[str, Any]:
    """Run one query in a Spark of its own."""
    home = bench.home / bench.fresh("spark")
    home.mkdir()
    try:
        return await client(ours("spark_read"), {"home": str(home), **spec}, within_s=within_s)
    finally:
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


def kafka_jars() -> str:
    """Spark's own source, as `spark.jars` wants it.

    Raises:
        RunError: it could not be fetched.
    """
    try:
        return ",".join(map(str, jars("kafka")))
    except FetchError as error:
        raise RunError(str(error)) from error


async def our_topic(bench: Bench) -> dict[str, Any]:
    """The filled topic of our side, as the source's options; filled by the first measure that asks."""
    cluster = await bench.ours()
    if "spark ours" not in bench.known:
        topic = bench.fresh("rows")
        bench.progress("filling our topic")
        await cluster.create([topic], partitions=PARTITIONS)
        spec = {"master": cluster.master, "topic": topic, "size_bytes": KIB, "messages": rows_of(bench)}
        await client(ours("ours_rows"), spec, within_s=FILL_LIMIT_S)
        bench.known["spark ours"] = topic
    return {"master": cluster.master, "topic": bench.known["spark ours"]}


async def kafka_topic(bench: Bench) -> dict[str, Any]:
    """Kafka's, likewise."""
    kafka = await bench.kafka()
    if "spark kafka" not in bench.known:
        topic = bench.fresh("rows")
        bench.progress("filling Kafka's topic")
        await kafka.create([topic], partitions=PARTITIONS)
        spec = {"topic": topic, "size_bytes": KIB, "messages": rows_of(bench)}
        await kafka.client("confluent_rows", spec, within_s=FILL_LIMIT_S)
        bench.known["spark kafka"] = topic
    return {"kafka.bootstrap.servers": kafka.server, "subscribe": bench.known["spark kafka"]}


async def sides(bench: Bench, do: str) -> dict[str, Callable[[], Awaitable[dict[str, Any]]]]:
    """The same query over our topic and over Kafka's."""
    our_options, kafka_options = await our_topic(bench), await kafka_topic(bench)
    cluster, kafka = await bench.ours(), await bench.kafka()
    rows = rows_of(bench)
    packages = kafka_jars()
    return {
        "ours": lambda: spark(
            bench, {"do": do, "format": "tubemq", "options": our_options, "rows": rows, "pids": cluster.pids}
        ),
        "kafka": lambda: spark(
            bench,
            {"do": do, "format": "kafka", "options": kafka_options, "rows": rows, "pids": {"broker": kafka.pid},
             "jars": packages},
        ),
    }  # fmt: skip


class Throughput:
    """One query over all messages: rows a second from its start to its end, ours beside Spark's Kafka source."""

    limit_s = 1800.0

    def __init__(self, name: str, do: str, title: str, times: float | None) -> None:
        self.name, self._do, self.title, self._times = name, do, title, times

    async def run(self, bench: Bench) -> list[Row]:
        """One row."""
        found: dict[str, Reading] = await bench.take(await sides(bench, self._do))
        count = rows_of(bench)
        return [
            Row(
                self.name,
                f"{count:,} x 1 KiB {self.title}: ours : Spark's Kafka source",
                "rows/s",
                rate(found["ours"]),
                rate(found["kafka"]),
                None if self._times is None else at_least(self._times),
                notes(cores(found), first_rows(found)),
                runs(found),
            )
        ]


def first_rows(found: dict[str, Reading]) -> str:
    """How long a session took to start, beside what is measured."""
    said = [f"{side} {median(reading.of('session_s')) or 0:.1f} s" for side, reading in found.items()]
    return "session started in " + ", ".join(said)
