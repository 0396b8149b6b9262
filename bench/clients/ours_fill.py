"""Puts `messages` messages into a topic as fast as our producer can, and waits until all are acknowledged.

With `single` every message has a request of its own.
"""

import asyncio
import os

import pytubemq
from bench.clients.window import Result, Spec, report, spec
from pytubemq.errors import BufferFullError
from pytubemq.server.run import run_loop

CHUNK = 500


async def main(given: Spec) -> Result:
    """Message by message; every receipt is looked at."""
    body = os.urandom(given["size_bytes"])
    async with (
        pytubemq.connect(given["master"]) as tube,
        tube.producer(given["topics"][0], batching=not given.get("single", False)) as producer,
    ):
        left: int = given["messages"]
        before: list[asyncio.Future[pytubemq.Receipt]] = []
        while left:
            chunk: list[asyncio.Future[pytubemq.Receipt]] = []
            for _ in range(min(CHUNK, left)):
                while True:
                    try:
                        chunk.append(producer.submit(body))
                        break
                    except BufferFullError:
                        await producer.room()
            left -= len(chunk)
            await asyncio.gather(*before)
            before = chunk
        await asyncio.gather(*before)
    return {"messages": given["messages"]}


if __name__ == "__main__":
    report(run_loop(main(spec())))
