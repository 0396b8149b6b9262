"""Our consumer at work: reads `messages` messages of one topic from the earliest on, looks at every body, confirms.

The first tenth warms up and is not measured.
"""

import time

import pytubemq
from bench.clients.window import Window, report, spec
from pytubemq.server.run import run_loop

STALL_S = 30.0


async def main(given):
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
        async for batch in consumer.batches(max_messages=5_000, idle_timeout_s=STALL_S):
            first_s = first_s or time.perf_counter() - asked_s
            for message in batch:
                size += len(message.body)
            got += len(batch)
            await batch.confirm()
            if window is None and got >= skip:
                window = Window(given.get("pids"))
                window.open(got)
            elif got >= wanted:
                break
        if got < wanted or window is None:
            raise SystemExit(f"only {got} of {wanted} messages came")
        return {**window.close(got), "bytes": size, "first_s": round(first_s, 3)}


if __name__ == "__main__":
    report(run_loop(main(spec())))
