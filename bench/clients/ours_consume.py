"""Our consumer at work: reads `messages` messages of one topic from the earliest on, looks at every body, confirms.

Confirms run beside the reading, as the peers' commits do; all of them are waited for before the end counts. The first
tenth warms up and is not measured.
"""

import asyncio
import time

import pytubemq
from bench.clients.window import Result, Spec, Window, report, spec
from pytubemq.server.run import run_loop

STALL_S = 30.0
MOST_CONFIRMS = 10
"""Under way at a time: one for each partition."""


async def main(given: Spec) -> Result:
    """Read as a new group."""
    wanted, skip = given["messages"], given["messages"] // 10
    got = size = 0
    window = None
    asked_s = time.perf_counter()
    async with (
        pytubemq.connect(given["master"]) as tube,
        tube.consumer(given["group"], given["topic"], start=pytubemq.Start.EARLIEST) as consumer,
    ):
        first_s = 0.0
        confirms: set[asyncio.Task[None]] = set()
        async for batch in consumer.batches(max_messages=5_000, idle_timeout_s=STALL_S):
            first_s = first_s or time.perf_counter() - asked_s
            for message in batch:
                size += len(message.body)
            got += len(batch)
            confirms.add(asyncio.create_task(batch.confirm()))
            if len(confirms) >= MOST_CONFIRMS:
                ended, confirms = await asyncio.wait(confirms, return_when=asyncio.FIRST_COMPLETED)
                for confirm in ended:
                    confirm.result()
            if window is None and got >= skip:
                window = Window(given.get("pids"))
                window.open(got)
            elif got >= wanted:
                break
        await asyncio.gather(*confirms)
        if got < wanted or window is None:
            raise SystemExit(f"only {got} of {wanted} messages came")
        return {**window.close(got), "bytes": size, "first_s": round(first_s, 3)}


if __name__ == "__main__":
    report(run_loop(main(spec())))
