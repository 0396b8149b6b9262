"""`pytubemq server run broker --workers N`: several Brokers under one parent, with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest

from pytubemq import connect
from pytubemq.core.retry import Backoff
from pytubemq.errors import ExitCode
from pytubemq.server.cluster import EmbeddedCluster
from pytubemq.server.sources import load_settings
from pytubemq.server.workers.worker_plan import plan_workers
from pytubemq.server.workers.workers import Workers
from tests.support.waiting import until, until_seen

from .conftest import CommandLine, stop

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.scenario

ANY = "127.0.0.1:0"
PATIENCE_S = 60.0


def ready_line(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        assert process.stderr is not None
        pytest.fail(process.stderr.read().decode())
    found = json.loads(line)
    assert isinstance(found, dict)
    return found


@dataclass
class Running:
    """A Master, and a parent with two Brokers."""

    tube: CommandLine
    master: str
    http: str
    parent: subprocess.Popen[bytes]
    workers: list[dict[str, Any]]

    def online(self) -> dict[int, str]:
        brokers = httpx.get(f"{self.http}/api/v1/brokers").json()
        return {broker["id"]: broker["state"] for broker in brokers}

    def until(self, condition: Callable[[], object]) -> None:
        until_seen(condition, timeout_s=PATIENCE_S, every_s=0.05)

    def start_broker(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self.tube.start(
            "server", "run", "broker", "--set", f"broker.listen={ANY}", "--set", f"broker.http_listen={ANY}",
            "--set", f"broker.masters={self.master}", *arguments,
        )  # fmt: skip


@pytest.fixture
def running(tube: CommandLine) -> Iterator[Running]:
    master = tube.start("server", "run", "master", "--set", f"master.listen={ANY}", "--set", f"http.listen={ANY}")
    where = ready_line(master)
    found = Running(tube, where["master"], where["http"], master, [])
    found.parent = found.start_broker("--workers", "2")
    found.workers = ready_line(found.parent)["workers"]
    yield found
    if found.parent.poll() is None:
        stop(found.parent, signal.SIGTERM)


def test_one_that_is_killed_comes_back_while_the_other_serves(running: Running) -> None:
    first, second = running.workers
    assert [worker["id"] for worker in running.workers] == [1, 2]
    assert first["data"].endswith("worker-0")
    assert second["data"].endswith("worker-1")
    made = running.tube("topic", "create", "t", "-p", "2", "-o", "json", "--http", running.http)
    assert json.loads(made.stdout)["brokers"] == [1, 2]

    async def produce(prefix: str, count: int) -> None:
        async with connect(running.master) as tube, tube.producer("t") as producer:
            for number in range(count):
                await producer.send(f"{prefix}{number}".encode())

    asyncio.run(produce("before", 40))
    os.kill(second["pid"], signal.SIGKILL)
    # what the health of the one that serves says goes to the Master, too
    running.until(lambda: "worker-1" in running.tube("cluster", "health", "--http", running.http).stdout.decode())
    asyncio.run(produce("meanwhile", 40))
    running.until(lambda: running.online() == {1: "online", 2: "online"})
    running.until(lambda: running.tube("cluster", "health", "--http", running.http).returncode == ExitCode.DONE)

    found = running.tube("consume", "t", "--master", running.master)
    bodies = found.stdout.decode().split()
    expected = [f"{prefix}{number}" for prefix in ("before", "meanwhile") for number in range(40)]
    assert sorted(bodies) == sorted(expected)
    code, said = stop(running.parent, signal.SIGTERM)
    assert code == ExitCode.DONE
    assert "worker-1 (Broker 2) was ended by SIGKILL; it restarts in" in said
    assert "worker-1 (Broker 2) runs again" in said


def test_the_master_knows_where_the_pages_of_each_are(running: Running) -> None:
    def recorded() -> dict[int, int]:
        found = httpx.get(f"{running.http}/webapi.htm?method=admin_query_broker_configure").json()
        return {row["brokerId"]: row["brokerWebPort"] for row in found["data"]}

    real = {worker["id"]: int(worker["broker_http"].rpartition(":")[2]) for worker in running.workers}
    assert len(set(real.values())) == 2
    running.until(lambda: recorded() == real)


def test_workers_end_with_their_parent_however_it_ends(running: Running) -> None:
    pids = [worker["pid"] for worker in running.workers]
    running.parent.kill()
    running.parent.wait()
    running.until(lambda: not any(alive(pid) for pid in pids))


def test_ids_that_are_taken_are_named_and_nothing_is_left_running(running: Running) -> None:
    more = running.start_broker("--workers", "2", "--set", "data=elsewhere")
    _, said = more.communicate(timeout=PATIENCE_S)
    assert more.returncode == ExitCode.BAD_CONFIG
    assert "worker-0: the Master refuses Broker 1" in said.decode()
    assert "set another broker.id" in said.decode()
    assert running.online() == {1: "online", 2: "online"}


def test_why_a_worker_did_not_start_is_the_last_thing_said_with_its_exit_code(running: Running) -> None:
    taken = running.workers[0]["broker"]
    more = running.start_broker(
        "--workers", "1", "--set", "data=elsewhere", "--set", "broker.id=7", "--set", f"broker.listen={taken}"
    )
    _, said = more.communicate(timeout=PATIENCE_S)
    assert more.returncode == ExitCode.BAD_CONFIG
    assert said.decode().count("error TUBE") == 1, "the worker leaves it to its parent"
    last = said.decode().rpartition("error TUBE-config  worker-0 did not start: ")[2]
    assert taken in last.splitlines()[0]
    assert "try" in last


def test_options_that_do_not_go_together_are_refused(tube: CommandLine) -> None:
    for arguments in (("all", "--workers", "2"), ("broker", "--worker-ip", "spread"), ("broker", "--workers", "0")):
        found = tube("server", "run", *arguments)
        assert found.returncode == ExitCode.USAGE, arguments
        assert "Traceback" not in found.stderr.decode()


@pytest.mark.anyio
async def test_one_that_cannot_start_is_tried_again_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with EmbeddedCluster(brokers=0) as cluster:
        flags = {
            "data": str(tmp_path),
            "broker.listen": ANY,
            "broker.http_listen": "",
            "broker.masters": cluster.master,
        }
        plans = plan_workers(load_settings(None, environ={}, flags=flags), 2)
        several = Workers(plans, backoff=Backoff(first_s=0.05, most_s=0.1))
        first, second = await several.start()
        try:
            settings = second.process.settings
            taken = msgspec.structs.replace(settings.broker, listen=first.process.endpoints.broker)
            second.process.settings = msgspec.structs.replace(settings, broker=taken)
            assert second.process.pid is not None
            os.kill(second.process.pid, signal.SIGKILL)
            await until(lambda: second.restarts >= 3, timeout_s=PATIENCE_S)
            assert second.down is not None
            said = f"worker-1 (Broker 2) did not start: Broker cannot listen on {first.process.endpoints.broker}"
            assert said in caplog.text
            assert first.down is None
            second.process.settings = settings
            await until(lambda: second.down is None, timeout_s=PATIENCE_S)
            assert second.process.running
        finally:
            assert await several.close()
        assert not any(worker.process.running for worker in several.workers)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
