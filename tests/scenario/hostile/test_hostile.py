"""Each of the parties as a process of its own, among peers that want to harm it.

A failure names the seed and what was sent last; `make_case(number, seed, ...)` and `FaultInjector` make it again. With
`--soak` there are forty times as many cases, with a new seed each time.
"""

from __future__ import annotations

import asyncio
import random
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pytubemq.model.ids import Address
from pytubemq.model.limits import MIB
from pytubemq.net.client.connection import RpcConnection
from pytubemq.testing.hostile.clients import HostileClient
from pytubemq.testing.hostile.http_cases import broker_calls, master_calls
from pytubemq.testing.hostile.http_client import HostileHttpClient
from pytubemq.testing.hostile.servers import HostileCluster, HostileMaster
from pytubemq.testing.hostile.values import Scene
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.rpc.methods import Service
from tests.scenario.broker.support import Peer
from tests.scenario.hostile.party import Party, running
from tests.scenario.master.town import FakeBroker, FakeProducer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytubemq.testing.hostile.http_cases import Call

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]

SEED = 20260131
SOAK_TIMES = 40
SOAK_TIMES_HTTP = 20
"""A connection for each case takes longer."""
MOST_GROWN_BYTES = 2 * 64 * MIB
"""Twice what the peers of one server may hold of answers that they do not read; small frames come to much less."""
MOST_CALLBACK = 150.0
"""The longest turn of the loop, as a multiple of `calibration_s`: some half a second where the goal is 100 ms."""
MOST_OPEN_FILES = 100
MOST_TASKS = 20
READ = frozenset({Service.BROKER_READ.value, Service.BROKER_WRITE.value})
AT_MASTER = frozenset({Service.MASTER.value})


@pytest.fixture
def seed(soak: bool) -> int:
    return random.SystemRandom().randrange(1 << 32) if soak else SEED


@pytest.fixture
def times(soak: bool) -> int:
    return SOAK_TIMES if soak else 1


def check(report: dict[str, Any], seed: int, cases: int, last: Iterable[object]) -> None:
    """Nothing was found, and the figures are within their bounds."""
    figures = {name: value for name, value in report.items() if name != "problems"}
    print(f"{cases} cases with seed {seed}: {figures}")
    if report["problems"]:
        sent = "\n".join(str(one)[:400] for one in list(last)[-12:])
        pytest.fail("\n\n".join([f"seed {seed}, within {cases} cases; last sent:\n{sent}", *report["problems"]]))
    assert report["grown_bytes"] <= MOST_GROWN_BYTES, figures
    assert report["longest_callback_s"] <= MOST_CALLBACK * report["calibration_s"], figures
    assert report["open_files"] <= MOST_OPEN_FILES, figures
    assert report["log_lines"] <= 3 * cases + 100, figures


async def ended(party: Party, seed: int, cases: int, last: Iterable[object]) -> None:
    """The party is sound, stops in time, and leaves nothing running."""
    check(await party.report(), seed, cases, last)
    report = await party.end()
    assert report["problems"] == []
    assert report["tasks"] <= MOST_TASKS


async def until_cases(server: HostileCluster | HostileMaster, cases: int, party: Party) -> None:
    """Wait until the server was asked so often; a party that asks no more is stuck."""
    seen, since_s, dropped_s = 0, time.monotonic(), time.monotonic()
    while server.faults.cases < cases:
        await asyncio.sleep(0.05)  # between two looks at how far the party is
        if server.faults.cases > seen:
            seen, since_s = server.faults.cases, time.monotonic()
            dropped_s = since_s
        elif isinstance(server, HostileCluster) and time.monotonic() - dropped_s > 0.2:
            # A first answer without capabilities makes a Broker of the original of it, for as long as it is connected.
            server.mock.drop_connections(master=False)
            dropped_s = time.monotonic()
        elif time.monotonic() - since_s > 60:
            check(await party.report(), server.faults.seed, seen, server.faults.last)
            pytest.fail(f"seed {server.faults.seed}: after {seen} cases it does nothing more")


async def test_a_broker_among_hostile_clients(tmp_path: Path, seed: int, times: int) -> None:
    async with running("broker", tmp_path / "broker") as party:
        address = Address.parse(party.said["address"])
        hostile = HostileClient(address, seed, READ, Scene(broker=str(address)))
        connection = await RpcConnection.connect(address)
        beside = Peer(connection, client_id="sound", group="sound", topic="beside")
        await beside.register()
        for number in range(30 * times):
            await hostile.run(50)
            assert (await beside.send(b"%d" % number)).success
            messages = (await beside.get(last_pack_consumed=True))[1]
            assert [message.payload for message in messages] == [b"%d" % number]
        await connection.close()
        await ended(party, seed, hostile.cases, hostile.last)
        assert hostile.answers > hostile.cases / 2


async def test_a_master_among_hostile_clients_and_brokers(tmp_path: Path, seed: int, times: int) -> None:
    async with running("master", tmp_path / "master") as party:
        address = Address.parse(party.said["address"])
        hostile = HostileClient(address, seed, AT_MASTER, Scene())
        connection = await RpcConnection.connect(address)
        beside = FakeProducer(connection)
        assert (await beside.register()).success
        for _ in range(30 * times):
            await hostile.run(50)
            assert (await beside.heartbeat("demo")).success
        await connection.close()
        await ended(party, seed, hostile.cases, hostile.last)
        assert hostile.answers > hostile.cases / 2


async def test_a_master_that_asks_a_hostile_broker(tmp_path: Path, seed: int, times: int) -> None:
    scene = Scene()
    async with running("master", tmp_path / "master") as party, HostileCluster(seed, scene) as hostile:
        connection = await RpcConnection.connect(Address.parse(party.said["address"]))
        broker = FakeBroker(connection)
        broker.address = hostile.mock.broker_address
        assert (await broker.register()).success
        serving = asyncio.create_task(broker.serve())
        await party.ask("topic")
        await until_cases(hostile, 500 * times, party)
        await ended(party, seed, hostile.faults.cases, hostile.faults.last)
        await connection.close()
        await serving


@pytest.mark.parametrize("capabilities", [OURS, Capability(0)], ids=["ours", "the original's"])
async def test_a_broker_of_a_hostile_master(tmp_path: Path, seed: int, times: int, capabilities: Capability) -> None:
    async with (
        HostileMaster(seed, Scene(), capabilities=capabilities) as hostile,
        running("broker", tmp_path / "broker", masters=[str(hostile.address)]) as party,
    ):
        await until_cases(hostile, 400 * times, party)
        await ended(party, seed, hostile.faults.cases, hostile.faults.last)


@pytest.mark.parametrize("capabilities", [OURS, Capability(0)], ids=["ours", "the original's"])
async def test_clients_of_a_hostile_cluster(tmp_path: Path, seed: int, times: int, capabilities: Capability) -> None:
    async with (
        HostileCluster(seed, Scene(), capabilities=capabilities) as hostile,
        MockBroker(topics={"demo": 1}) as sound,
        running("clients", tmp_path / "clients", masters=hostile.masters, beside=sound.masters) as party,
    ):
        await until_cases(hostile, 1500 * times, party)
        assert (await party.report())["beside"] > 0
        await ended(party, seed, hostile.faults.cases, hostile.faults.last)


@pytest.mark.parametrize("capabilities", [OURS, Capability(0)], ids=["ours", "the original's"])
async def test_spark_tasks_of_a_hostile_cluster(
    tmp_path: Path, seed: int, soak: bool, capabilities: Capability
) -> None:
    if not soak:
        pytest.skip("its threads interleave, so a run cannot be repeated by its seed: with --soak only")
    async with HostileCluster(seed, Scene(), capabilities=capabilities) as hostile:
        where = {"masters": hostile.masters, "broker": str(hostile.mock.broker_address)}
        async with running("spark", tmp_path / "spark", **where) as party:
            await until_cases(hostile, 4000, party)
            check(await party.report(), seed, hostile.faults.cases, hostile.faults.last)
            report = await party.end()
    assert report["problems"] == []
    assert report["beside"] > 0, "some rows were read or written all the same"


@pytest.mark.parametrize("calls", [master_calls(), broker_calls()], ids=["master_http", "broker_http"])
async def test_hostile_requests_over_http(
    request: pytest.FixtureRequest, tmp_path: Path, seed: int, times: int, calls: tuple[Call, ...]
) -> None:
    port = request.node.callspec.id
    async with running("http", tmp_path / "servers") as party:
        hostile = HostileHttpClient(Address.parse(party.said[port]), seed, calls, Scene(broker=party.said["broker"]))
        async with httpx.AsyncClient(base_url=f"http://{party.said[port]}", timeout=60) as sound:
            for _ in range(6 * min(times, SOAK_TIMES_HTTP)):
                await hostile.run(250)
                if hostile.problems:  # with what the servers have to say of them
                    found = [*hostile.problems[:12], *(await party.report())["problems"]]
                    pytest.fail("\n".join([f"seed {seed}", *found]))
                assert (await sound.get("/metrics")).status_code == HTTPStatus.OK
        await ended(party, seed, hostile.cases, hostile.last)
        assert min(hostile.answers[status] for status in (200, 400, 404)) > 0, hostile.answers
