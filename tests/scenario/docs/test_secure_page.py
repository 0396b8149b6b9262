"""The steps of the how-to about security on a running cluster: no send fails, nothing is lost or there twice."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import httpx
import pytest

import pytubemq
from pytubemq.errors import NotAllowedError
from tests.support.ports import free_port
from tests.support.waiting import until, until_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

PAGE = (Path(__file__).parents[3] / "docs/how-to/secure-a-cluster.md").read_text("utf-8")
STEPS = PAGE.partition("\n## Turn authentication on, step by step")[2].partition("\n## ")[0]
MODES = re.findall(r'`security\.authentication = "(\w+)"`', STEPS)
ADDRESSES = re.findall(r'connect\("([^"]+)"\)', STEPS)
COMMANDS = [
    [line.strip() for line in block.strip().splitlines()]
    for kind, block in re.findall(r"^ +```(\w*)\n(.*?)^ +```$", STEPS, re.MULTILINE | re.DOTALL)
    if not kind
]
PYTUBEMQ = [sys.executable, "-m", "pytubemq"]
ENDED = 60.0


@dataclass
class Server:
    """One role in a process of its own, with its settings in a file and its log in another."""

    role: str
    home: Path
    settings: dict[str, object]
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self.home / f"{self.role}.log").read_text("utf-8")

    def start(self, **more: object) -> None:
        """Start with further settings, named with `__` for the dot, and wait until it serves."""
        self.settings |= {key.replace("__", "."): value for key, value in more.items()}
        name = self.home / f"{self.role}.toml"
        name.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in self.settings.items()))
        command = [*PYTUBEMQ, "server", "run", self.role, "-c", str(name)]
        with (self.home / f"{self.role}.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environ(self.home))
        assert readline(self.process.stdout), self.log

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=ENDED)
        assert self.process.returncode == 0, self.log
        self.process = None

    async def restart(self, **more: object) -> None:
        await asyncio.to_thread(self.stop)
        await asyncio.to_thread(lambda: self.start(**more))

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


def readline(stream: IO[bytes] | None) -> bytes:
    assert stream is not None
    return stream.readline()


def environ(home: Path, **more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTUBEMQ_")}
    return {**kept, "XDG_CONFIG_HOME": str(home / "config"), "NO_COLOR": "1", **more}


@dataclass
class Cluster:
    """A Master and a Broker as two processes, and the commands of who administers them."""

    home: Path
    master: Server
    broker: Server
    token: str = ""

    @property
    def http(self) -> str:
        return f"http://{self.master.settings['http.listen']}"

    async def command(self, line: str, *more: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command as it stands on the page."""
        program, *arguments = shlex.split(line)
        assert program == "pytubemq"
        return await asyncio.to_thread(
            lambda: subprocess.run(
                [*PYTUBEMQ, *arguments, "--http", self.http, *more],
                capture_output=True, text=True, timeout=120, check=False,
                env=environ(self.home, PYTUBEMQ_TOKEN=self.token if token is None else token),
            )
        )  # fmt: skip

    async def done(self, line: str, *more: str) -> str:
        """The output of a command that must not fail."""
        found = await self.command(line, *more)
        assert found.returncode == 0, (line, found.stderr)
        return found.stdout

    async def create_users(self, lines: list[str]) -> None:
        """Run the page's commands, and keep the secret of each user in a file, as the page says."""
        for line in lines:
            if not line.startswith("pytubemq user create "):
                await self.done(line)
                continue
            name = line.split()[-1]
            file = self.home / f"{name}.secret"
            file.touch(0o600)
            file.write_text(json.loads(await self.done(line, "-o", "json"))["secret"])

    async def healthy(self) -> None:
        async def ask() -> int:
            return (await self.command("pytubemq cluster health --wait 60")).returncode

        await until_answer(ask, lambda code: code == 0, timeout_s=ENDED)

    async def would_refuse(self) -> dict[str, float]:
        """The counts of both servers by server and reason."""
        found: dict[str, float] = {}
        async with httpx.AsyncClient(timeout=30) as client:
            for url in (self.http, f"http://{self.broker.settings['broker.http_listen']}"):
                text = (await client.get(f"{url}/metrics")).text
                for line in text.splitlines():
                    if match := re.match(r'pytubemq_(\w+)_access_would_refuse_total{reason="(\w+)"} (\S+)', line):
                        found[f"{match[1]} {match[2]}"] = float(match[3])
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    def at() -> str:
        return f"127.0.0.1:{free_port()}"

    master_at, http = at(), at()
    master = {
        "data": str(tmp_path / "data"), "master.listen": master_at, "master.tls_port": free_port(), "http.listen": http,
    }  # fmt: skip
    broker = {
        "data": str(tmp_path / "data"), "broker.id": 1, "broker.listen": at(), "broker.tls_port": free_port(),
        "broker.http_listen": at(), "broker.masters": [master_at],
    }  # fmt: skip
    made = Cluster(tmp_path, Server("master", tmp_path, dict(master)), Server("broker", tmp_path, dict(broker)))
    yield made
    made.broker.kill()
    made.master.kill()


@dataclass
class Program:
    """A program that sends numbers, or reads them, until it is asked to end; the next one goes on where it ended."""

    topic: str
    group: str = ""
    numbers: list[int] = field(default_factory=list)
    """What was sent and acknowledged, or read and confirmed."""
    _task: asyncio.Task[None] | None = None
    _ends: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self, address: str) -> None:
        self._ends.clear()
        self._task = asyncio.get_running_loop().create_task(self._read(address) if self.group else self._send(address))

    async def end(self) -> None:
        self._ends.set()
        assert self._task is not None
        await self._task

    async def abandon(self) -> None:
        """End it where it waits for messages that do not come."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def moves_to(self, address: str) -> None:
        """Start the program again with another address, and see it work."""
        await self.end()
        self.start(address)
        await self.goes_on()

    async def goes_on(self, more: int = 20) -> None:
        """Wait until it has sent or read some more. Raises what ended it, if something did."""
        before, task = len(self.numbers), self._task
        assert task is not None
        await until(lambda: task.done() or len(self.numbers) >= before + more, timeout_s=120.0)
        if task.done():
            task.result()
            pytest.fail(f"{self.topic}: the program has ended")

    async def _send(self, address: str) -> None:
        async with pytubemq.connect(address) as tube, tube.producer(self.topic) as producer:
            while not self._ends.is_set():
                await producer.send(b"%d" % len(self.numbers))
                self.numbers.append(len(self.numbers))
                await asyncio.sleep(0.005)

    async def _read(self, address: str) -> None:
        async with (
            pytubemq.connect(address) as tube,
            tube.consumer(self.group, self.topic, start=pytubemq.Start.EARLIEST) as consumer,
        ):
            async for batch in consumer.batches(max_wait_s=0.2):
                found = [int(message.body) for message in batch]
                await batch.confirm()
                self.numbers += found
                if self._ends.is_set():
                    return


async def stored(address: str, topic: str) -> list[int]:
    """All numbers that a topic has."""
    found: list[int] = []
    async with pytubemq.connect(address) as tube:
        for partition in await tube.partitions(topic):
            async with tube.reader(partition, end=pytubemq.Start.LATEST) as reader:
                found += [int(message.body) async for batch in reader.batches() for message in batch]
    return found


def not_once(numbers: list[int]) -> dict[int, int]:
    """The numbers up to the last one that are missing or there several times, with how often they are there."""
    counts = Counter(numbers)
    return {number: counts[number] for number in range(max(numbers) + 1) if counts[number] != 1}


async def test_each_step_leaves_the_programs_at_work(cluster: Cluster) -> None:
    master, broker = cluster.master, cluster.broker
    permissive, enforced = MODES
    users, brokers_user, operator = COMMANDS
    await asyncio.to_thread(master.start)
    await asyncio.to_thread(broker.start)
    for topic in ("orders", "invoices", "others"):
        await cluster.done(f"pytubemq topic create {topic} -p 2")
    plain = str(master.settings["master.listen"])
    shop, reader, writer = Program("orders"), Program("orders", "billing"), Program("invoices")
    stranger = Program("others")
    programs = (shop, reader, writer)
    for program in (*programs, stranger):
        program.start(plain)

    async def all_go_on() -> None:
        for program in programs:
            await program.goes_on()

    def address_of(user: str, *, tls: bool = False) -> str:
        """The address on the page, with the ports, files and user of this cluster."""
        text = ADDRESSES[tls].replace("8716", str(master.settings["master.tls_port"]))
        text = text.replace("127.0.0.1:8715", plain).replace("billing", user)
        return re.sub(r"(ca|secret_file)=", rf"\1={cluster.home}/", text)

    await all_go_on()
    # 1: permissive
    await master.restart(security__authentication=permissive)
    assert (cluster.home / "data/master/root.key").stat().st_mode & 0o777 == 0o600
    await all_go_on()
    await cluster.healthy()
    # 2: users
    await cluster.create_users(users)
    await cluster.create_users(brokers_user)
    await cluster.create_users([line.replace("billing", "shop") for line in users if line.endswith(" billing")][:1])
    await cluster.done("pytubemq permission grant shop produce topic orders")
    # 3: programs and the Broker show who they are
    await broker.restart(security__user="broker-1", security__secret_file=str(cluster.home / "broker-1.secret"))
    await all_go_on()
    await cluster.healthy()
    # 4: who does not is named
    assert re.search(
        r"PRODUCER_\w+_P2M of producer \S+ from 127\.0\.0\.1:\d+ would be refused: no signature", master.log
    )
    await shop.moves_to(address_of("shop"))
    await reader.moves_to(address_of("billing"))
    await writer.moves_to(address_of("billing"))
    await stranger.goes_on()
    counts = await cluster.would_refuse()
    assert counts["master unsigned"] >= 1
    assert counts["broker token"] >= 1
    assert re.search(r"would be refused: this cluster requires authentication", broker.log)
    await stranger.end()
    counts = await cluster.would_refuse()
    await all_go_on()
    assert await cluster.would_refuse() == counts, "they count no more"
    # 5: somebody who administers
    await cluster.create_users(operator[:2])
    cluster.token = json.loads(await cluster.done(operator[2], "-o", "json"))["token"]
    # 6: enforced
    await master.restart(security__authentication=enforced)
    await all_go_on()
    await cluster.healthy()
    await broker.restart(security__authentication=enforced)
    await all_go_on()
    await cluster.healthy()
    assert (await cluster.command("pytubemq topic create more", token="")).returncode == 4
    await cluster.done("pytubemq topic create more")
    with pytest.raises(NotAllowedError, match="requires authentication"):
        async with pytubemq.connect(plain) as tube, tube.producer("others") as producer:
            await producer.send(b"1")
    assert re.search(r"PRODUCER_\w+_P2M of producer \S+ from 127\.0\.0\.1:\d+ refused: no signature", master.log)
    # 7: TLS beside it
    await make_certificates(cluster)
    files = {"tls__cert": str(cluster.home / "server.pem"), "tls__key": str(cluster.home / "server.key")}
    ca = str(cluster.home / "ca.pem")
    await master.restart(**files)
    await all_go_on()
    await broker.restart(**files, tls__ca=ca, broker__masters=[f"127.0.0.1:{master.settings['master.tls_port']}"])
    await all_go_on()
    await cluster.healthy()
    await shop.moves_to(address_of("shop", tls=True))
    await reader.moves_to(address_of("billing", tls=True))
    await writer.moves_to(address_of("billing", tls=True))
    # 8: and nothing else
    await broker.restart(tls__plain=False)
    await all_go_on()
    await master.restart(tls__plain=False, tls__ca=ca)
    await all_go_on()
    await cluster.healthy()
    for address in (plain, str(broker.settings["broker.listen"])):
        host, port = address.split(":")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, int(port))
    await shop.end()
    await writer.end()
    await until(lambda: len(set(reader.numbers)) >= len(shop.numbers))
    await reader.abandon()
    admin = address_of("ops", tls=True)
    for program in (shop, writer):
        assert not_once(await stored(admin, program.topic)) == {}, program.topic
        assert program.numbers == list(range(len(program.numbers)))
    assert not_once(reader.numbers) == {}


async def make_certificates(cluster: Cluster) -> None:
    def make() -> Any:
        return subprocess.run(
            [*PYTUBEMQ, "cert", "make", str(cluster.home / "certs")], capture_output=True, timeout=60, check=True
        )

    await asyncio.to_thread(make)
    for path in (cluster.home / "certs").iterdir():
        path.rename(cluster.home / path.name)


def test_the_page_has_what_the_steps_take_from_it() -> None:
    assert MODES == ["permissive", "enforced"]
    assert [len(block) for block in COMMANDS] == [4, 2, 3]
    assert [address.startswith("tls://") for address in ADDRESSES] == [False, True]
    for setting in (
        "tls.plain = false",
        "tls.cert",
        "tls.ca",
        "security.user",
        "security.secret_file",
        "broker.masters",
    ):
        assert f"`{setting}`" in STEPS
