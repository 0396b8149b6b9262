"""aiokafka's producer and consumer in one process: as `ours_latency`. It sends without lingering, as by default."""

import asyncio
import os
import struct
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from bench.clients.window import Result, Spec, percentiles, report, spec

STAMP = struct.Struct("<q8s")


async def main(given: Spec) -> Result:
    """Warm up, measure; the latencies are those of messages sent within the window."""
    run, filler = os.urandom(8), os.urandom(given["size_bytes"] - STAMP.size)
    latencies: list[float] = []
    late, begin_ns = 0.0, 1 << 62
    producer = AIOKafkaProducer(bootstrap_servers=given["server"], acks="all")
    consumer = AIOKafkaConsumer(
        given["topic"], bootstrap_servers=given["server"], group_id=given["group"], auto_offset_reset="latest"
    )
    await producer.start()
    await consumer.start()

    async def read() -> None:
        while True:
            for messages in (await consumer.getmany(timeout_ms=1_000)).values():
                now_ns = time.perf_counter_ns()
                for message in messages:
                    stamp_ns, of_run = STAMP.unpack_from(message.value)
                    if of_run == run and stamp_ns >= begin_ns:
                        latencies.append((now_ns - stamp_ns) / 1e9)

    async with asyncio.timeout(60):
        while not consumer.assignment():  # noqa: ASYNC110 - it tells no event
            await asyncio.sleep(0.05)
        for partition in consumer.assignment():
            await consumer.position(partition)
    reading = asyncio.create_task(read())
    warm, total = int(given["rate"] * given["warm_s"]), int(given["rate"] * (given["warm_s"] + given["measure_s"]))
    start_s = time.perf_counter()
    for number in range(total):
        wait_s = start_s + number / given["rate"] - time.perf_counter()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        elif number >= warm:
            late = max(late, -wait_s)
        if number == warm:
            begin_ns = time.perf_counter_ns()
        await producer.send(given["topic"], STAMP.pack(time.perf_counter_ns(), run) + filler)
    await producer.flush()
    for _ in range(100):
        if len(latencies) >= (total - warm) * 0.98:
            break
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.2)
    reading.cancel()
    await asyncio.wait({reading})
    await consumer.stop()
    await producer.stop()
    return {"latency_ms": percentiles(latencies), "messages": len(latencies), "late_ms": round(late * 1000, 2)}


if __name__ == "__main__":
    report(asyncio.run(main(spec())))
