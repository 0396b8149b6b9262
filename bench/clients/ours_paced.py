"""Sends `rate` messages a second, each beginning with the time at which it was sent, until a file is there."""

import asyncio
import os
import struct
import time

import pytubemq
from bench.clients.window import Result, Spec, report, spec
from pytubemq.server.run import run_loop

STAMP = struct.Struct(">q")
LOOK_EVERY = 100


async def main(given: Spec) -> Result:
    """What is late is sent at once, not left out."""
    filler, period_s, late_s, number = os.urandom(given["size_bytes"] - STAMP.size), 1 / given["rate"], 0.0, 0
    async with pytubemq.connect(given["master"]) as tube, tube.producer(given["topic"]) as producer:
        start_s = time.perf_counter()
        while number % LOOK_EVERY or not os.path.exists(given["until"]):  # noqa: ASYNC240 - a look takes a microsecond
            wait_s = start_s + number * period_s - time.perf_counter()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            late_s = max(late_s, -wait_s)
            producer.submit(STAMP.pack(time.time_ns() // 1000) + filler)
            number += 1
        await producer.flush()
    return {"messages": number, "late_ms": round(late_s * 1000, 2)}


if __name__ == "__main__":
    report(run_loop(main(spec())))
