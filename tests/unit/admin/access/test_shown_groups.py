"""Queries of `/webapi.htm` that name a topic, by callers that may not describe each of its groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.applications import Starlette

from pytubemq.admin.webapi.routes import master_routes
from pytubemq.security.authentication_mode import AuthenticationMode
from tests.support.http_callers import CALLERS, headers_of, master, own_access, with_users

if TYPE_CHECKING:
    from pytubemq.master.service import MasterService

pytestmark = pytest.mark.anyio
BOTH = ["audits", "billing"]
SEEN: dict[str, list[str]] = {"producer": [], "consumer": ["billing"], "owner": ["billing"]} | dict.fromkeys(
    ("operator", "admin", "server"), BOTH
)
"""The groups that each caller may describe."""
WITH_MEMBERS = ("admin_query_group_info_by_topic", "admin_query_sub_info")
WITH_RULES = (
    "admin_query_topic_authorize_control",
    "admin_query_topic_deploy_info",
    "admin_query_topic_info",
    "admin_query_group_csmctrl_info",
    "admin_query_booked_csmctrl_groups",
    "admin_query_black_consumer_group_info",
    "admin_query_allowed_consumer_group_info",
    "admin_query_group_filtercond_info",
)


async def _with_groups(made: MasterService) -> None:
    """Let both groups have members, and rules about the topic; the one is denied it, the other allowed."""
    by = {"createUser": "test"}
    async with httpx.AsyncClient(transport=_app(made), base_url="http://127.0.0.1:8080") as http:
        for form in (
            {"method": "admin_add_broker_configure", "brokerIp": "127.0.0.1", "brokerId": "1"},
            {"method": "admin_add_topic_deploy_info", "topicName": "orders", "brokerId": "1"},
            {"method": "admin_set_topic_authorize_control", "topicName": "orders", "isEnable": "true"},
            {"method": "admin_add_authorized_consumergroup_info", "topicName": "orders", "groupName": "billing"},
            {"method": "admin_add_black_consumergroup_info", "topicName": "orders", "groupName": "audits"},
        ):
            answer = await http.post("/webapi.htm", data=form | by, headers=headers_of(own_access().token))
            assert answer.json()["result"], answer.text
    for name in BOTH:
        group: Any = SimpleNamespace(name=name, terms=SimpleNamespace(topics={"orders": {}}), members={})
        made.group_room.groups[name] = group


def _app(made: MasterService) -> httpx.ASGITransport:
    return httpx.ASGITransport(Starlette(routes=master_routes(made, own_access(), made.http_access)))


async def _shown(http: httpx.AsyncClient, method: str, token: str) -> set[str]:
    """Return which of the groups a response names."""
    params = {"method": method, "topicName": "orders", "withGroupAuthInfo": "true"}
    answer = await http.get("/webapi.htm", params=params, headers=headers_of(token))
    assert answer.json()["result"], answer.text
    return {name for name in BOTH if name in answer.text}


@pytest.mark.parametrize("method", [*WITH_MEMBERS, *WITH_RULES])
async def test_a_query_about_a_topic_names_the_groups_that_its_caller_may_describe(method: str) -> None:
    async with master() as made:
        tokens = await with_users(made)
        await _with_groups(made)
        shown = {}
        async with httpx.AsyncClient(transport=_app(made), base_url="http://127.0.0.1:8080") as http:
            for caller in SEEN:
                shown[caller] = await _shown(http, method, tokens[caller])
        made.group_room.groups.clear()
    seen = {caller: set(groups) for caller, groups in SEEN.items()}
    if method in WITH_RULES:
        seen["owner"] = set(BOTH)  # who may admin the topic makes its rules
    about = shown["admin"]
    assert about, "the query shows groups at all"
    assert shown == {caller: groups & about for caller, groups in seen.items()}


async def test_where_access_is_not_enforced_all_are_shown() -> None:
    for mode in (AuthenticationMode.OFF, AuthenticationMode.PERMISSIVE):
        async with master(mode) as made:
            await _with_groups(made)
            async with httpx.AsyncClient(transport=_app(made), base_url="http://127.0.0.1:8080") as http:
                for method in WITH_MEMBERS:
                    assert await _shown(http, method, "") == set(BOTH)
            made.group_room.groups.clear()


def test_every_caller_that_there_is_has_its_groups_here() -> None:
    assert set(SEEN) == set(CALLERS) - {"nobody"}
