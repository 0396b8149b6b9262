"""Puts one message into every partition of the given topics, and waits until all are acknowledged."""

import asyncio
import os

import pytubemq
from bench.clients.window import Result, Spec, report, spec
from pytubemq.server.run import run_loop

AT_A_TIME = 100
"""Topics with a producer at the same time."""


async def main(given: Spec) -> Result:
    """Every receipt is looked at."""
    body, sent = os.urandom(given["size_bytes"]), 0
    async with pytubemq.connect(given["master"]) as tube:

        async def touch(topic: str) -> int:
            async with tube.producer(topic) as producer:
                return len(await asyncio.gather(*(producer.send(body, partition=one) for one in producer.partitions)))

        for first in range(0, len(given["topics"]), AT_A_TIME):
            sent += sum(await asyncio.gather(*map(touch, given["topics"][first : first + AT_A_TIME])))
    return {"messages": sent}


if __name__ == "__main__":
    report(run_loop(main(spec())))
