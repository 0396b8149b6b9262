"""Master and Broker in one process that may have 1,024 files open: crowds on every port keep nobody from sending."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import httpx
import pytest

from pytubemq import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytubemq.client.producer.producer import Producer

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]

FILES = 1024
PARTITIONS = 600
"""Log and index of each are more files than there are."""
CROWD = 300
"""Connections to each port."""
ANY = "127.0.0.1:0"
LIMITED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
from pytubemq.cli import main
main()
"""


@pytest.fixture
def roomy() -> Iterator[None]:
    """This process may have the crowd's connections open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * CROWD + 1000
    assert hard == resource.RLIM_INFINITY or hard >= wanted, "raise the hard limit of open files (ulimit -Hn)"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def where(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The addresses of a server with few files."""
    sets = {key: ANY for key in ("master.listen", "broker.listen", "http.listen", "broker.http_listen")}
    sets |= {"data": str(tmp_path), "broker.journal_segment_bytes": str(1 << 20)}
    arguments = [text for key, value in sets.items() for text in ("--set", f"{key}={value}")]
    with subprocess.Popen(
        [sys.executable, "-c", LIMITED, "server", "run", "all", *arguments], stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())
        server.terminate()


def crowd(stack: ExitStack, address: str) -> None:
    """Connections that begin a request and say no more."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    for _ in range(CROWD):
        one = stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
        one.sendall(b"GET /health HTTP/1.1\r\n" if address.startswith("http") else b"\xff")


async def figures(where: dict[str, str]) -> dict[str, float]:
    """The Broker's figures without labels."""
    async with httpx.AsyncClient(timeout=60) as http:
        text = (await http.get(where["broker_http"] + "/metrics")).text
    pairs = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


async def send_to_all(producer: Producer) -> None:
    """Ten messages to each partition, more in all than waits for the logs."""
    bodies = [bytes(2_000)] * 10
    await asyncio.gather(*(producer.send_many(bodies, partition=at) for at in range(PARTITIONS)))


@pytest.mark.usefixtures("roomy")
async def test_with_1024_files_crowds_on_every_port_keep_nobody_from_sending(where: dict[str, str]) -> None:
    async with connect(where["master"]) as tube:
        async with httpx.AsyncClient(base_url=where["http"], timeout=60) as http:
            made = await http.post("/api/v1/topics", json={"name": "wide", "partitions": PARTITIONS})
            assert made.is_success, made.text
        async with tube.producer("wide") as producer:
            async with asyncio.timeout(120):
                while (await figures(where))["pytubemq_broker_log_files_open"] < FILES // 3:
                    await send_to_all(producer)  # its logs take all the files that they may
            with ExitStack() as stack:
                for key in ("master", "broker", "http", "broker_http"):
                    crowd(stack, where[key])
                # asked behind the crowd, so answered when the crowd is in, or has made room
                assert (await figures(where))["pytubemq_broker_connections_made_room_total"] > 0
                for _ in range(3):
                    await send_to_all(producer)
        assert (await figures(where))["pytubemq_broker_journal_failures_total"] == 0
