"""Our producer and consumer in one process: `rate` messages a second, each timed from `submit` to the consumer."""

import asyncio
import os
import struct
import time
from collections.abc import Callable

import pytubemq
from bench.clients.window import Result, Spec, percentiles, report, spec
from pytubemq.server.run import run_loop

STAMP = struct.Struct("<q8s")


async def main(given: Spec) -> Result:
    """Warm up, measure; the latencies are those of messages submitted within the window."""
    run, filler = os.urandom(8), os.urandom(given["size_bytes"] - STAMP.size)
    latencies: list[float] = []
    late = [0.0]
    async with (
        pytubemq.connect(given["master"]) as tube,
        tube.producer(given["topic"]) as producer,
        tube.consumer(given["group"], given["topic"], start=pytubemq.Start.LATEST) as consumer,
    ):
        begin_ns = [1 << 62]

        confirms: set[asyncio.Task[None]] = set()

        async def read() -> None:
            async for batch in consumer.batches():
                now_ns = time.perf_counter_ns()
                for message in batch:
                    stamp_ns, of_run = STAMP.unpack_from(message.body)
                    if of_run == run and stamp_ns >= begin_ns[0]:
                        latencies.append((now_ns - stamp_ns) / 1e9)
                # beside the reading: every confirm waits for a flush, as no peer's automatic commit does
                confirms.add(confirm := asyncio.create_task(batch.confirm()))
                confirm.add_done_callback(confirms.discard)

        reading = asyncio.create_task(read())
        async with asyncio.timeout(30):
            while len(consumer.assignment) < len(producer.partitions):  # noqa: ASYNC110 - as a user would
                await asyncio.sleep(0.05)
        await pace(given, begin_ns, late, lambda: producer.submit(STAMP.pack(time.perf_counter_ns(), run) + filler))
        in_time = len(latencies)
        await producer.flush()
        await until_read(reading, latencies, int(given["rate"] * given["measure_s"] * 0.98))
        reading.cancel()
        await asyncio.wait({reading, *confirms})
    return {
        "latency_ms": percentiles(latencies),
        "messages": len(latencies),
        "msgs_per_s": in_time / given["measure_s"],
        "late_ms": round(late[0] * 1000, 2),
    }


async def pace(given: Spec, begin_ns: list[int], late: list[float], send: Callable[[], object]) -> None:
    """Call `send` at the given rate for warm_s and then measure_s; what is late is sent at once, not left out."""
    period_s = 1 / given["rate"]
    warm, total = int(given["rate"] * given["warm_s"]), int(given["rate"] * (given["warm_s"] + given["measure_s"]))
    start_s = time.perf_counter()
    for number in range(total):
        due_s = start_s + number * period_s
        wait_s = due_s - time.perf_counter()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        elif number >= warm:
            late[0] = max(late[0], -wait_s)
        if number == warm:
            begin_ns[0] = time.perf_counter_ns()
        send()


async def until_read(reading: asyncio.Task[None], latencies: list[float], wanted: int) -> None:
    """Wait until nearly all has come, at most ten seconds."""
    for _ in range(100):
        if len(latencies) >= wanted or reading.done():
            break
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.2)
    if reading.done():
        reading.result()


if __name__ == "__main__":
    report(run_loop(main(spec())))
