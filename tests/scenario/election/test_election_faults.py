"""A leader that is stopped, killed, or cut from the database: the next one leads, and the old one changes nothing."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytubemq.model.records import GroupRecord
from pytubemq.net.clock import SystemClock
from pytubemq.net.elect import lease_elector
from pytubemq.net.elect.lease_connection import LeaseConnection
from tests.support.postgres_stores import elector_in_postgres, open_store, options_of
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.postgres import Postgres

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

LEASE_S = 1.0
"""Of a leader that loses it."""
LONG_S = 60.0
"""Of one that keeps it, however long the machine stands still."""
WAIT_S = 250.0
"""For what takes seconds where nothing else runs."""
ROOT = Path(__file__).parents[3]


@pytest.fixture
def database(postgres: Postgres) -> str:
    name = postgres.new_database()
    open_store(postgres, name).close()
    return name


async def test_a_leader_that_was_stopped_leads_no_more_when_it_goes_on(postgres: Postgres, database: str) -> None:
    standby = elector_in_postgres(options_of(postgres, database), "the standby", lease_s=LONG_S)
    async with _holder(postgres, database) as (holder, epoch):
        holder.send_signal(signal.SIGSTOP)
        successor = await standby.lead()
        assert successor > epoch
        store = open_store(postgres, database)
        store.lead(successor)
        store.apply([GroupRecord("of the new leader")], [])
        _say(holder, "go on")
        holder.send_signal(signal.SIGCONT)
        # Its first look at itself, before any task of its own has run.
        assert [await _line(holder), await _line(holder)] == ["leads no more", "FencedError"]
        assert (await _line(holder)).startswith("lost: ")
        assert [group.group for group in store.load().groups] == ["of the new leader"]
        store.close()
    await standby.close()


async def test_the_lease_of_a_leader_that_was_killed_ends(postgres: Postgres, database: str) -> None:
    standby = elector_in_postgres(options_of(postgres, database), "the standby", lease_s=LONG_S)
    async with _holder(postgres, database) as (holder, epoch):
        holder.kill()
        assert await standby.lead() > epoch
    await standby.close()


@pytest.mark.parametrize("way", ["both", "answers"])
async def test_a_leader_that_is_cut_from_the_database_stops_before_the_next_one_leads(
    postgres: Postgres, database: str, way: str
) -> None:
    standby = elector_in_postgres(options_of(postgres, database), "the standby", lease_s=LONG_S)
    async with Proxy(postgres.address) as proxy:
        leader = elector_in_postgres(
            options_of(postgres, database, address=proxy.address), "the leader", lease_s=LEASE_S
        )
        epoch = await leader.lead()
        if way == "both":
            proxy.cut()
        else:  # its renewals arrive, and it never knows: it stops all the same
            proxy.hold_answers_after(1)
        lost = asyncio.ensure_future(leader.until_lost())
        await lost
        assert not leader.leads
        proxy.cut()
        assert await standby.lead() > epoch
        assert (leader.leads, standby.leads) == (False, True)
        proxy.mend()
        await leader.close()
        assert standby.leader == "the standby"
    await standby.close()


async def test_a_leader_whose_connection_breaks_renews_by_another_one(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_elector, "LEASE_RENEWALS", 240)
    monkeypatch.setattr(lease_elector, "_RETURN_LIMIT_S", LONG_S)
    leader = elector_in_postgres(options_of(postgres, database), "the leader", lease_s=LONG_S)
    epoch = await leader.lead()
    postgres.run(
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity "
        f"WHERE datname = '{database}' AND pid <> pg_backend_pid()"
    )
    before = _renewals(postgres, database)
    lost = asyncio.ensure_future(leader.until_lost())
    while _renewals(postgres, database) < before + 2 and not lost.done():
        await asyncio.wait({lost}, timeout=0.1)
    assert leader.leads
    assert postgres.run("SELECT epoch FROM pytubemq.lease", database=database) == [(epoch,)]
    await leader.close()
    assert postgres.run("SELECT holder FROM pytubemq.lease", database=database) == [("",)]


async def test_a_fault_of_the_renewal_ends_the_leadership_at_once_and_aloud(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    elector = elector_in_postgres(options_of(postgres, database), "one", lease_s=LEASE_S)
    await elector.lead()

    async def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(LeaseConnection, "row", fail)
    async with asyncio.timeout(WAIT_S):
        assert "ZeroDivisionError" in await elector.until_lost()
    assert not elector.leads
    assert "the renewal of the lease failed" in caplog.text
    monkeypatch.undo()
    await elector.close()


async def test_the_first_of_several_servers_that_is_silent_for_longer_than_the_lease_keeps_nobody_from_leading(
    postgres: Postgres, database: str
) -> None:
    options = options_of(postgres, database)
    async with Proxy(postgres.address) as silent:
        silent.cut()
        url = options.url.replace(postgres.address, f"{silent.address},{postgres.address}")
        url = url.replace("connect_timeout=60", "connect_timeout=2")
        leader = elector_in_postgres(replace(options, url=url), "the leader", lease_s=LEASE_S)
        assert await asyncio.wait_for(leader.lead(), WAIT_S) > 0
        await leader.close()


async def test_what_was_left_of_a_lease_limits_no_later_statement(postgres: Postgres, database: str) -> None:
    connection = LeaseConnection(options_of(postgres, database), SystemClock(), statement_s=LONG_S)
    # As a renewal that has to connect near the end of its lease.
    await connection.row("SELECT 1", limit_s=LONG_S / 2)
    assert await connection.row("SHOW statement_timeout", limit_s=LONG_S) == ("1min",)
    connection.drop()


def _renewals(server: Postgres, database: str) -> int:
    ((renewals,),) = server.run("SELECT renewals FROM pytubemq.lease", database=database)
    assert isinstance(renewals, int)
    return renewals


@asynccontextmanager
async def _holder(server: Postgres, database: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.scenario.election.holder", server.database_url(database), server.password,
        str(LEASE_S), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    try:
        word, _, epoch = (await _line(process)).partition(" ")
        assert word == "leads"
        yield process, int(epoch)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 120)).decode().strip()


def _say(process: asyncio.subprocess.Process, text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{text}\n".encode())
