"""Sends a Broker requests that are nearly right, and worse, as fast as it answers, until standard input ends."""

import asyncio
import contextlib
import sys

from bench.clients.window import Result, Spec, report, spec
from pytubemq.model.ids import Address
from pytubemq.testing.hostile.clients import HostileClient
from pytubemq.testing.hostile.values import Scene
from pytubemq.wire.rpc.methods import Service

CASES_A_ROUND = 50
AT_BROKER = frozenset({Service.BROKER_READ.value, Service.BROKER_WRITE.value})


async def main(given: Spec) -> Result:
    """Say that it has begun, go on until told to end, and count the cases and what was answered."""
    address = Address.parse(given["address"])
    hostile = HostileClient(address, given["seed"], AT_BROKER, Scene(broker=given["address"]))
    ending = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    await hostile.run(CASES_A_ROUND)
    print("begun", flush=True)
    while not ending.done():
        with contextlib.suppress(ConnectionError):
            await hostile.run(CASES_A_ROUND)
    return {"cases": hostile.cases, "answers": hostile.answers}


if __name__ == "__main__":
    report(asyncio.run(main(spec())))
