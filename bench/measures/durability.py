"""What flushing costs: the three levels of durability beside each other, 1 KiB."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from bench.harness.decisions import Row, at_least
from bench.measures.common import KIB, cores, failures, notes, our_producer, rate, runs

if TYPE_CHECKING:
    from bench.harness.bench import Bench
    from bench.harness.cluster import Ours

LEVELS = ("disk", "process", "memory")
OF_PROCESS = 0.7
WAYS = {"single": "single-message method, window 1,000", "many": "submit_many, window 20,000"}


class Durability:
    """A Broker per level, the same load on each in turn."""

    name = "durability"
    title = "durability levels"
    limit_s = 400.0

    async def run(self, bench: Bench) -> list[Row]:
        """Per way of sending: disk against process, and memory against process."""
        async with contextlib.AsyncExitStack() as stack:
            clusters: dict[str, Ours] = {}
            for level in LEVELS:
                clusters[level] = await stack.enter_async_context(bench.own({"broker.durability": level}))
            rows: list[Row] = []
            for way, said in WAYS.items():
                found = await bench.take({level: our_producer(bench, clusters[level], way, KIB) for level in LEVELS})
                rates = {level: rate(found[level]) for level in LEVELS}
                note = notes(cores(found), failures(found))
                rows += [
                    Row(self.name, f"{said}: disk : process", "msg/s", rates["disk"], rates["process"],
                        at_least(OF_PROCESS), note, runs(found)),
                    Row(self.name, f"{said}: memory : process", "msg/s", rates["memory"], rates["process"]),
                ]  # fmt: skip
        return rows


MEASURE = Durability()
