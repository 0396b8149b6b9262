"""From sending to the end of the micro-batch that has the message: 1,000 messages a second, default trigger."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from bench.harness.decisions import Row, at_most, median
from bench.harness.processes import client, ours
from bench.measures.common import KIB, runs
from bench.spark_measures.common import PARTITIONS, kafka_jars, spark

if TYPE_CHECKING:
    from bench.harness.bench import Bench

RATE = 1_000
MOST_ABOVE_MS = 50.0
"""What our median may be above Kafka's."""
WARM_S, MEASURE_S = 20.0, 20.0
QUICK_WARM_S, QUICK_MEASURE_S = 10.0, 10.0
START_S = 120.0
"""For the session and its first batch."""


class Latency:
    """A producer, in a process of its own, and a query that takes each batch's rows to the driver."""

    name = "latency"
    title = "micro-batch latency"
    limit_s = 1500.0

    async def run(self, bench: Bench) -> list[Row]:
        """The median, which has a target, and the 99th percentile."""
        cluster, kafka = await bench.ours(), await bench.kafka()
        packages = kafka_jars()
        quick = bench.options.quick
        times = {
            "warm_s": QUICK_WARM_S if quick else WARM_S,
            "measure_s": QUICK_MEASURE_S if quick else MEASURE_S,
        }

        async def one(side: str) -> dict[str, Any]:
            topic = bench.fresh("latency")
            flag = bench.home / f"{topic}.end"
            paced: dict[str, Any] = {"topic": topic, "rate": RATE, "size_bytes": KIB, "until": str(flag)}
            query: dict[str, Any] = {"do": "latency", "rows": 0, **times}
            if side == "ours":
                await cluster.create([topic], partitions=PARTITIONS)
                query |= {"format": "tubemq", "options": {"master": cluster.master, "topic": topic}}
                sending = client(ours("ours_paced"), {"master": cluster.master, **paced}, within_s=START_S + 120)
            else:
                await kafka.create([topic], partitions=PARTITIONS)
                options = {"kafka.bootstrap.servers": kafka.server, "subscribe": topic}
                query |= {"format": "kafka", "options": options, "jars": packages}
                sending = kafka.client("confluent_paced", paced, within_s=START_S + 120)
            producer = asyncio.create_task(sending)
            try:
                found = await spark(bench, query, within_s=START_S + 2 * WARM_S + MEASURE_S)
            finally:
                flag.touch()
                await asyncio.wait([producer])
            return found | {"late_ms": producer.result()["late_ms"]}

        found = await bench.take({"ours": lambda: one("ours"), "kafka": lambda: one("kafka")})
        of = {side: median(reading.of("latency_ms", "p50")) for side, reading in found.items()}
        limit = None if of["kafka"] is None else at_most(of["kafka"] + MOST_ABOVE_MS)
        said = [
            f"{side} {median(reading.of('batches')) or 0:.0f} batches, "
            f"{median(reading.of('batch_ms', 'p50')) or 0:.0f} ms a batch, sends up to "
            f"{median(reading.of('late_ms')) or 0:.0f} ms behind their time"
            for side, reading in found.items()
        ]
        last = {side: median(reading.of("latency_ms", "p99")) for side, reading in found.items()}
        what = f"{RATE:,} msg/s"
        return [
            Row(self.name, f"{what}, p50: ours : Spark's Kafka source", "ms", of["ours"], of["kafka"], limit,
                "\n".join(said), runs(found, "latency_ms", "p50")),
            Row(self.name, f"{what}, p99: ours : Spark's Kafka source", "ms", last["ours"], last["kafka"], None, "",
                runs(found, "latency_ms", "p99")),
        ]  # fmt: skip


MEASURE = Latency()
