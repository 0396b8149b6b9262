"""A change of permissions is in force at the Brokers when the call that made it returns."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq import connect
from pytubemq.cli.api import TOKEN_VARIABLE, Api
from pytubemq.errors import NotAllowedError, RefusedError, TubeError
from pytubemq.security.credentials import Credentials
from tests.scenario.security.secured import address_of, cluster, is_known

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytubemq.server.compose import Node

pytestmark = pytest.mark.anyio
TOKEN = secrets.token_urlsafe()
PERMISSION = {"operation": "produce", "kind": "topic", "pattern": "orders"}


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)


class Administrator:
    """Calls of the JSON API, as the command line makes them."""

    def __init__(self, node: Node) -> None:
        assert node.endpoints.http is not None
        self._api = Api(node.endpoints.http, timeout_s=60.0)

    async def create(self, name: str) -> Credentials:
        made = await self._run(lambda: self._api.post("users", body={"name": name}))
        return Credentials.of(name, made["secret"])

    async def grant(self, name: str) -> None:
        await self._run(lambda: self._api.post("users", name, "permissions", body=PERMISSION))

    async def revoke(self, name: str) -> None:
        await self._run(lambda: self._api.post("users", name, "permissions:revoke", body=PERMISSION))

    async def disable(self, name: str) -> None:
        await self._run(lambda: self._api.patch("users", name, body={"enabled": False}))

    async def remove(self, name: str) -> None:
        await self._run(lambda: self._api.delete("users", name))

    async def rotate(self, name: str) -> str:
        made = await self._run(lambda: self._api.post("users", name, "secret", body={}))
        return str(made["secret"])

    @staticmethod
    async def _run(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        return await asyncio.to_thread(call)


async def test_the_first_send_after_a_grant_is_accepted_and_the_first_after_a_revocation_refused(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, token=TOKEN) as node:
        by = Administrator(node)
        for name in ("ann", "bob", "cleo"):
            credentials = await by.create(name)
            await by.grant(name)
            assert is_known(node)
            async with connect(address_of(node), credentials=credentials) as tube, tube.producer("orders") as producer:
                await producer.send(b"first")
                await by.revoke(name)
                assert is_known(node)
                with pytest.raises(NotAllowedError, match="permission grant"):
                    await producer.send(b"no longer")


async def test_whatever_takes_access_away_is_in_force_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, token=TOKEN) as node:
        by = Administrator(node)
        for name, end in (("ann", by.disable), ("bob", by.remove), ("cleo", by.rotate)):
            await by.create(name)
            await by.grant(name)
            await end(name)
            assert is_known(node)


async def test_a_broker_that_does_not_learn_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, token=TOKEN) as node:
        by = Administrator(node)
        await by.create("ann")
        assert node.master is not None
        assert node.broker is not None
        waits = node.master.registry.waits
        monkeypatch.setattr(waits, "_settings", replace(waits._settings, topic_ready_timeout_s=0.2))
        monkeypatch.setattr(type(node.broker._orders), "access", lambda orders, rules: None)
        with pytest.raises(TubeError, match="the change of access is made, but broker 1 ") as late:
            await by.grant("ann")
        assert "cluster health" in str(late.value.hint)
        assert not is_known(node)
        assert await by.rotate("ann"), "a secret that is made and never shown locks its user out"
        assert "user ann has another secret: the change of access is made, but broker 1 " in caplog.text


async def test_a_running_broker_keeps_its_user_unless_forced(tmp_path: Path) -> None:
    async with cluster(tmp_path, token=TOKEN) as node:
        by = Administrator(node)
        assert node.master is not None
        (broker,) = (one for one in node.master.registry.users.all() if one.permissions)
        with pytest.raises(RefusedError, match=f"^Broker 1 registered as user {broker.name} and would be refused"):
            await by.remove(broker.name)
        assert node.master.registry.users.find(broker.name) == broker


async def test_without_authentication_nobody_waits(tmp_path: Path) -> None:
    async with cluster(tmp_path, "off") as node:
        assert node.master is not None
        assert node.master._brokers.behind_in_access() == []
        await asyncio.wait_for(node.master.registry.waits.until_access_known(), 30.0)
