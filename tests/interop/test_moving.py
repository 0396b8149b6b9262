"""The how-to "Move an existing cluster", command by command, on a cluster of the Java system that is in use meanwhile.

The commands, files and settings are those of the page; only addresses and the token are this test's. All the while
clients of both kinds produce and consume, and in the end every acknowledged message has been read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq import Start, connect
from pytubemq.errors import TubeError
from tests.support.ports import free_port
from tests.support.waiting import until_answer

from .fetch import fetch
from .processes import TOKEN, JavaBroker, JavaMaster
from .webapi import WebApi, until_answers

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[2] / "docs/how-to/replace-a-java-part.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SETTING = re.compile(r"^[A-Z_]+=\S+", re.MULTILINE)
COMMAND_TIMEOUT_S = 120.0
WAIT_S = 150.0
PARTITIONS = 2


@dataclass
class Shell:
    """Runs the page's blocks in a directory, with this test's addresses in the place of the page's."""

    home: Path
    addresses: dict[str, str]
    settings: list[str] = field(default_factory=list)
    servers: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    def translated(self, text: str) -> str:
        for ours, theirs in self.addresses.items():
            text = text.replace(ours, theirs)
        return text

    async def run(self, block: str) -> tuple[int, str]:
        """One block of commands; its exit code and what it said."""
        block = self.translated(block)
        self.settings += SETTING.findall(block)
        process = await asyncio.create_subprocess_exec(
            "bash", "-euo", "pipefail", "-c", "\n".join([*self.settings, block]),
            cwd=self.home, env=self._environ(), stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(COMMAND_TIMEOUT_S):
            said, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def good(self, block: str) -> str:
        code, said = await self.run(block)
        assert code == 0, f"{block}\n{said}"
        assert '"success":false' not in said, f"{block}\n{said}"
        assert '"result":false' not in said, f"{block}\n{said}"
        return said

    async def until(self, block: str, condition: Callable[[int, str], bool]) -> None:
        """The same command again and again, as a person would who waits for something."""
        code, said = 0, ""
        try:
            async with asyncio.timeout(WAIT_S):
                while True:
                    code, said = await self.run(block)
                    if condition(code, said):
                        return
                    await asyncio.sleep(1)  # a person's pace
        except TimeoutError:
            pytest.fail(f"{block}\nended with {code} to the last: {said}")

    async def serve(self, name: str, block: str) -> dict[str, Any]:
        """A block that is one server; returns what it says when it is ready."""
        with (self.home / f"{name}.log").open("ab") as log:
            process = self.servers[name] = await asyncio.create_subprocess_exec(
                "bash", "-c", f"exec {self.translated(block).strip()}",
                cwd=self.home, env=self._environ(), stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=log,
            )  # fmt: skip
        assert process.stdout is not None
        async with asyncio.timeout(COMMAND_TIMEOUT_S):
            line = await process.stdout.readline()
        assert line, (self.home / f"{name}.log").read_text()
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    async def stop(self, name: str) -> None:
        process = self.servers.pop(name)
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()

    async def close(self) -> None:
        for name in list(self.servers):
            await self.stop(name)

    def _environ(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTUBEMQ_")}
        path = f"{Path(sys.executable).parent}:{kept.get('PATH', '')}"
        return {**kept, "PATH": path, "XDG_CONFIG_HOME": str(self.home / "config"), "no_proxy": "*"}


class Traffic:
    """A producer and a group that go on whatever happens."""

    def __init__(self, master: str) -> None:
        self.master = master
        self.acknowledged: set[bytes] = set()
        self.read: Counter[bytes] = Counter()
        self.brokers: Counter[int] = Counter()
        """Messages acknowledged, by Broker."""
        self.errors: list[str] = []
        self._reading = asyncio.Event()
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._produce()), asyncio.create_task(self._consume())]

    async def _produce(self) -> None:
        await self._reading.wait()
        async with connect(self.master) as tube, tube.producer("orders") as producer:
            number = 0
            while not self._stop.is_set():
                number += 1
                body = b"order %d" % number
                try:
                    receipt = await producer.send(body)
                except TubeError as error:  # not acknowledged, so nothing was promised
                    self.errors.append(str(error))
                else:
                    self.acknowledged.add(body)
                    self.brokers[receipt.partition.broker_id] += 1
                await asyncio.sleep(0.02)  # the load's pace

    async def _consume(self) -> None:
        # a group that begins at the latest skips what a Broker took before it came there
        async with connect(self.master) as tube, tube.consumer("billing", "orders", start=Start.LATEST) as consumer:
            while True:
                if len(consumer.assignment) >= PARTITIONS:
                    self._reading.set()
                batch = await consumer.next_batch(timeout_s=1)
                if batch is None:
                    continue
                with contextlib.suppress(TubeError):
                    await batch.confirm()
                self.read.update(message.body for message in batch)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something shows in the traffic."""
        try:
            async with asyncio.timeout(WAIT_S):
                while not condition():
                    for task in self._tasks:
                        if task.done():
                            task.result()
                    await asyncio.sleep(0.1)  # between two looks, at the tasks as well
        except TimeoutError:
            missing = sorted(self.acknowledged - self.read.keys())
            pytest.fail(f"acknowledged by Broker {dict(self.brokers)}; {len(missing)} not read: {missing[:5]}")

    async def moved_on(self, broker_id: int, *, messages: int = 50) -> None:
        """So many more were acknowledged by a Broker, and the group has read what there was before."""
        before = self.brokers[broker_id]
        due = set(self.acknowledged)
        await self.until(lambda: self.brokers[broker_id] >= before + messages and due <= self.read.keys())

    async def end(self) -> None:
        """Stop producing, and read what there is."""
        self._stop.set()
        await self._tasks[0]
        await self.until(lambda: self.acknowledged <= self.read.keys())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def blocks(title: str) -> list[tuple[str, str]]:
    """Language and text of the blocks under a heading."""
    text = PAGE.read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    found = BLOCK.findall(text)
    assert found, f"no commands under {title}"
    return found


def save(home: Path, text: str) -> None:
    """A settings file, which names itself in its first line."""
    name = text.splitlines()[0].removeprefix("#").strip()
    (home / name).write_text(text)


async def test_every_step_of_the_page(tmp_path: Path) -> None:
    java = fetch()
    for name in ("java-master", "java-broker"):
        (tmp_path / name).mkdir()
    master = JavaMaster(java, tmp_path / "java-master")
    broker = JavaBroker(java, tmp_path / "java-broker", broker_id=1, host="127.0.0.1", masters=master.address)
    port = free_port()
    shell = Shell(tmp_path, {
        "127.0.0.1:8715": master.address,
        "127.0.0.1:8080": master.web.removeprefix("http://"),
        "127.0.0.1:8081": broker.web.removeprefix("http://"),
        "127.0.0.1:8082": f"127.0.0.1:{free_port()}",
        "127.0.0.1:8725": f"127.0.0.1:{free_port()}",
        "127.0.0.1:8090": f"127.0.0.1:{free_port()}",
        "127.0.0.2:9123": f"127.0.0.2:{port}",
        "brokerPort=9123": f"brokerPort={port}",
        "the-token-of-your-master": TOKEN,
    })  # fmt: skip
    traffic = Traffic(master.address)
    try:
        await _java_cluster(master, broker)
        (_, names), (_, script) = blocks("Before you begin")
        await shell.good(names)
        (tmp_path / "move.py").write_text(script)
        traffic.start()
        await traffic.moved_on(1)
        await _clients(shell)
        await _broker(shell, traffic)
        await broker.stop()
        await _master(shell, traffic, master)
        await traffic.moved_on(2)
        await traffic.end()
        assert not traffic.errors
        assert set(traffic.brokers) == {1, 2}
    finally:
        await traffic.close()
        await shell.close()
        await broker.kill()
        await master.kill()


async def _java_cluster(master: JavaMaster, broker: JavaBroker) -> None:
    """A cluster as it may be found, with something in it that is worth copying."""
    api = WebApi(master.web)
    await master.start()
    await until_answers(master)
    await api.modify("admin_set_cluster_default_setting", brokerPort=8123, maxMsgSizeInMB=2)
    await api.modify(
        "admin_add_broker_configure", brokerId=1, brokerIp="127.0.0.1", brokerPort=broker.port,
        brokerWebPort=broker.web_port, manageStatus="online",
    )  # fmt: skip
    await api.modify("admin_add_new_topic_record", brokerId=1, topicName="orders,returns", numPartitions=PARTITIONS)
    await api.modify("admin_add_group_csmctrl_info", topicName="returns", groupName="nosy", consumeEnable="false")
    await api.modify(
        "admin_add_group_resctrl_info", groupName="slow", flowCtrlEnable="true",
        flowCtrlInfo=json.dumps([{"type": 1, "rule": [{"zeroCnt": 5, "freqInMs": 500}]}]),
    )  # fmt: skip
    await broker.start()
    await until_answer(
        lambda: api.query("admin_query_topic_info", topicName="orders"),
        lambda rows: rows[0].get("isSrvAcceptPublish"),
        timeout_s=WAIT_S,
        every_s=0.5,
    )


async def _clients(shell: Shell) -> None:
    ((_, commands),) = blocks("1. Clients")
    assert "order" in await shell.good(commands)


async def _broker(shell: Shell, traffic: Traffic) -> None:
    steps = [text for _, text in blocks("2. A Broker")]
    tell, settings, run, groups, writable, alone, stop_writing, forget, drained, offline = steps
    await shell.good(tell)
    save(shell.home, shell.translated(settings))
    await shell.serve("broker-2", run)
    # a Java Broker lists a group some seconds after it began
    known = 'curl -fsS "$NEW_BROKER_PAGE/broker.htm?method=admin_query_group"'
    await shell.until(f"{groups}\n{known}", lambda code, said: code == 0 and '"billing","trial"' in said)
    assert (await shell.good(groups)).startswith("0 groups in 2 partitions"), "the second time there is nothing to do"
    await shell.until(writable, lambda _, said: '"isSrvAcceptPublish":true' in said)
    await traffic.moved_on(2)
    assert await shell.run(alone) == (1, "returns is only on Broker 1\n")
    await shell.good(stop_writing)
    await shell.good(forget)
    assert '"trial"' not in await shell.good(known)
    await shell.until(drained, lambda code, said: code == 0 and said.endswith("drained\n"))
    await traffic.moved_on(2)
    await shell.good(offline)


async def _master(shell: Shell, traffic: Traffic, java: JavaMaster) -> None:
    steps = blocks("3. The Master")
    (_, beside), (_, run_beside), (_, copy), (_, settings), (_, run), (_, status), (_, forget) = steps
    save(shell.home, shell.translated(beside))
    await shell.serve("master-beside", run_beside)
    said = await shell.good(copy)
    assert "2 by admin_batch_add_broker_configure" in said
    topics = await shell.good("pytubemq topic list -o name --http http://127.0.0.1:8090")
    assert {"orders", "returns"} <= set(topics.split())
    assert "0 by admin_batch_add_broker_configure" in await shell.good(copy), "it may be run again"
    await shell.stop("master-beside")
    await java.stop()
    save(shell.home, shell.translated(settings))
    await shell.serve("master", run)
    await shell.until(
        status,
        lambda _, said: any(row["brokerId"] == 2 and row["runStatus"] == "running" for row in json.loads(said)["data"]),
    )
    ours = WebApi(java.web)
    (setting,) = await ours.query("admin_query_cluster_default_setting")
    assert setting["maxMsgSizeInMB"] == 2
    (denied,) = await ours.query("admin_query_group_csmctrl_info", groupName="nosy")
    assert (denied["topicName"], denied["consumeEnable"]) == ("returns", False)
    (slow,) = await ours.query("admin_query_group_resctrl_info", groupName="slow")
    assert slow["flowCtrlInfo"] == [{"type": 1, "rule": [{"zeroCnt": 5, "freqInMs": 500}]}]
    await shell.good(forget)
    assert [row["brokerId"] for row in await ours.query("admin_query_broker_configure")] == [2]
    (orders,) = await ours.query("admin_query_topic_info", topicName="orders")
    assert [place["brokerId"] for place in orders["topicInfo"]] == [2]
    everything = await shell.good("pytubemq consume orders -o name --master 127.0.0.1:8715")
    assert {name.partition(":")[0] for name in everything.split()} == {"2"}, "read without a group, old Broker and all"
