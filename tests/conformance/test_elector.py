"""The contract of `Elector`, on every adapter and on the double."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ClosedError
from pytubemq.net.elect import lease_elector
from pytubemq.net.elect.sole_elector import SoleElector
from pytubemq.testing.election import TrialElection
from tests.support.postgres_stores import elector_in_postgres, open_store, options_of
from tests.support.waiting import until
from tests.support.zookeeper.stores import elector_in_zookeeper, open_in_zookeeper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pytubemq.net.elect.elector import Elector

    Stand = Callable[[str], Elector]

pytestmark = pytest.mark.anyio

SHARED = [pytest.param(name, marks=pytest.mark.process) for name in ("postgres", "zookeeper")]
LEASE_S = 300.0
"""No test here waits for its end, and a machine that stands still for minutes does not end it."""


@pytest.fixture(params=["none", "trial", *SHARED])
async def stand(request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    """Make one more elector of the same election."""
    made: list[Elector] = []
    make = _maker(request)

    def stand(holder: str) -> Elector:
        made.append(make(holder))
        return made[-1]

    yield stand
    for elector in made:
        await elector.close()


several = pytest.mark.parametrize("stand", ["trial", *SHARED], indirect=True)
"""A Master that is alone has nobody beside it."""


def _maker(request: pytest.FixtureRequest) -> Stand:
    if request.param == "none":
        return SoleElector
    if request.param == "trial":
        return TrialElection().stand
    if request.param == "zookeeper":
        return _in_zookeeper(request)
    # Else a server that stands still for a second keeps a lease that was given back, and a test waits for its end.
    request.getfixturevalue("monkeypatch").setattr(lease_elector, "_RETURN_LIMIT_S", LEASE_S)
    server = request.getfixturevalue("postgres")
    database = server.new_database()
    open_store(server, database).close()
    return lambda holder: elector_in_postgres(options_of(server, database), holder, lease_s=LEASE_S)


def _in_zookeeper(request: pytest.FixtureRequest) -> Stand:
    server = request.getfixturevalue("zookeeper")
    request.getfixturevalue("monkeypatch").setattr(lease_elector, "_RETURN_LIMIT_S", LEASE_S)
    options = server.options(server.new_root())
    open_in_zookeeper(options).close()
    return lambda holder: elector_in_zookeeper(options, holder, lease_s=LEASE_S)


async def test_one_that_is_alone_leads(stand: Stand) -> None:
    elector = stand("127.0.0.1:8715")
    assert (elector.leads, elector.leader) == (False, "")
    assert await elector.lead() >= 1
    assert (elector.leads, elector.leader) == (True, "127.0.0.1:8715")


async def test_close_ends_it_and_is_idempotent(stand: Stand) -> None:
    elector = stand("127.0.0.1:8715")
    await elector.lead()
    lost = asyncio.ensure_future(elector.until_lost())
    await elector.close()
    assert not elector.leads
    assert await lost == "it was closed"
    await elector.close()
    with pytest.raises(ClosedError):
        await elector.lead()


@several
async def test_a_second_one_waits_and_leads_with_a_larger_epoch(stand: Stand) -> None:
    first, second = stand("127.0.0.1:1"), stand("127.0.0.1:2")
    epoch = await first.lead()
    waiting = asyncio.ensure_future(second.lead())
    await until(lambda: second.leader == "127.0.0.1:1")
    assert (first.leads, second.leads, waiting.done()) == (True, False, False)
    await first.close()
    assert await waiting > epoch
    assert (first.leads, second.leads, second.leader) == (False, True, "127.0.0.1:2")


@several
async def test_of_many_one_leads(stand: Stand) -> None:
    electors = [stand(f"127.0.0.1:{number}") for number in range(1, 6)]
    standing = {asyncio.ensure_future(elector.lead()): elector for elector in electors}
    epochs = []
    while standing:
        done, _ = await asyncio.wait(standing, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1
        (led,) = done
        epochs.append(await led)
        assert [elector.leads for elector in electors].count(True) == 1
        await standing.pop(led).close()
    assert epochs == sorted(set(epochs))


@several
async def test_one_that_stands_by_can_be_closed(stand: Stand) -> None:
    first, second = stand("127.0.0.1:1"), stand("127.0.0.1:2")
    await first.lead()
    waiting = asyncio.ensure_future(second.lead())
    await until(lambda: second.leader == "127.0.0.1:1")
    await second.close()
    with pytest.raises(ClosedError):
        await waiting
    assert first.leads


@several
async def test_one_whose_wait_is_cancelled_leaves_the_others_alone(stand: Stand) -> None:
    first, second = stand("127.0.0.1:1"), stand("127.0.0.1:2")
    await first.lead()
    waiting = asyncio.ensure_future(second.lead())
    await asyncio.sleep(0)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    assert (first.leads, second.leads) == (True, False)
