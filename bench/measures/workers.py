"""Two Broker workers against one: the load of two producers on one topic; all share the machine's cores."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

from bench.harness.decisions import Row
from bench.harness.processes import RunError, client, ours, started
from bench.measures.common import KIB, MANY_CHUNK_BYTES, PACK_WINDOW, cores, failures, notes, rate, runs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from bench.harness.bench import Bench
    from bench.harness.cluster import Ours

PRODUCERS = 2
COUNTS = (1, 2)
START_TIMEOUT_S = 60.0


class Workers:
    """`pytubemq server run broker --workers N` beside a Master; every producer a process of its own."""

    name = "workers"
    title = "Broker workers"
    limit_s = 300.0

    async def run(self, bench: Bench) -> list[Row]:
        """Shown without a target: with two cores the clients have what the second worker would use."""
        found = await bench.take({f"{count} workers": _load(bench, count) for count in COUNTS})
        one, two = (rate(found[f"{count} workers"]) for count in COUNTS)
        note = notes(cores(found), failures(found))
        what = f"1 KiB, submit_many, {PRODUCERS} producers: 2 workers : 1"
        return [Row(self.name, what, "msg/s", two, one, None, note, runs(found))]


def _load(bench: Bench, count: int) -> Callable[[], Awaitable[dict[str, Any]]]:
    async def run() -> dict[str, Any]:
        async with bench.own(broker=False) as cluster, _workers(bench, cluster, count) as pids:
            await cluster.create(["t"])
            spec = {
                "master": cluster.master, "topics": ["t"], "way": "many", "size_bytes": KIB, "window": PACK_WINDOW,
                "chunk": MANY_CHUNK_BYTES // KIB, "warm_s": bench.options.warm_s,
                "measure_s": bench.options.measure_s, "pids": pids,
            }  # fmt: skip
            found = await asyncio.gather(*(client(ours("ours_produce"), spec) for _ in range(PRODUCERS)))
        return {
            "msgs_per_s": sum(one["msgs_per_s"] for one in found),
            "failed": sum(one["failed"] for one in found),
            "cores": {
                "client": sum(one["cores"]["client"] for one in found),
                "broker": sum(found[0]["cores"][name] for name in pids),
                "others": max(0.0, found[0]["cores"]["others"] - found[1]["cores"]["client"]),
            },
        }

    return run


@contextlib.asynccontextmanager
async def _workers(bench: Bench, cluster: Ours, count: int) -> AsyncIterator[dict[str, int]]:
    """So many workers, registered; their process numbers by name."""
    settings = {
        "data": str(bench.home / bench.fresh("workers")), "broker.masters": cluster.master,
        "broker.listen": "127.0.0.1:0", "broker.http_listen": "127.0.0.1:0", "log.level": "warning",
    }  # fmt: skip
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "pytubemq", "server", "run", "broker", "--workers", str(count), "--stop-on-eof"]
    async with started([*command, *flags]) as process:
        assert process.stdout is not None
        async with asyncio.timeout(START_TIMEOUT_S):
            line = await process.stdout.readline()
        if not line:
            raise RunError("the workers did not start: " + (await process.communicate())[1].decode()[-800:])
        yield {row["name"]: int(row["pid"]) for row in json.loads(line)["workers"]}


MEASURE = Workers()
