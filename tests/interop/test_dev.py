"""`pytubemq dev` on the ports where Java programs look, and an official client at work there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from pytubemq.model.ids import Address
from pytubemq.net.free_ports import is_free
from tests.support.proc import DIE_WITH_US

from .driver import Driver
from .fetch import fetch
from .message_set import expected

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.anyio]

STANDARD = {"master": 8715, "broker": 8123, "http": 8080, "broker_http": 8081}
PORT = re.compile(r":(\d+)")
TIMEOUT_S = 120.0
COUNT = 1_000


async def test_java_programs_find_it_where_they_look(tmp_path: Path) -> None:
    free = {name for name, port in STANDARD.items() if is_free(Address("127.0.0.1", port))}
    java = await asyncio.to_thread(fetch)
    dev = await asyncio.create_subprocess_exec(
        *DIE_WITH_US, sys.executable, "-m", "pytubemq", "dev", "--ephemeral", "-o", "jsonl",
        cwd=tmp_path, env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert dev.stdout is not None
    driver = Driver(java, tmp_path / "driver.log")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            ready = json.loads(await dev.stdout.readline())
            used = {name: int(PORT.findall(ready[name])[-1]) for name in STANDARD}
            assert {name: used[name] for name in free} == {name: STANDARD[name] for name in free}
            await driver.start()
            await _produce_and_read(driver, ready["master"])
    finally:
        await driver.kill()
        dev.kill()
        await dev.wait()


async def _produce_and_read(driver: Driver, master: str) -> None:
    await driver.call("p", "producer", masters=master)
    await driver.call("p", "publish", topics=["demo"])
    receipts = await driver.call("p", "send", topic="demo", set="dev", first=0, count=COUNT, sync=True)
    assert len(receipts) == COUNT
    found: dict[int, str] = {}
    complete = asyncio.Event()

    def take(_: str, messages: list[list[object]]) -> None:
        for _set, index, digest in messages:
            found[int(str(index))] = str(digest)
        if len(found) == COUNT:
            complete.set()

    driver.on_batch("c", take)
    await driver.call("c", "consumer", push=False, masters=master, group="dev", topics={"demo": []}, position=-1)
    await complete.wait()
    assert found == {index: expected("dev", index)[0] for index in range(COUNT)}
    await driver.call("c", "close")
    await driver.call("p", "close")
