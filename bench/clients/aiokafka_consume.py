"""aiokafka's consumer at work: as `ours_consume`. It commits by itself in the background, as it does by default."""

import asyncio
import time

from aiokafka import AIOKafkaConsumer

from bench.clients.window import Result, Spec, Window, report, spec

STALL_S = 30.0


async def main(given: Spec) -> Result:
    """Read as a new group."""
    wanted, skip = given["messages"], given["messages"] // 10
    got = size = 0
    window: Window | None = None
    asked_s = last_s = time.perf_counter()
    first_s = 0.0
    consumer = AIOKafkaConsumer(
        given["topic"], bootstrap_servers=given["server"], group_id=given["group"], auto_offset_reset="earliest"
    )
    await consumer.start()
    while got < wanted:
        batches = await consumer.getmany(timeout_ms=200, max_records=5_000)
        now_s = time.perf_counter()
        if not batches:
            if now_s - last_s > STALL_S:
                raise SystemExit(f"only {got} of {wanted} messages came")
            continue
        last_s = now_s
        first_s = first_s or now_s - asked_s
        for messages in batches.values():
            for message in messages:
                size += len(message.value)
            got += len(messages)
        if window is None and got >= skip:
            window = Window(given.get("pids"))
            window.open(got)
    assert window is not None, "the first tenth is less than all"
    found = window.close(got)
    await consumer.stop()
    return {**found, "bytes": size, "first_s": round(first_s, 3)}


if __name__ == "__main__":
    report(asyncio.run(main(spec())))
