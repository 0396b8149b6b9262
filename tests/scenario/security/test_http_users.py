"""Users over HTTP on a running Master and Broker: the command line with tokens, and the audit trail."""

from __future__ import annotations

import json
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from pytubemq.security.secret import Secret
from pytubemq.server.compose import ROLES, Node
from pytubemq.server.sources import load_settings
from tests.scenario.security.command_line import HttpCommands, command
from tests.scenario.security.secured import ANY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

TOKEN = secrets.token_urlsafe()
PASSWORD = "four random words here"


@asynccontextmanager
async def node(directory: Path, mode: str = "enforced") -> AsyncIterator[Node]:
    """A Master and a Broker whose HTTP has a token."""
    flags: dict[str, object] = {"data": str(directory), "log.level": "warning", "http.token": TOKEN}
    flags |= {"security.authentication": mode, "security.audit_days": 7}
    flags |= dict.fromkeys(("master.listen", "broker.listen", "http.listen", "broker.http_listen"), ANY)
    made = Node(load_settings(None, environ={}, flags=flags), ROLES["all"])
    await made.start()
    try:
        yield made
    finally:
        await made.close()


tube = HttpCommands(TOKEN)
as_json = tube.as_json


async def test_the_command_line_does_what_its_users_token_may_and_the_trail_says_so(tmp_path: Path) -> None:
    async with node(tmp_path) as made:
        for name in ("ops", "app"):
            await as_json(made, "user", "create", name)
        await tube(made, "permission", "grant", "ops", "operate", "cluster")
        await tube(made, "permission", "grant", "app", "consume", "topic", "orders")
        await tube(made, "permission", "grant", "app", "consume", "group", "billing")
        ops = (await as_json(made, "user", "token", "create", "ops", "--days", "1"))["token"]
        app = (await as_json(made, "user", "token", "create", "app"))["token"]

        code, _, err = await tube(made, "topic", "create", "orders", token="")
        assert code == 4, err
        assert "requires authentication" in err
        code, _, err = await tube(made, "topic", "create", "orders", token=app)
        assert (code, "user app lacks the permission admin on topic orders" in err) == (4, True), err
        assert (await tube(made, "topic", "create", "orders", token=ops))[0] == 0
        assert (await tube(made, "topic", "create", "payments", token=ops))[0] == 0
        assert [row["name"] for row in await as_json(made, "topic", "list", token=app)] == ["orders"]
        code, _, err = await tube(
            made, "group", "reset", "billing", "--topic", "orders", "--to", "earliest", "--yes", token=app
        )
        assert code == 0, err
        code, _, err = await tube(made, "audit", "list", token=ops)
        assert (code, "lacks the permission admin on the cluster" in err) == (4, True), err

        found = await as_json(made, "audit", "list", "--user", "ops")
        assert [one["target"].split(", ")[0] for one in found] == ["topic payments", "topic orders"]
        assert {one["action"] for one in found} == {"POST /api/v1/topics"}
        assert found[0]["host"] == "127.0.0.1"
        (reset,) = await as_json(made, "audit", "list", "--user", "app")
        assert reset["action"] == "POST /api/v1/groups/{name}/resets"
        assert reset["target"] == "topic orders, group billing"
        assert reset["before"]["1:orders:0"] is None
        assert reset["after"]["1:orders:0"] == 0
        granted = await as_json(made, "audit", "list", "--target", "app", "--since", "-10m")
        assert all(one["user"] == "@http.token" for one in granted if one["action"].startswith("POST /api/v1/users"))
        assert ops not in json.dumps(await as_json(made, "audit", "list"))

        (listed,) = await as_json(made, "user", "token", "list", "ops")
        assert (await tube(made, "user", "token", "revoke", "ops", listed["id"]))[0] == 0
        assert (await tube(made, "topic", "list", token=ops))[0] == 4


async def test_files_with_a_secret_and_a_token_are_made_by_a_redirection_and_taken_as_they_are(tmp_path: Path) -> None:
    async with node(tmp_path / "data") as made:
        files = {"secret": ("user", "create", "ops"), "token": ("user", "token", "create", "ops")}
        for name, arguments in files.items():
            code, out, err = await tube(made, *arguments, "-o", "name")
            assert (code, len(out.splitlines())) == (0, 1), err
            path = tmp_path / name
            path.touch(mode=0o600)
            path.write_text(out)
        await tube(made, "permission", "grant", "ops", "admin", "cluster")
        token_file = f"?token_file={tmp_path / 'token'}"
        code, _, err = await tube(made, "topic", "create", "orders", token="", query=token_file)
        assert code == 0, err
        user = ("--user", "ops", "--secret-file", str(tmp_path / "secret"))
        assert made.endpoints.master is not None
        sent = await command("produce", "orders", "hello", "--master", made.endpoints.master, *user)
        assert (sent.code, sent.err.strip()) == (0, "sent 1 to orders")


async def test_a_password_from_standard_input_signs_in_and_changes_are_the_users(tmp_path: Path) -> None:
    async with node(tmp_path) as made:
        await as_json(made, "user", "create", "ann")
        await tube(made, "permission", "grant", "ann", "admin", "cluster")
        code, _, err = await tube(made, "user", "password", "ann", "--file", "-", given=f"{PASSWORD}\n")
        assert code == 0, err
        code, _, err = await tube(made, "user", "password", "ann", "--file", "-", given="short\n")
        assert (code, "fewer than 12 characters" in err) == (4, True), err
        assert made.endpoints.http is not None
        async with httpx.AsyncClient(base_url=made.endpoints.http) as client:
            body = {"user": "ann", "password": PASSWORD}
            refused = await client.post("/api/v1/session", json={**body, "password": "four random words hers"})
            assert refused.status_code == 401
            assert (await client.post("/api/v1/session", json=body)).status_code == 201
            page = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
            made_topic = await client.post("/api/v1/topics", json={"name": "orders"}, headers=page)
            assert made_topic.status_code == 201
            assert made.master is not None
            assert made.master.catalogue.topics["orders"].stamp.create_user == "ann"
            params = {"method": "admin_update_topic_control_info", "topicName": "orders", "modifyUser": "claimed"}
            form = {**params, "maxMsgSizeInMB": "2", "confModAuthToken": TOKEN}
            client.cookies.clear()
            assert (await client.post("/webapi.htm", data=form)).json()["result"]
            answer = await client.get("/api/v1/audit", headers={"Authorization": f"Bearer {TOKEN}"})
        by_webapi, by_session, refusal = answer.json()[:3]
        assert by_webapi["action"] == "admin_update_topic_control_info"
        assert by_webapi["user"] == "@http.token"
        assert by_webapi["before"] == {"topic orders": {"max_message_bytes": 1 << 20}}
        assert by_webapi["after"] == {"topic orders": {"max_message_bytes": 2 << 20}}
        assert by_session["user"] == "ann"
        assert (refusal["action"], refusal["outcome"], refusal["target"]) == ("sign in", "refused", "user ann")
        assert PASSWORD not in answer.text


async def test_the_trail_outlives_a_restart_also_without_authentication(tmp_path: Path) -> None:
    async with node(tmp_path, "off") as made:
        assert (await tube(made, "topic", "create", "orders"))[0] == 0
        before = await as_json(made, "audit", "list")
        assert [one["action"] for one in before] == ["POST /api/v1/topics"]
        assert (await tube(made, "audit", "list", token=""))[0] == 4
    async with node(tmp_path, "off") as made:
        assert await as_json(made, "audit", "list") == before


async def test_where_access_is_enforced_the_brokers_pages_need_its_token(tmp_path: Path) -> None:
    async with node(tmp_path) as made:
        assert made.endpoints.broker_http is not None
        async with httpx.AsyncClient(base_url=made.endpoints.broker_http) as client:
            params = {"method": "admin_query_pubinfo"}
            assert "requires authentication" in (await client.get("/broker.htm", params=params)).json()["errMsg"]
            wrong = {**params, "confModAuthToken": "wrong"}
            assert "token is wrong" in (await client.get("/broker.htm", params=wrong)).json()["errMsg"]
            right = {"Authorization": f"Bearer {TOKEN}"}
            assert (await client.get("/broker.htm", params=params, headers=right)).json()["result"]
            assert (await client.get("/health")).status_code == 200


async def test_a_user_that_is_disabled_meanwhile_does_not_get_in(tmp_path: Path) -> None:
    async with node(tmp_path) as made:
        assert made.master is not None
        users, by = made.master.registry.users, made.master.change_by("test")
        await users.create("ann", by=by)
        await users.alter("ann", password=Secret(PASSWORD), by=by)
        assert made.endpoints.http is not None
        async with httpx.AsyncClient(base_url=made.endpoints.http) as client:
            body = {"user": "ann", "password": PASSWORD}
            assert (await client.post("/api/v1/session", json=body)).status_code == 201
            assert (await client.get("/api/v1/session")).json()["user"] == "ann"
            await users.alter("ann", enabled=False, by=by)
            assert (await client.get("/api/v1/session")).status_code == 401
            assert (await client.post("/api/v1/session", json=body)).status_code == 401
