"""One side of `bench.pairs`: a cluster of the checkout it is run in, and our clients, asked for one reading a line.

It is given to the Python of each side as a file, so that the same program drives checkouts that do not have it; it uses
only what `bench/harness` and `bench/clients` have had from the start. A line on standard input names a reading; a line
of JSON on standard output is what the client printed. The end of the input ends the cluster.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from bench.harness.bench import Bench, Options
from bench.measures.common import KIB, our_producer
from pytubemq.server.run import run_loop

MESSAGES, QUICK_MESSAGES = 600_000, 200_000
"""Messages that a consumer reads."""

Reading = Callable[[], Awaitable[dict[str, Any]]]


async def readings(bench: Bench) -> dict[str, Reading]:
    """What this side can be asked for, by name; its topic for the consumer is filled."""
    cluster = await bench.ours()
    topic, messages = bench.fresh("consume"), QUICK_MESSAGES if bench.options.quick else MESSAGES
    await cluster.create([topic])
    await bench.our_client("ours_fill", cluster, {"topics": [topic], "size_bytes": KIB, "messages": messages})

    async def consume() -> dict[str, Any]:
        spec = {"topic": topic, "group": bench.fresh("group"), "messages": messages}
        return await bench.our_client("ours_consume", cluster, spec)

    return {
        "single": our_producer(bench, cluster, "single", KIB),
        "packs-1k submit_many": our_producer(bench, cluster, "many", KIB),
        "packs-1k submit": our_producer(bench, cluster, "one", KIB),
        "packs-100 submit_many": our_producer(bench, cluster, "many", 100),
        "packs-100 submit": our_producer(bench, cluster, "one", 100),
        "consume": consume,
    }


async def main() -> None:
    """Answer until the input ends."""
    async with Bench(Options(quick="--quick" in sys.argv), lambda text: None) as bench:
        known = await readings(bench)
        print(json.dumps(sorted(known)), flush=True)
        while name := (await asyncio.to_thread(sys.stdin.readline)).strip():
            print(json.dumps(await known[name]()), flush=True)


if __name__ == "__main__":
    run_loop(main())
