"""Resident memory of a Broker: with 10,000 idle partitions that hold something, and the most it had under full load."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from bench.harness.decisions import Row, at_most
from bench.harness.processes import rss_mib
from bench.measures.common import KIB, our_producer

if TYPE_CHECKING:
    from bench.harness.bench import Bench

TOPICS, PARTITIONS = 1_000, 10
IDLE_MIB, LOADED_MIB = 300.0, 600.0
QUIET_S = 3.0
READ = {True: 200_000, False: 1_000_000}


class Memory:
    """Full load: small packs, then large ones, then single messages, then a consumer beside a producer."""

    name = "memory"
    title = "memory of a Broker"
    limit_s = 600.0

    async def run(self, bench: Bench) -> list[Row]:
        """Idle and loaded."""
        async with bench.own() as ours:
            bench.progress(f"creating {TOPICS} topics")
            topics = [f"t{number}" for number in range(TOPICS)]
            await ours.create(topics, partitions=PARTITIONS, within_s=400)
            bench.progress("one message into every partition")
            touched = await bench.our_client("ours_touch", ours, {"topics": topics, "size_bytes": KIB})
            await ours.kill_broker()
            await ours.start_broker()
            await asyncio.sleep(QUIET_S)
            idle = rss_mib(ours.broker_pid)
        async with bench.own() as ours:
            empty = rss_mib(ours.broker_pid)
            for way, size_bytes in (("many", 100), ("many", KIB), ("one", KIB), ("single", KIB)):
                bench.progress(f"load: {way}, {size_bytes} B")
                await our_producer(bench, ours, way, size_bytes)()
            topic, messages = bench.fresh("read"), READ[bench.options.quick]
            await ours.create([topic])
            bench.progress("load: consuming beside producing")
            await bench.our_client("ours_fill", ours, {"topics": [topic], "size_bytes": KIB, "messages": messages})
            spec: dict[str, Any] = {"topic": topic, "group": "readers", "messages": messages}
            reading = bench.our_client("ours_consume", ours, spec)
            await asyncio.gather(our_producer(bench, ours, "many", KIB)(), reading)
            loaded = rss_mib(ours.broker_pid, peak=True)
        return [
            Row(self.name, f"{touched['messages']:,} idle partitions", "MiB", idle, None, at_most(IDLE_MIB),
                f"each has a message; a Broker without any topic has {empty:.0f} MiB"),
            Row(self.name, "the most under full load", "MiB", loaded, None, at_most(LOADED_MIB)),
        ]  # fmt: skip


MEASURE = Memory()
