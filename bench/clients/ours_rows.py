"""Puts `messages` different messages into a topic as fast as our producer can, and waits until all are acknowledged."""

import asyncio

import pytubemq
from bench.clients.bodies import Bodies
from bench.clients.window import Result, Spec, report, spec
from pytubemq.server.run import run_loop

CHUNK = 256


async def main(given: Spec) -> Result:
    """Every receipt is looked at."""
    bodies = Bodies(given["size_bytes"])
    async with pytubemq.connect(given["master"]) as tube, tube.producer(given["topic"]) as producer:
        left: int = given["messages"]
        before: asyncio.Task[pytubemq.Receipts] | None = None
        while left:
            many = min(CHUNK, left)
            after = asyncio.create_task(producer.send_many(bodies.take(many)))
            left -= many
            if before is not None:
                await before
            before = after
        if before is not None:
            await before
    return {"messages": given["messages"]}


if __name__ == "__main__":
    report(run_loop(main(spec())))
