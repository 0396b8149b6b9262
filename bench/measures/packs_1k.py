"""Producing with packs, 1 KiB: against the Java system, against Kafka, and against what the device can take."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bench.harness import device
from bench.harness.decisions import Row, at_least, median
from bench.measures.common import (
    KIB,
    cores,
    failures,
    java_producer,
    kafka_producer,
    notes,
    our_producer,
    rate,
    runs,
)

if TYPE_CHECKING:
    from bench.harness.bench import Bench

TIMES_JAVA = 4.0
OF_DEVICE = 0.8
WRITES_PER_MESSAGE = 2
"""The journal and the partition's log."""


class Packs1K:
    """`submit_many` and `submit`; the row against a peer counts the better one, of ours as of the peer's."""

    name = "packs-1k"
    title = "produce with packs, 1 KiB"
    limit_s = 600.0

    async def run(self, bench: Bench) -> list[Row]:
        """A row per peer, one for the device, and one per way."""
        ours = await bench.ours()
        sides = {
            "submit_many": our_producer(bench, ours, "many", KIB),
            "submit": our_producer(bench, ours, "one", KIB),
            "java": await java_producer(bench),
            "confluent produce_batch": await kafka_producer(bench, "many", KIB),
            "confluent produce": await kafka_producer(bench, "one", KIB),
        }
        found = await bench.take(sides)
        speeds = [await asyncio.to_thread(device.sequential_bytes_per_s, bench.home) for _ in range(bench.options.runs)]
        flushed = (median(speeds) or 0.0) / WRITES_PER_MESSAGE / KIB
        many, one = rate(found["submit_many"]), rate(found["submit"])
        best = max(many or 0.0, one or 0.0)
        batch, single = rate(found["confluent produce_batch"]), rate(found["confluent produce"])
        kafka = max(batch or 0.0, single or 0.0)
        note = notes(cores(found), failures(found))
        # Kafka's rate is asked for only as far as the device can take it: nothing of theirs is flushed.
        asked = min(1.0, OF_DEVICE * flushed / kafka) if kafka and flushed else 1.0
        of_device = (
            f"asked for: Kafka's rate, or {OF_DEVICE:.0%} of half of what the device writes when it flushes "
            f"({(median(speeds) or 0) / 2**20:,.0f} MiB/s beside this run), whichever is less"
        )
        return [
            Row(self.name, "1 KiB, the better way : Java to Java", "msg/s", best, rate(found["java"]),
                at_least(TIMES_JAVA), note, runs(found)),
            Row(self.name, "1 KiB, the better way : confluent-kafka, the better way", "msg/s", best, kafka,
                at_least(round(asked, 3)), of_device),
            Row(self.name, "1 KiB, submit_many : confluent-kafka produce_batch", "msg/s", many, batch),
            Row(self.name, "1 KiB, submit : confluent-kafka produce", "msg/s", one, single),
            Row(self.name, "1 KiB, the better way : half of the device's flushed rate", "msg/s", best, flushed, None,
                "", {"device MiB/s": [speed / 2**20 for speed in speeds]}),
        ]  # fmt: skip


MEASURE = Packs1K()
