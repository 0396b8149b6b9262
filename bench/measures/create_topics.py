"""Creating a thousand topics of ten partitions, one call after the other, and then all of them in one call."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING

from bench.harness.decisions import Row, at_least

if TYPE_CHECKING:
    from bench.harness.bench import Bench

TOPICS, QUICK_TOPICS = 1_000, 300
SAMPLE = 100
LAST_TO_FIRST = 0.5
"""Each topic is written and reported in full with each change, a few microseconds a topic that is there."""
ROUNDS = 3


class CreateTopics:
    """A fresh cluster for each round; what the last hundred cost is compared with the first hundred."""

    name = "create-topics"
    title = "creating topics"
    limit_s = 600.0

    async def run(self, bench: Bench) -> list[Row]:
        """The rate of the last hundred against that of the first; the rate of one call for all."""
        count = QUICK_TOPICS if bench.options.quick else TOPICS
        first: list[float] = []
        last: list[float] = []
        at_once: list[float] = []
        for number in range(1 if bench.options.quick else ROUNDS):
            bench.progress(f"creating {count} topics, round {number + 1}")
            async with bench.own() as ours:
                begun_s = time.monotonic()
                times_s = []
                for index in range(count):
                    await ours.create([f"t{index}"])
                    times_s.append(time.monotonic() - begun_s)
                first.append(SAMPLE / times_s[SAMPLE - 1])
                last.append(SAMPLE / (times_s[-1] - times_s[-SAMPLE - 1]))
            async with bench.own() as ours:
                begun_s = time.monotonic()
                async with asyncio.timeout(self.limit_s):
                    await ours.create_at_once([f"t{index}" for index in range(count)])
                at_once.append(count / (time.monotonic() - begun_s))
        what = f"{count} x 10 partitions"
        return [
            Row(self.name, f"one by one, {what}: the last {SAMPLE} : the first {SAMPLE}", "topics/s",
                statistics.median(last), statistics.median(first), at_least(LAST_TO_FIRST), "",
                {"last": last, "first": first}),
            Row(self.name, f"in one call, {what}", "topics/s", statistics.median(at_once), None, None, "",
                {"ours": at_once}),
        ]  # fmt: skip


MEASURE = CreateTopics()
