"""A leader in ZooKeeper that is stopped, killed or cut off, and a ZooKeeper that is away for a while."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytubemq.model.records import GroupRecord
from pytubemq.net.elect import lease_elector
from tests.support.proxy import Proxy
from tests.support.zookeeper.stores import elector_in_zookeeper, leading_in_zookeeper, open_in_zookeeper, raw, succeed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.core.database.zookeeper_options import ZooKeeperOptions
    from tests.support.zookeeper.server import ZooKeeper

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

LEASE_S = 1.0
"""Of a leader that loses it."""
LONG_S = 60.0
"""Of one that keeps it, however long the machine stands still."""
ROOT = Path(__file__).parents[3]


@pytest.fixture
def options(zookeeper: ZooKeeper) -> ZooKeeperOptions:
    options = zookeeper.options(zookeeper.new_root())
    open_in_zookeeper(options).close()
    return options


async def test_a_leader_that_was_stopped_leads_no_more_when_it_goes_on(options: ZooKeeperOptions) -> None:
    standby = elector_in_zookeeper(options, "the standby", lease_s=LONG_S)
    async with _holder(options) as (holder, epoch):
        holder.send_signal(signal.SIGSTOP)
        successor = await standby.lead()
        assert successor > epoch
        store = open_in_zookeeper(options)
        store.lead(successor)
        store.apply([GroupRecord("of the new leader")], [])
        assert holder.stdin is not None
        holder.stdin.write(b"go on\n")
        holder.send_signal(signal.SIGCONT)
        # Its first look at itself, before any task of its own has run.
        assert [await _line(holder), await _line(holder)] == ["leads no more", "FencedError"]
        assert (await _line(holder)).startswith("lost: ")
        assert [group.group for group in store.load().groups] == ["of the new leader"]
        store.close()
    await standby.close()


async def test_the_lease_of_a_leader_that_was_killed_ends(options: ZooKeeperOptions) -> None:
    standby = elector_in_zookeeper(options, "the standby", lease_s=LONG_S)
    async with _holder(options) as (holder, epoch):
        holder.kill()
        assert await standby.lead() > epoch
    await standby.close()


@pytest.mark.parametrize("way", ["both", "answers"])
async def test_a_leader_that_is_cut_from_zookeeper_stops_before_the_next_one_leads(
    zookeeper: ZooKeeper, options: ZooKeeperOptions, way: str
) -> None:
    standby = elector_in_zookeeper(options, "the standby", lease_s=LONG_S)
    async with Proxy(zookeeper.address) as proxy:
        leader = elector_in_zookeeper(
            zookeeper.options(options.root, address=proxy.address), "the leader", lease_s=LEASE_S
        )
        epoch = await leader.lead()
        if way == "both":
            proxy.cut()
        else:  # its renewals arrive, and it never knows: it stops all the same
            proxy.hold_answers_after(1)
        await leader.until_lost()
        assert not leader.leads
        proxy.cut()
        assert await standby.lead() > epoch
        assert (leader.leads, standby.leads) == (False, True)
        proxy.mend()
        await leader.close()
        assert standby.leader == "the standby"
    await standby.close()


async def test_a_leader_outlives_a_restart_of_zookeeper_and_its_session(
    zookeeper: ZooKeeper, options: ZooKeeperOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_elector, "LEASE_RENEWALS", 240)
    monkeypatch.setattr(lease_elector, "_RETURN_LIMIT_S", LONG_S)
    leader = elector_in_zookeeper(options, "the leader", lease_s=4 * LONG_S)
    epoch = await leader.lead()
    store = open_in_zookeeper(options)
    store.lead(epoch)
    store.load()
    zookeeper.stop()
    zookeeper.start()
    # Over a new connection, with what was written before.
    store.apply([GroupRecord("after the restart")], [])
    before = _version(options)
    lost = asyncio.ensure_future(leader.until_lost())
    while _version(options) < before + 2 and not lost.done():
        await asyncio.wait({lost}, timeout=0.1)
    assert leader.leads
    assert raw(options, "get_async", options.node("epoch"))[1].version == epoch
    assert [group.group for group in store.load().groups] == ["after the restart"]
    store.close()
    await leader.close()


def test_a_store_that_was_cut_off_during_a_change_knows_what_became_of_it(
    zookeeper: ZooKeeper, options: ZooKeeperOptions
) -> None:
    store = leading_in_zookeeper(zookeeper, options.root)
    store.load()
    store._session.drop()
    store.apply([GroupRecord("over another session")], [])
    succeed(options)
    assert [group.group for group in store.load().groups] == ["over another session"]
    store.close()


def _version(options: ZooKeeperOptions) -> int:
    version = raw(options, "get_async", options.node("lease"))[1].version
    assert isinstance(version, int)
    return version


@asynccontextmanager
async def _holder(options: ZooKeeperOptions) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.scenario.election.holder", options.url, str(options.password), str(LEASE_S),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT,
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
