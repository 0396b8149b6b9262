"""Two Masters on one database as processes, a Broker and a producer that know both: one dies, the other one leads."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import httpx
import pytest

import pytubemq
from pytubemq.errors import ExitCode, StandbyError
from pytubemq.master.leader.standby import STANDBY_EXCEPTION
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.server.processes import ServerProcess
from pytubemq.server.sources import load_settings
from pytubemq.wire.protocol.messages.master import CloseRequestP2M, CloseResponseM2P
from pytubemq.wire.rpc.methods import Method, Service
from tests.support.ports import free_port
from tests.support.postgres_stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres import Postgres

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

LEASE_S = 10.0
"""So long that a machine that stands still for some seconds ends no leadership."""
WAIT_S = 250.0
"""For what takes seconds where nothing else runs."""


class Pair:
    """Two Masters of one cluster, and its Broker; each has a directory of its own."""

    def __init__(self, home: Path, url: str, password: str) -> None:
        self._home, self._url, self._password = home, url, password
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        self.pages = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        self.masters = [self._process("master", number) for number in range(2)]
        self.broker = self._process("broker", 2)

    def _process(self, role: str, number: int) -> ServerProcess:
        data = self._home / f"{role}-{number}"
        data.mkdir()
        settings: dict[str, object] = {"data": str(data), "log.level": "info"}
        if role == "master":
            secret = data / "store.password"
            secret.touch(mode=0o600)
            secret.write_text(f"{self._password}\n")
            settings |= {"master.listen": self.addresses[number], "http.listen": self.pages[number]}
            settings |= {
                "master.store": self._url,
                "master.store_password_file": str(secret),
                "master.lease_s": LEASE_S,
            }
        else:
            settings |= {"broker.listen": f"127.0.0.1:{free_port()}", "broker.http_listen": ""}
            settings |= {"broker.masters": self.addresses}
        return ServerProcess(role, load_settings(None, environ={}, flags=settings))

    def log(self, number: int) -> str:
        """What a Master has logged."""
        return self.masters[number].log_path.read_text("utf-8")

    async def stand_by(self, number: int) -> asyncio.Task[object]:
        """Start a Master while another one leads; the task ends when it serves."""
        starting: asyncio.Task[object] = asyncio.ensure_future(self.masters[number].start(timeout_s=WAIT_S))
        while "this Master stands by on" not in (self.log(number) if self.masters[number].log_path.exists() else ""):
            assert not starting.done(), self.log(number)
            await asyncio.wait({starting}, timeout=0.05)
        return starting

    async def close(self) -> None:
        await asyncio.gather(*(process.close() for process in (*self.masters, self.broker)), return_exceptions=True)


async def test_a_standby_takes_over_and_no_send_fails(postgres: Postgres, tmp_path: Path) -> None:
    database = postgres.new_database()
    pair = Pair(tmp_path, postgres.database_url(database), postgres.password)
    try:
        await pair.masters[0].start(timeout_s=WAIT_S)
        await pair.broker.start(timeout_s=WAIT_S)
        await _create_topic(pair.pages[0], "demo")
        starting = await pair.stand_by(1)
        async with (
            pytubemq.connect(",".join(pair.addresses)) as tube,
            tube.producer("demo", delivery_timeout_s=WAIT_S) as producer,
        ):
            sent = [await producer.send(b"%d" % number) for number in range(10)]
            await _check_answers_of_a_standby(pair)
            # Stopped, not killed: the worse case, as it comes back and has to see that it leads no more.
            stopped = pair.masters[0].pid
            assert stopped is not None
            os.kill(stopped, signal.SIGSTOP)
            await asyncio.wait_for(starting, WAIT_S)
            sent += [await producer.send(b"%d" % number) for number in range(10, 20)]
            assert len(sent) == 20
            await _create_topic(pair.pages[1], "of_the_second")  # its Broker is there, and its records are written
            os.kill(stopped, signal.SIGCONT)
            assert await asyncio.wait_for(pair.masters[0].wait(), WAIT_S) == ExitCode.REFUSED
            assert "this Master no longer leads" in pair.log(0)
            # It stands by from now on. The second one gives the lease back as it ends, and the first one has all.
            starting = await pair.stand_by(0)
            await pair.masters[1].close()
            await asyncio.wait_for(starting, WAIT_S)
            sent += [await producer.send(b"%d" % number) for number in range(20, 30)]
            assert await _topics(pair.pages[0]) == {"demo", "of_the_second"}
        assert postgres.run("SELECT epoch FROM pytubemq.lease", database=database) == [(3,)]
        store = open_store(postgres, database)
        assert {topic.topic for topic in store.load().topics} >= {"demo", "of_the_second"}
        store.close()
        assert postgres.password not in pair.log(0) + pair.log(1)
    finally:
        await pair.close()


async def _check_answers_of_a_standby(pair: Pair) -> None:
    """The second one answers on its ports that it stands by, and who leads."""
    connection = await RpcConnection.connect(Address.parse(pair.addresses[1]), timeout_s=WAIT_S)
    try:
        with pytest.raises(StandbyError) as raised:
            await connection.request(
                CloseRequestP2M(client_id="c"),
                CloseResponseM2P,
                Method.PRODUCER_CLOSE_P2M,
                Service.MASTER,
                timeout_s=WAIT_S,
            )
        assert raised.value.exception_name == STANDBY_EXCEPTION
        assert f"{pair.addresses[0]} leads" in str(raised.value)
    finally:
        await connection.close()
    async with httpx.AsyncClient(timeout=WAIT_S, base_url=f"http://{pair.pages[1]}") as client:
        refused = await client.post("/api/v1/topics", json={"name": "other", "partitions": 1})
        assert (refused.status_code, refused.json()["message"]) == (503, "this Master stands by")
        assert refused.json()["why"] == f"{pair.addresses[0]} leads"
        assert "pytubemq_master_leader 0.0" in (await client.get("/metrics")).text
    async with httpx.AsyncClient(timeout=WAIT_S, base_url=f"http://{pair.pages[0]}") as client:
        assert "pytubemq_master_leader 1.0" in (await client.get("/metrics")).text


async def _create_topic(page: str, name: str) -> None:
    async with httpx.AsyncClient(timeout=WAIT_S) as client:
        for _ in range(1000):
            answer = await client.post(f"http://{page}/api/v1/topics", json={"name": name, "partitions": 1})
            if answer.status_code < 400 or answer.status_code == 409:
                return
            assert answer.status_code == 503, answer.text  # the Broker has not registered yet
            await asyncio.sleep(0.1)
        raise AssertionError(answer.text)


async def _topics(page: str) -> set[str]:
    async with httpx.AsyncClient(timeout=WAIT_S) as client:
        answer = await client.get(f"http://{page}/api/v1/topics")
        names = {topic["name"] for topic in answer.json()}
        return {name for name in names if not name.startswith("__")}
