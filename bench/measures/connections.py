"""Throughput while 5,000 connections stand idle at the Broker, against none."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from bench.harness import processes
from bench.harness.decisions import Reach, Row, Target, at_least
from bench.harness.processes import RunError, rss_mib, started
from bench.measures.common import KIB, cores, failures, notes, our_producer, rate, runs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.harness.bench import Bench
    from bench.harness.cluster import Ours

CONNECTIONS = 5_000
LEFT = 0.8
OPEN_TIMEOUT_S = 60.0


class Connections:
    """The same load with and without them; afterwards every one still has to stand."""

    name = "connections"
    title = "5,000 idle connections"
    limit_s = 300.0

    async def run(self, bench: Bench) -> list[Row]:
        """The loss, and how many stood to the end."""
        standing: list[int] = []
        async with bench.own() as ours:
            before = rss_mib(ours.broker_pid)
            async with _idle(ours, standing):  # while it has no memory left over from a load
                grown = rss_mib(ours.broker_pid) - before
            load = our_producer(bench, ours, "one", KIB)

            async def beside_idle() -> dict[str, Any]:
                async with _idle(ours, standing):
                    found: dict[str, Any] = await load()
                    return found

            found = await bench.take({"none": load, "idle": beside_idle})
        cost = f"they cost {grown:.0f} MiB of the Broker's memory, {grown * KIB / CONNECTIONS:.1f} KiB each"
        return [
            Row(self.name, f"1 KiB, submit: beside {CONNECTIONS:,} idle : alone", "msg/s", rate(found["idle"]),
                rate(found["none"]), at_least(LEFT), notes(cost, cores(found), failures(found)), runs(found)),
            Row(self.name, "idle connections that stood to the end", "of 5,000", float(min(standing)), None,
                Target(Reach.OURS_AT_LEAST, CONNECTIONS)),
        ]  # fmt: skip


async def _accepted(broker_pid: int) -> None:
    """Wait until the Broker itself has taken them all: the system takes connections before it does."""
    async with asyncio.timeout(OPEN_TIMEOUT_S):
        while len(os.listdir(f"/proc/{broker_pid}/fd")) < CONNECTIONS:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def _idle(ours: Ours, standing: list[int]) -> AsyncIterator[None]:
    """Have them open; counts at the end."""
    spec = {"address": ours.broker_address, "connections": CONNECTIONS}
    async with started([*processes.ours("idle"), json.dumps(spec)]) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            opened = (await process.stdout.readline()).strip()
        if opened != str(CONNECTIONS).encode():
            raise RunError(f"only {opened.decode() or 'not all'} of {CONNECTIONS} connections could be opened")
        await _accepted(ours.broker_pid)
        yield
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            process.stdin.write(b"count\n")
            standing.append(int(json.loads(await process.stdout.readline())["standing"]))


MEASURE = Connections()
