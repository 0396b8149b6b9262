"""From producing to holding: 1,000 messages a second of 1 KiB, producer and consumer in one process, 4 partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.harness.decisions import Row, at_most, median
from bench.measures.common import KIB, runs

if TYPE_CHECKING:
    from bench.harness.bench import Bench

RATE = 1_000
P50_MS, P99_MS = 2.0, 8.0
PARTITIONS = 4


class Latency:
    """Ours flushes each message to the device before it is seen; aiokafka's Broker flushes none."""

    name = "latency"
    title = "produce to consume"
    limit_s = 400.0

    async def run(self, bench: Bench) -> list[Row]:
        """Median and 99th percentile."""
        ours, kafka = await bench.ours(), await bench.kafka()
        topic = bench.fresh("latency")
        await ours.create([topic], partitions=PARTITIONS)
        await kafka.create([topic], partitions=PARTITIONS)

        def spec() -> dict[str, Any]:
            return {
                "topic": topic, "group": bench.fresh("group"), "rate": RATE, "size_bytes": KIB,
                "warm_s": bench.options.warm_s, "measure_s": 2 * bench.options.measure_s,
            }  # fmt: skip

        found = await bench.take({
            "ours": lambda: bench.our_client("ours_latency", ours, spec()),
            "aiokafka": lambda: kafka.client("aiokafka_latency", spec()),
        })  # fmt: skip
        late = {side: median(reading.of("late_ms")) for side, reading in found.items()}
        note = "latest send behind its time: " + ", ".join(f"{side} {value:.1f} ms" for side, value in late.items())
        rows = []
        for point, limit in (("p50", P50_MS), ("p99", P99_MS)):
            of = {side: median(reading.of("latency_ms", point)) for side, reading in found.items()}
            rows.append(
                Row(self.name, f"{RATE:,} msg/s, {point}: ours : aiokafka", "ms", of["ours"], of["aiokafka"],
                    at_most(limit), note if point == "p50" else "", runs(found, "latency_ms", point))
            )  # fmt: skip
        return rows


MEASURE = Latency()
