"""A producer and a consumer at a steady rate, beside a client that sends the Broker nothing but bad requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

from bench.harness.decisions import Row, at_least, median
from bench.harness.processes import RunError, ours, started
from bench.measures.common import KIB, notes, rate, runs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.harness.bench import Bench
    from bench.harness.cluster import Ours

RATE = 10_000
PARTITIONS = 4
LEFT = 0.95
SEED = 20260131
WAIT_S = 60.0


class Hostile:
    """What the consumer has received when the producer's time is over, alone and beside the hostile client."""

    name = "hostile"
    title = "beside a hostile client"
    limit_s = 400.0

    async def run(self, bench: Bench) -> list[Row]:
        """The rate that is left, and the latency."""
        cases: list[float] = []
        async with bench.own() as cluster:
            topic = bench.fresh("hostile")
            await cluster.create([topic], partitions=PARTITIONS)

            async def alone() -> dict[str, Any]:
                spec = {
                    "topic": topic, "group": bench.fresh("group"), "rate": RATE, "size_bytes": KIB,
                    "warm_s": bench.options.warm_s, "measure_s": bench.options.measure_s,
                }  # fmt: skip
                return await bench.our_client("ours_latency", cluster, spec)

            async def beside() -> dict[str, Any]:
                async with _hostile(cluster, cases):
                    return await alone()

            found = await bench.take({"alone": alone, "beside": beside})
        late = {side: median(reading.of("latency_ms", "p99")) for side, reading in found.items()}
        return [
            Row(self.name, f"{RATE:,} msg/s of 1 KiB: beside it : alone", "msg/s", rate(found["beside"]),
                rate(found["alone"]), at_least(LEFT), notes(f"bad requests a run: {median(cases):,.0f}"), runs(found)),
            Row(self.name, "p99 from producing to consuming: beside it : alone", "ms", late["beside"], late["alone"]),
        ]  # fmt: skip


@contextlib.asynccontextmanager
async def _hostile(cluster: Ours, cases: list[float]) -> AsyncIterator[None]:
    """Run it meanwhile; count what it sent."""
    spec = {"address": cluster.broker_address, "seed": SEED}
    async with started([*ours("hostile"), json.dumps(spec)]) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        async with asyncio.timeout(WAIT_S):
            begun = await process.stdout.readline()
        if begun.strip() != b"begun":
            raise RunError("the hostile client did not begin")
        yield
        process.stdin.close()
        async with asyncio.timeout(WAIT_S):
            cases.append(float(json.loads(await process.stdout.readline())["cases"]))


MEASURE = Hostile()
