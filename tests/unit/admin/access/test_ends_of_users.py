"""What another secret or password ends, and changes of users that would lock out a Broker or everyone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.security.client_token import ClientIdentity
from tests.support.http_callers import SERVER_TOKEN, headers_of
from tests.unit.admin.access.served import PAGE, PASSWORD, served, sign_in

if TYPE_CHECKING:
    import httpx

    from pytubemq.master.service import MasterService

pytestmark = pytest.mark.anyio
ADMIN = headers_of(SERVER_TOKEN)
Change = tuple[str, str, dict[str, Any]]
ROTATE: Change = ("POST", "/api/v1/users/producer/secret", {})
NEW_PASSWORD: Change = ("PATCH", "/api/v1/users/producer", {"password": "five other random words"})


async def _do(client: httpx.AsyncClient, change: Change, **more: Any) -> httpx.Response:
    method, path, body = change
    if method == "DELETE":
        return await client.delete(path, params={**body, **more}, headers=ADMIN)
    return await client.request(method, path, json={**body, **more}, headers=ADMIN)


# --- another secret or password ---------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [ROTATE, NEW_PASSWORD], ids=["secret", "password"])
async def test_it_ends_the_tokens_and_sessions_of_its_user_and_of_no_other(change: Change) -> None:
    async with served(with_passwords=("producer",)) as (made, client, tokens):
        await sign_in(client, "producer")
        mine, others = headers_of(tokens["producer"]), headers_of(tokens["consumer"])
        assert (await client.get("/api/v1/session", headers=mine)).status_code == 200
        assert (await _do(client, change)).status_code == 200
        assert (await client.get("/api/v1/session", headers=mine)).status_code == 401
        assert (await client.get("/api/v1/session", headers=PAGE)).status_code == 401
        assert (await client.get("/api/v1/session", headers=others)).status_code == 200
        assert not made.registry.user_tokens.all_of("producer")
        (entry,) = made.catalogue.audit.find(target="producer", limit=1)
        assert entry.action == " ".join(change[:2]).replace("producer", "{name}")
        assert "token " in entry.target, "the trail names the tokens that have ended"
        assert tokens["producer"] not in entry.before + entry.after


@pytest.mark.parametrize("change", [ROTATE, NEW_PASSWORD], ids=["secret", "password"])
async def test_tokens_that_shall_stay_stay_and_sessions_end_all_the_same(change: Change) -> None:
    async with served(with_passwords=("producer",)) as (_, client, tokens):
        await sign_in(client, "producer")
        assert (await _do(client, change, keep_tokens=True)).status_code == 200
        mine = headers_of(tokens["producer"])
        assert (await client.get("/api/v1/session", headers=PAGE)).status_code == 401
        assert (await client.get("/api/v1/session", headers=mine)).status_code == 200


async def test_a_first_password_ends_no_token() -> None:
    async with served(with_passwords=()) as (_, client, tokens):
        body = {"password": PASSWORD}
        assert (await client.patch("/api/v1/users/owner", json=body, headers=ADMIN)).status_code == 200
        assert (await client.get("/api/v1/session", headers=headers_of(tokens["owner"]))).status_code == 200


# --- locked out -------------------------------------------------------------------------------------------------

BROKER_ENDS: dict[str, Change] = {
    "disable": ("PATCH", "/api/v1/users/node", {"enabled": False}),
    "remove": ("DELETE", "/api/v1/users/node", {}),
    "revoke": ("POST", "/api/v1/users/node/permissions:revoke", {"operation": "broker", "kind": "cluster"}),
}
ADMIN_ENDS: dict[str, Change] = {
    "disable": ("PATCH", "/api/v1/users/admin", {"enabled": False}),
    "remove": ("DELETE", "/api/v1/users/admin", {}),
    "revoke": ("POST", "/api/v1/users/admin/permissions:revoke", {"operation": "admin", "kind": "cluster"}),
}
FORCED: dict[str, Any] = {"disable": {"force": True}, "remove": {"force": "true"}, "revoke": {"force": True}}


async def _with_broker(made: MasterService, user: str) -> None:
    by = made.change_by("test")
    await made.registry.users.create(user, by=by)
    await made.registry.users.grant(user, "broker", "cluster", "*", by=by)
    epoch = made.catalogue.users[user].secret_epoch
    made._access.sessions.record(("broker", "7"), ClientIdentity(user, epoch))


@pytest.mark.parametrize("end", BROKER_ENDS)
async def test_a_registered_broker_keeps_its_user_unless_forced(end: str) -> None:
    async with served(with_passwords=()) as (made, client, _):
        await _with_broker(made, "node")
        before = made.registry.users.find("node")
        refused = await _do(client, BROKER_ENDS[end])
        assert refused.status_code == 409, refused.text
        assert refused.json()["message"] == "Broker 7 registered as user node and would be refused from now on"
        assert "security.user" in refused.json()["try"]
        assert "--force" in refused.json()["try"]
        assert made.registry.users.find("node") == before
        assert (await _do(client, BROKER_ENDS[end], **FORCED[end])).status_code == 200


@pytest.mark.parametrize("end", BROKER_ENDS)
async def test_a_broker_that_is_gone_holds_no_user(end: str) -> None:
    async with served(with_passwords=()) as (made, client, _):
        await _with_broker(made, "node")
        made._access.sessions.forget(("broker", "7"))
        assert (await _do(client, BROKER_ENDS[end])).status_code == 200


async def test_another_permission_of_its_user_may_go() -> None:
    async with served(with_passwords=()) as (made, client, _):
        await _with_broker(made, "node")
        await made.registry.users.grant("node", "describe", "topic", "*", by=made.change_by("test"))
        body = {"operation": "describe", "kind": "topic"}
        assert (await _do(client, ("POST", "/api/v1/users/node/permissions:revoke", body))).status_code == 200


@pytest.mark.parametrize("end", ADMIN_ENDS)
async def test_the_last_administrator_stays_unless_forced(end: str) -> None:
    async with served(with_passwords=()) as (made, client, _):
        refused = await _do(client, ADMIN_ENDS[end])
        assert refused.status_code == 409, refused.text
        assert refused.json()["message"] == "user admin is the last one that may change users and permissions"
        assert "permission grant USER admin cluster" in refused.json()["try"]
        users, by = made.registry.users, made.change_by("test")
        await users.grant("owner", "admin", "cluster", "*", by=by)
        await users.alter("owner", enabled=False, by=by)
        assert (await _do(client, ADMIN_ENDS[end])).status_code == 409, "a disabled one administers nothing"
        await users.alter("owner", enabled=True, by=by)
        assert (await _do(client, ADMIN_ENDS[end])).status_code == 200
        assert (await _do(client, ("DELETE", "/api/v1/users/owner", {}))).status_code == 409
        assert (await _do(client, ("DELETE", "/api/v1/users/owner", {}), force="true")).status_code == 200


async def test_a_flag_that_is_none_is_refused() -> None:
    async with served(with_passwords=()) as (_, client, _):
        answer = await _do(client, ("DELETE", "/api/v1/users/owner", {}), force="yes")
        assert (answer.status_code, answer.json()["message"]) == (400, "force is 'yes'")


async def test_a_change_that_is_refused_changes_nothing_of_what_it_asked_for() -> None:
    async with served(with_passwords=()) as (made, client, _):
        body = {"enabled": False, "password": "four other words here"}
        assert (await _do(client, ("PATCH", "/api/v1/users/admin", body))).status_code == 409
        assert not made.registry.users.find("admin").has_password
        answer = await _do(client, ("PATCH", "/api/v1/users/admin", {**body, "force": True}))
        assert (answer.status_code, answer.json()["enabled"], answer.json()["has_password"]) == (200, False, True)
