"""Every caller at every route and method, about what is its own and what is another's."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pytubemq.admin.access import needs
from pytubemq.admin.access.gate import Gate
from pytubemq.admin.access.guarded_routes import guard
from pytubemq.admin.access.method_permissions import (
    BROKER_PERMISSIONS,
    TEXT_PERMISSIONS,
    WEBAPI_PERMISSIONS,
)
from pytubemq.admin.access.needs import HttpNeed, Row
from pytubemq.admin.access.route_permissions import BROKER_ROUTE_PERMISSIONS, ROUTE_PERMISSIONS
from pytubemq.admin.api import NAMES_OF, Api, is_dry_run
from pytubemq.admin.app import create_app
from pytubemq.admin.broker_api.table import BrokerTable
from pytubemq.admin.problems import ApiError, on_api_error
from pytubemq.admin.webapi.call_gate import CallGate
from pytubemq.admin.webapi.dispatch import WebApi
from pytubemq.admin.webapi.envelope import success
from pytubemq.admin.webapi.method import Method, Table
from pytubemq.admin.webapi.routes import master_routes
from pytubemq.admin.webapi.table import master_table
from pytubemq.admin.webapi.text import TextQueries
from pytubemq.security.authentication_mode import AuthenticationMode
from tests.support.http_callers import (
    ALLOWED,
    CALLERS,
    OTHERS,
    OWN,
    headers_of,
    master,
    own_access,
    with_users,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from pytubemq.admin.webapi.params import Param

pytestmark = pytest.mark.anyio
WHERE = {"own": OWN, "other's": OTHERS}
BODIES: dict[str, Any] = {
    "POST /api/v1/topics": lambda names: {"name": names["topic"]},
    "POST /api/v1/topics:batch": lambda names: {"topics": [{"name": names["topic"]}]},
    "POST /api/v1/groups/{name}/resets": lambda names: {"topic": names["topic"], "to": "latest"},
}


async def _served(_: Request) -> Response:
    return PlainTextResponse("served")


@asynccontextmanager
async def client(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8080") as made:
        yield made


def may(caller: str, row: tuple[HttpNeed, ...], where: str) -> bool:
    """Whether a call is served, by the table that people have written."""
    own, others = ALLOWED[row]
    return caller in (own if where == "own" else others)


# --- routes -----------------------------------------------------------------------------------------------------


async def test_every_route_for_everyone() -> None:
    async with master() as made:
        tokens = await with_users(made)
        gate = Gate(own_access(), made.http_access)
        real = [*Api(made, gate).routes(), *master_routes(made, own_access(), made.http_access)]
        stubs = [Route(route.path, _served, methods=sorted(route.methods or ())) for route in real]
        app = Starlette(
            routes=guard(stubs, gate, ROUTE_PERMISSIONS, NAMES_OF, is_dry_run=is_dry_run),
            exception_handlers={ApiError: on_api_error},
        )
        cells = 0
        async with client(app) as http:
            for key, row in ROUTE_PERMISSIONS.items():
                if key == "GET /metrics" or needs.ITS_METHOD in row.needs:
                    continue  # the first is a stub of another room, the others are tested method by method
                for where, names in WHERE.items():
                    for caller in CALLERS:
                        answer = await _call(http, key, names, caller, tokens, where)
                        expected = 200 if may(caller, row.needs, where) else 401 if caller == "nobody" else 403
                        assert answer.status_code == expected, (key, where, caller, answer.text)
                        cells += 1
        assert cells == 2 * len(CALLERS) * (len(ROUTE_PERMISSIONS) - 5)


async def _call(
    http: httpx.AsyncClient, key: str, names: dict[str, str], caller: str, tokens: dict[str, str], where: str
) -> httpx.Response:
    method, path = key.split()
    kind = path.split("/")[3] if path.startswith("/api/v1/") else ""
    name = {"topics": names["topic"], "groups": names["group"]}.get(kind, caller if where == "own" else "somebody")
    body = BODIES[key](names) if key in BODIES else None
    return await http.request(
        method, path.format(name=name, token="0", id="1"), json=body, headers=headers_of(tokens[caller])
    )


async def test_a_route_without_a_row_is_not_served() -> None:
    async with master() as made:
        gate = Gate(own_access(), made.http_access)
        with pytest.raises(ValueError, match="POST /more has no row"):
            guard([Route("/more", _served, methods=["POST"])], gate, ROUTE_PERMISSIONS, {})
        with pytest.raises(ValueError, match="GET /more has no row"):
            create_app(made, pages=[Route("/more", _served)], access=own_access())


async def test_the_tables_have_no_row_without_a_route() -> None:
    async with master() as made:
        routes = [*Api(made, Gate(None)).routes(), *master_routes(made, own_access())]
        served = {f"{method} {route.path}" for route in routes for method in (route.methods or {"GET"}) - {"HEAD"}}
        assert set(ROUTE_PERMISSIONS) == served | {"GET /metrics"}
    assert set(BROKER_ROUTE_PERMISSIONS) == {"GET /metrics", "GET /health", "GET /{path:path}", "POST /{path:path}"}


# --- methods ----------------------------------------------------------------------------------------------------


def test_every_method_has_a_row_and_every_row_a_method() -> None:
    assert {method.name for method in master_table().methods} == set(WEBAPI_PERMISSIONS)
    assert {method.name for method in BrokerTable().methods} == set(BROKER_PERMISSIONS)
    assert all(row in ALLOWED for table in (WEBAPI_PERMISSIONS, TEXT_PERMISSIONS) for row in table.values())


def test_a_change_needs_more_than_to_see() -> None:
    for method in master_table().methods:
        for need in WEBAPI_PERMISSIONS[method.name]:
            assert (need.operation in ("admin", "operate")) is method.modify, method.name


class Stubs(Table[None]):
    """The real methods with their parameters, and nothing behind them."""

    def __init__(self, real: Table[Any]) -> None:
        async def run(_: Any, __: Any) -> Any:
            return success()

        super().__init__(
            [replace(method, run=run) for method in real.methods if method.name != "admin_get_methods"], {}
        )


def filled(method: Method[Any], names: dict[str, str]) -> dict[str, str]:
    """Return what a call of a method needs, and the names that it may have."""
    return {param.name: _value(param, names) for param in method.params if param.required or param.name in _NAMED}


_NAMED = ("topicName", "groupName")
_VALUES = {
    "createUser": "me", "modifyUser": "me", "brokerId": "1", "brokerIp": "127.0.0.1", "consumerId": "c",
    "regionId": "1", "flowCtrlInfo": "[]", "filterConds": ",a,", "statsType": "all",
}  # fmt: skip


def _value(param: Param, names: dict[str, str]) -> str:
    if param.items:
        inner = {one.name: _value(one, names) for one in param.items if one.required or one.name in _NAMED}
        return json.dumps([inner or {"brokerId": 1, "brokerIp": "127.0.0.1"}])
    if param.name in _NAMED:
        return names["topic" if param.name == "topicName" else "group"]
    return _VALUES[param.name]


@pytest.mark.slow
async def test_every_method_for_everyone_by_all_its_names() -> None:
    async with master() as made:
        tokens = await with_users(made)
        calls = CallGate(Gate(own_access(), made.http_access), WEBAPI_PERMISSIONS)
        stubs = Stubs(master_table())
        api = WebApi(stubs, None, calls, wall_ms=lambda: 0)
        cells = 0
        async with client(Starlette(routes=[Route("/webapi.htm", api.answer, methods=["POST"])])) as http:
            for method in stubs.methods:
                row = WEBAPI_PERMISSIONS[method.name]
                for name in (method.name, *method.aliases):
                    for where, names in WHERE.items():
                        for caller in CALLERS:
                            form = {"method": name, **filled(method, names)}
                            form |= {"confModAuthToken": tokens[caller]} if tokens[caller] else {}
                            found = (await http.post("/webapi.htm", data=form)).json()
                            served = may(caller, row, where)
                            assert found["result"] is served, (name, where, caller, found)
                            if not served:
                                wanted = "requires authentication" if caller == "nobody" else "lacks the permission"
                                assert wanted in found["errMsg"], (name, where, caller)
                            cells += 1
        assert cells == 2 * len(CALLERS) * sum(1 + len(method.aliases) for method in master_table().methods)


async def test_the_log_names_who_was_identified_and_not_whom_a_call_names(caplog: pytest.LogCaptureFixture) -> None:
    async with master() as made:
        tokens = await with_users(made)
        calls = CallGate(Gate(own_access(), made.http_access), WEBAPI_PERMISSIONS)
        stubs = Stubs(master_table())
        api = WebApi(stubs, None, calls, wall_ms=lambda: 0)
        method = stubs.find("admin_delete_topic_control_info")
        form = {"method": method.name, **filled(method, OWN), "modifyUser": "somebody_else"}
        async with client(Starlette(routes=[Route("/webapi.htm", api.answer, methods=["POST"])])) as http:
            with caplog.at_level("INFO"):
                found = await http.post("/webapi.htm", data=form, headers=headers_of(tokens["owner"]))
        assert found.json()["result"], found.text
        assert "by owner from 127.0.0.1: done" in caplog.text
        assert "somebody_else" not in caplog.text


async def test_what_names_nothing_is_about_all() -> None:
    async with master() as made:
        tokens = await with_users(made)
        calls = CallGate(Gate(own_access(), made.http_access), WEBAPI_PERMISSIONS)
        api = WebApi(Stubs(master_table()), None, calls, wall_ms=lambda: 0)
        async with client(Starlette(routes=[Route("/webapi.htm", api.answer)])) as http:
            for caller in CALLERS:
                params = {"method": "admin_query_topic_info"}
                found = await http.get("/webapi.htm", params=params, headers=headers_of(tokens[caller]))
                assert found.json()["result"] is (caller in ("operator", "admin", "server")), caller
            mixed = {"method": "admin_query_topic_info", "topicName": "orders,payments"}
            found = await http.get("/webapi.htm", params=mixed, headers=headers_of(tokens["owner"]))
            assert "describe on topic payments" in found.json()["errMsg"]


async def test_every_text_query_for_everyone() -> None:
    async with master() as made:
        tokens = await with_users(made)
        queries = TextQueries(made, CallGate(Gate(own_access(), made.http_access), TEXT_PERMISSIONS))
        assert set(queries.kinds) == set(TEXT_PERMISSIONS)
        async with client(Starlette(routes=[Route("/master.htm", queries.answer)])) as http:
            for kind, row in TEXT_PERMISSIONS.items():
                for where, names in WHERE.items():
                    for caller in CALLERS:
                        params = {"type": kind, "topic": names["topic"], "group": names["group"]}
                        answer = await http.get("/master.htm", params=params, headers=headers_of(tokens[caller]))
                        assert answer.is_success is may(caller, row, where), (kind, where, caller, answer.text)
            by_id = {"type": "producer", "topic": "orders", "id": "somebody"}
            answer = await http.get("/master.htm", params=by_id, headers=headers_of(tokens["owner"]))
            assert "describe on the cluster" in answer.text, "a client by its id is not about the topic"


async def test_a_group_that_there_is_not_names_no_group_that_is_not_the_callers() -> None:
    async with master() as made:
        tokens = await with_users(made)
        queries = TextQueries(made, CallGate(Gate(own_access(), made.http_access), TEXT_PERMISSIONS))
        await made.registry.users.grant("consumer", "consume", "group", "billing*", by=made.change_by("test"))
        made.group_room.groups |= dict.fromkeys(("audits", "billing-2"))  # type: ignore[arg-type]
        async with client(Starlette(routes=[Route("/master.htm", queries.answer)])) as http:
            for kind in ("consumer", "sub_info"):
                shown = {}
                for caller in ("consumer", "operator"):
                    params = {"type": kind, "group": "billing"}
                    answer = await http.get("/master.htm", params=params, headers=headers_of(tokens[caller]))
                    shown[caller] = answer.text.splitlines()[3:]
                assert shown == {"consumer": ["billing-2"], "operator": ["audits", "billing-2"]}
        made.group_room.groups.clear()


async def test_a_group_is_shown_in_a_topic_only_to_who_may_see_both() -> None:
    async with master() as made:
        tokens = await with_users(made)
        app = create_app(made, pages=master_routes(made, own_access(), made.http_access), access=own_access(),
                         http=made.http_access)  # fmt: skip
        async with client(app) as http:
            for topic, seen in (("payments", False), ("nothing", False), ("", False), ("orders", True)):
                path = f"/api/v1/groups/billing?topic={topic}"
                found = await http.get(path, headers=headers_of(tokens["consumer"]))
                assert (found.status_code != 403) is seen, (topic, found.text)


@pytest.mark.parametrize("mode", [AuthenticationMode.OFF, AuthenticationMode.ENFORCED])
async def test_a_broker_where_access_is_enforced_listens_to_its_own_token_alone(mode: AuthenticationMode) -> None:
    class Callers:
        def __init__(self) -> None:
            self.mode = mode

        def by_token(self, text: str) -> None:
            return None

        async def by_oidc_token(self, text: str, host: str) -> None:
            return None

        def by_session(self, token: str) -> None:
            return None

        def warn(self, text: str) -> None:
            pass

    stubs = Stubs(BrokerTable())
    names = {"topicName": "orders", "groupName": "billing"}
    calls = CallGate(Gate(own_access(), callers=Callers()), BROKER_PERMISSIONS)
    api = WebApi(stubs, None, calls, wall_ms=lambda: 0)
    async with client(Starlette(routes=[Route("/broker.htm", api.answer, methods=["POST"])])) as http:
        for method in stubs.methods:
            form = {"method": method.name} | {
                param.name: names.get(param.name, "billing" if "roup" in param.name else "1")
                for param in method.params
                if param.required
            }
            for token in ("", own_access().token):
                found = (await http.post("/broker.htm", data=form, headers=headers_of(token))).json()
                served = bool(token) or (mode is not AuthenticationMode.ENFORCED and not method.modify)
                assert ("authentication" in found["errMsg"] or "token" in found["errMsg"]) is not served, found


def test_a_row_without_names_needs_the_cluster() -> None:
    from pytubemq.admin.access.gate import permissions_of

    found = permissions_of(Row((needs.CHANGE_TOPIC,)), needs.Names(groups=("billing",)))
    assert [str(operation) for operation, _, _ in found] == ["operate"]
    found = permissions_of(Row((needs.SEE_TOPIC, needs.SEE_GROUP)), needs.Names(groups=("billing",)))
    assert [(str(operation), str(kind), name) for operation, kind, name in found] == [("describe", "group", "billing")]
