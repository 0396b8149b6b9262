"""Reads the first batch of a topic as soon as its Broker gives it, and says at what time (`time.monotonic`) it came."""

import asyncio
import time

import pytubemq
from bench.clients.window import Result, Spec, report, spec
from pytubemq.errors import TubeError
from pytubemq.server.run import run_loop


async def main(given: Spec) -> Result:
    """Say `ready` once everything is known, then try until it works."""
    tube = pytubemq.connect(given["master"], request_timeout_s=2.0)
    async with tube:
        partition = (await tube.partitions(given["topic"]))[0]
        print("ready", flush=True)
        await asyncio.to_thread(input)
        deadline_s = time.monotonic() + given["timeout_s"]
        while time.monotonic() < deadline_s:
            try:
                async with tube.reader(partition, start=pytubemq.Start.EARLIEST) as reader:
                    async for batch in reader.batches(max_messages=100):
                        return {"at_s": time.monotonic(), "messages": len(batch)}
            except TubeError:
                await asyncio.sleep(0.01)
    raise SystemExit("nothing came")


if __name__ == "__main__":
    report(run_loop(main(spec())))
