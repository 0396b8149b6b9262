"""A consumer of ours in a process of its own, to be killed: tells what it reads and holds, in the driver's words."""

from __future__ import annotations

import asyncio
import sys

import msgspec

from pytubemq import Start, connect

from .message_set import seen


def tell(**event: object) -> None:
    """One event, on a line."""
    sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
    sys.stdout.buffer.flush()


async def main(masters: str, group: str, topic: str) -> None:
    """Read and confirm until killed."""
    async with connect(masters) as tube, tube.consumer(group, topic, start=Start.EARLIEST) as consumer:

        async def tell_held() -> None:
            before: tuple[object, ...] | None = None
            while True:
                if consumer.assignment != before:
                    before = consumer.assignment
                    tell(event="held", partitions=list(map(str, before)))
                await asyncio.sleep(0.1)  # an assignment tells no event of its own

        telling = asyncio.create_task(tell_held())
        async for batch in consumer.batches():
            tell(event="batch", partition=str(batch.partition), messages=list(map(seen, batch)))
            await batch.confirm()
        telling.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
