"""Nodes with a Master in one election: one leads, the other one answers as a standby and takes over."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from pytubemq.errors import FencedError, StandbyError, UnreachableError
from pytubemq.master.catalogue.catalogue import Catalogue
from pytubemq.master.leader import candidacy
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.server.compose import ROLES, Node
from pytubemq.server.sources import load_settings
from pytubemq.testing.election import TrialElection
from pytubemq.wire.protocol.messages.master import CloseRequestP2M, CloseResponseM2P
from pytubemq.wire.rpc.methods import Method, Service
from tests.support.ports import free_port
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import Any

    from pytubemq.testing.election import TrialElector

pytestmark = pytest.mark.anyio


@pytest.fixture
def election(monkeypatch: pytest.MonkeyPatch) -> TrialElection:
    """The election in which all nodes of a test stand."""
    made = TrialElection()

    async def stand(_database: object, holder: str, **_: object) -> TrialElector:
        return made.stand(holder)

    monkeypatch.setattr(candidacy, "make_elector", stand)
    return made


class Candidate:
    """A node with a Master, and its ports."""

    def __init__(self, data: Path) -> None:
        self.rpc, self.page = (Address("127.0.0.1", free_port()) for _ in range(2))
        flags = {"data": str(data), "master.listen": str(self.rpc), "http.listen": str(self.page)}
        self.node = Node(load_settings(None, environ={}, flags=flags), ROLES["master"])

    async def close_producer(self) -> CloseResponseM2P:
        """A request that each Master that leads grants."""
        connection = await RpcConnection.connect(self.rpc, timeout_s=30)
        try:
            return await connection.request(
                CloseRequestP2M(client_id="c"),
                CloseResponseM2P,
                Method.PRODUCER_CLOSE_P2M,
                Service.MASTER,
                timeout_s=30,
            )
        finally:
            await connection.close()

    async def get(self, path: str) -> httpx.Response:
        """A page."""
        async with httpx.AsyncClient(timeout=30) as client:
            return await client.get(f"http://{self.page}{path}")

    async def stands_by(self) -> bool:
        """True if its protocol's port answers as a standby."""
        try:
            await self.close_producer()
        except StandbyError:
            return True
        except UnreachableError:
            return False
        return False


@asynccontextmanager
async def candidates(tmp_path: Path) -> AsyncIterator[tuple[Candidate, Candidate, asyncio.Task[Any]]]:
    """The one that leads, and one that stands by; the task ends when that one leads."""
    one, two = Candidate(tmp_path / "one"), Candidate(tmp_path / "two")
    await one.node.start()
    starting = asyncio.ensure_future(two.node.start())
    try:
        while not await two.stands_by():
            await asyncio.wait({starting}, timeout=0.02)
            assert not starting.done()
        yield one, two, starting
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        assert await one.node.close()
        assert await two.node.close()


async def test_a_standby_answers_names_the_leader_and_takes_over(tmp_path: Path, election: TrialElection) -> None:
    async with candidates(tmp_path) as (one, two, starting):
        with pytest.raises(StandbyError, match=f"{one.rpc} leads"):
            await two.close_producer()
        page = await two.get("/api/v1/topics")
        assert (page.status_code, page.json()["why"]) == (503, f"{one.rpc} leads")
        assert "pytubemq_master_leader 0.0\n" in (await two.get("/metrics")).text
        assert "pytubemq_master_leader 1.0\n" in (await one.get("/metrics")).text
        election.expire()
        await starting
        assert (await two.close_producer()).success
        assert (await two.get("/api/v1/topics")).json() == []
        assert "pytubemq_master_leader 1.0\n" in (await two.get("/metrics")).text


async def test_from_the_end_of_its_lease_on_a_leader_gives_no_orders(tmp_path: Path, election: TrialElection) -> None:
    async with candidates(tmp_path) as (one, _, starting):
        assert (await one.close_producer()).success
        election.expire()
        with pytest.raises(StandbyError, match="this Master stands by"):
            await one.close_producer()  # it runs on, as nobody has ended it yet
        assert isinstance(await one.node.until_failed(), FencedError)
        await starting


async def test_a_master_whose_lease_ends_while_it_loads_opens_no_port(
    tmp_path: Path, election: TrialElection, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Catalogue.open

    async def slow(catalogue: Catalogue, make: Any) -> None:
        await load(catalogue, make)
        election.expire()

    monkeypatch.setattr(Catalogue, "open", slow)
    one = Candidate(tmp_path / "one")
    with pytest.raises(FencedError, match="no longer leads"):
        await one.node.start()
    with pytest.raises(UnreachableError):
        await one.close_producer()


async def test_a_standby_that_is_stopped_ends_at_once(tmp_path: Path, election: TrialElection) -> None:
    async with candidates(tmp_path) as (one, two, starting):
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        with pytest.raises(UnreachableError):
            await two.close_producer()
        assert (await one.close_producer()).success
        await until(lambda: election.leading is not None)
