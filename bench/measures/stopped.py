"""A Broker that is stopped for a while (SIGSTOP) under load: from its SIGCONT until producer and consumer go on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from bench.harness.decisions import Row, at_most, median
from bench.harness.processes import RunError, ours, started
from bench.measures.common import KIB, SINGLE_WINDOW

if TYPE_CHECKING:
    from bench.harness.bench import Bench
    from bench.harness.cluster import Ours

STOPS_S = (5.0, 20.0)
"""Within a request's time-out of 10 s, and so long that two requests in a row run out of it."""
LIMIT_S = 2.0
TOPIC = "stopped"
TIMEOUT_S = 60.0


class Stopped:
    """Nothing is lost by a stop, so what counts is how soon work goes on."""

    name = "stopped"
    title = "a Broker stopped and continued"
    limit_s = 900.0

    async def run(self, bench: Bench) -> list[Row]:
        """Two rows for each length of the stop."""
        rows: list[Row] = []
        async with bench.own() as cluster:
            await cluster.create([TOPIC])
            for stop_s in STOPS_S:
                found = [await self._once(bench, cluster, stop_s) for _ in range(bench.options.runs)]
                for at, what in enumerate(("acknowledgement", "confirmed batch")):
                    taken = [one[at] for one in found]
                    text = f"{stop_s:g} s stopped, SIGCONT to the first {what}"
                    rows.append(Row(self.name, text, "s", median(taken), None, at_most(LIMIT_S), "", {"ours": taken}))
        return rows

    async def _once(self, bench: Bench, cluster: Ours, stop_s: float) -> tuple[float, float]:
        bench.progress(f"a stop of {stop_s:g} s")
        spec: dict[str, Any] = {
            "master": cluster.master, "topic": TOPIC, "timeout_s": TIMEOUT_S + stop_s,
            "window": SINGLE_WINDOW, "size_bytes": KIB,
        }  # fmt: skip
        pid = cluster.broker_pid
        async with started([*ours("ours_resume"), json.dumps(spec)]) as client:
            async with asyncio.timeout(TIMEOUT_S):
                await _line(client, "ready")
            os.kill(pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(stop_s / 2)
                assert client.stdin is not None
                client.stdin.write(b"watch\n")
                await _line(client, "watching")
                await asyncio.sleep(stop_s / 2)
            finally:
                os.kill(pid, signal.SIGCONT)
            continued_s = time.monotonic()
            found = json.loads(await _line(client))
        return max(0.0, found["acked_s"] - continued_s), max(0.0, found["confirmed_s"] - continued_s)


async def _line(client: asyncio.subprocess.Process, expected: str | None = None) -> str:
    assert client.stdout is not None
    text = (await client.stdout.readline()).decode().strip()
    if not text or (expected is not None and text != expected):
        raise RunError(f"the client said {text!r}" if text else "the client ended")
    return text


MEASURE = Stopped()
