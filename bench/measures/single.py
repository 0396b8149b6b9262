"""Producing in the original's own way: every message a request, one connection, 1,000 messages under way, 1 KiB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.harness.decisions import Row, at_least
from bench.measures.common import KIB, cores, failures, java_producer, notes, our_producer, rate, runs

if TYPE_CHECKING:
    from bench.harness.bench import Bench

TIMES_JAVA = 2.0


class Single:
    """Our producer and Broker, flushing before each answer, beside the Java ones, which do not."""

    name = "single"
    title = "produce, single-message method"
    limit_s = 300.0

    async def run(self, bench: Bench) -> list[Row]:
        """One row."""
        ours = await bench.ours()
        sides = {"ours": our_producer(bench, ours, "single", KIB), "java": await java_producer(bench)}
        found = await bench.take(sides)
        bench.known["java_produce"] = found["java"]
        return [
            Row(
                self.name, "1 KiB, window 1,000: ours to ours : Java to Java", "msg/s",
                rate(found["ours"]), rate(found["java"]), at_least(TIMES_JAVA),
                notes(cores(found), failures(found)), runs(found),
            )
        ]  # fmt: skip


MEASURE = Single()
