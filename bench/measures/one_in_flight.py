"""One message in flight, flushed before its answer: against what the device's own flush allows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bench.harness import device
from bench.harness.decisions import Row, at_least, figure, median
from bench.measures.common import KIB, kafka_producer, notes, runs

if TYPE_CHECKING:
    from bench.harness.bench import Bench

OF_DEVICE = 0.8


class OneInFlight:
    """The next message leaves when the one before has its receipt. Sends a second are one over the median latency."""

    name = "one-in-flight"
    title = "one message in flight"
    limit_s = 300.0

    async def run(self, bench: Bench) -> list[Row]:
        """The row against the device; the way without a flush and Kafka beside it."""
        ours = await bench.ours()
        async with bench.own({"broker.durability": "memory"}) as unflushed:

            async def of_device() -> dict[str, float]:
                return {"p50_ms": 1000 * await asyncio.to_thread(device.flush_p50_s, bench.home)}

            found = await bench.take({
                "disk": lambda: bench.our_produce(ours, way="sync", size_bytes=KIB),
                "memory": lambda: bench.our_produce(unflushed, way="sync", size_bytes=KIB),
                "kafka": await kafka_producer(bench, "sync", KIB),
                "device": of_device,
            })  # fmt: skip
        flush_ms = median(found.pop("device").of("p50_ms")) or 0.0
        p50_ms = {side: median(reading.of("latency_ms", "p50")) or 0.0 for side, reading in found.items()}
        said = ", ".join(f"{side} {figure(value)} ms" for side, value in p50_ms.items())
        trip = f"p50: {said}; a flush of 1 KiB alone {figure(flush_ms)} ms (memory is the round trip without any flush)"
        return [
            Row(self.name, "1 KiB, disk : the device's flushes", "msg/s", 1000 / p50_ms["disk"], 1000 / flush_ms,
                at_least(OF_DEVICE), notes(trip), runs(found, "latency_ms", "p50")),
            Row(self.name, "1 KiB, disk : confluent-kafka, no flush", "msg/s", 1000 / p50_ms["disk"],
                1000 / p50_ms["kafka"]),
            Row(self.name, "1 KiB, memory : confluent-kafka, no flush", "msg/s", 1000 / p50_ms["memory"],
                1000 / p50_ms["kafka"]),
        ]  # fmt: skip


MEASURE = OneInFlight()
