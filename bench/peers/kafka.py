"""One Kafka node, broker and controller in one process with its defaults; its Python clients in a place of their own.

The invariant: it ends with the block.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness.processes import RunError, client, run
from bench.peers.cache import cached, tool
from scripts.pip_settings import uv_environment
from tests.interop.fetch import INSTALL
from tests.support.ports import free_port
from tests.support.proc import DIE_WITH_US

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

FILES = Path(__file__).parents[1] / "kafka"
CLUSTER_ID = "pytubemqBenchmarkNode0"
LEAST_JARS = 60
HEAP = ("-Xms1g", "-Xmx1g")
START_TIMEOUT_S = 60.0
RESTART_TIMEOUT_S = 300.0
TOPICS_TIMEOUT_S = 240.0


class Kafka:
    """A node on ports of its own, with its data in `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._jars = Path()
        self._python = Path()
        self._port = free_port()
        self._process: asyncio.subprocess.Process | None = None
        self.server = f"127.0.0.1:{self._port}"

    async def __aenter__(self) -> Kafka:
        self._jars = await cached("kafka", [FILES / "pom.xml"], _download)
        venv = await cached("bench-venv", [FILES / "requirements.txt"], _install)
        self._python = venv / "venv" / "bin" / "python"
        self._home.mkdir(parents=True)
        (self._home / "server.properties").write_text(self._properties())
        try:
            command = self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", "server.properties")
            await run(command, within_s=60, cwd=self._home)
            await self.start(within_s=START_TIMEOUT_S)
        except BaseException:
            await self.kill()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()

    @property
    def pid(self) -> int:
        """The node's process."""
        assert self._process is not None
        return self._process.pid

    async def start(self, *, within_s: float = RESTART_TIMEOUT_S) -> float:
        """Start the process and wait until its port is open; returns when (`time.monotonic`) it was begun."""
        begun_s = time.monotonic()
        with (self._home / "log.txt").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *DIE_WITH_US, *self._java("kafka.Kafka", "server.properties", heap=HEAP),
                cwd=self._home, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return begun_s
            if self._process.returncode is not None or time.monotonic() > begun_s + within_s:
                raise RunError(f"Kafka does not serve; its log is {self._home / 'log.txt'}")
            await asyncio.sleep(0.05)

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def create(self, names: Sequence[str], *, partitions: int = 10) -> None:
        """Create topics; when this returns all their partitions have a leader, and their files."""
        await self._topics("create", names, partitions)
        wanted = {f"{name}-{number}" for name in names for number in range(partitions)}
        async with asyncio.timeout(TOPICS_TIMEOUT_S):
            while not wanted <= set(os.listdir(self._home / "data")):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)

    async def delete(self, names: Sequence[str]) -> None:
        """Delete topics with their messages."""
        await self._topics("delete", names, 0)

    async def client(self, name: str, spec: dict[str, Any], *, within_s: float | None = None) -> dict[str, Any]:
        """Run one of the Kafka client programs against it."""
        given = {"server": self.server, "pids": {"broker": self.pid}, **spec}
        return await client(self.command(name), given, within_s=within_s)

    def command(self, name: str) -> list[str]:
        """The command of a client program that runs in the Kafka clients' environment."""
        return [str(self._python), "-m", f"bench.clients.{name}"]

    async def _topics(self, do: str, names: Sequence[str], partitions: int) -> None:
        spec = {"do": do, "topics": list(names), "partitions": partitions, "timeout_s": TOPICS_TIMEOUT_S}
        await self.client("kafka_topics", spec, within_s=TOPICS_TIMEOUT_S + 120)

    def _java(self, *arguments: str, heap: Sequence[str] = ()) -> list[str]:
        return [tool("java", INSTALL), *heap, "-cp", f"{self._jars}/*", *arguments]

    def _properties(self) -> str:
        controller = free_port()
        values = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self._home / "data",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        return "".join(f"{key}={value}\n" for key, value in values.items())


async def _download(into: Path) -> None:
    command = [tool("mvn", INSTALL), "-B", "-q", "-ntp", "-f", str(FILES / "pom.xml")]
    more = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={into}"]
    await run([*command, *more], within_s=300)
    found = len(list(into.glob("*.jar")))  # noqa: ASYNC240 - nothing else runs meanwhile
    if found < LEAST_JARS:
        raise RunError(f"Maven fetched {found} jars only, see {FILES / 'pom.xml'}")


async def _install(into: Path) -> None:
    """The pinned clients, each package by its hash, from where this machine's pip installs."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or tool("uv", "run scripts/setup")
    venv = into / "venv"
    await run([uv, "venv", "-q", "--relocatable", "--python", sys.executable, str(venv)], within_s=120)
    pip = [uv, "pip", "install", "-q", "--python", str(venv / "bin" / "python"), "--require-hashes"]
    more = await asyncio.to_thread(uv_environment)
    await run([*pip, "-r", str(FILES / "requirements.txt")], within_s=300, more=more)
