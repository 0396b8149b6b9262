"""Answers of many rows: the Master goes on with its other work while it makes them."""

from __future__ import annotations

import asyncio

import pytest

from pytubemq.admin.webapi.long_responses import ROWS_A_TURN
from pytubemq.admin.webapi.params import read_args
from pytubemq.admin.webapi.table import master_table
from pytubemq.model.records import ConsumeRecord
from tests.scenario.webapi.house import House, house

pytestmark = pytest.mark.anyio

TURNS = 4
MANY = TURNS * ROWS_A_TURN
NAMES = [f"t{number}" for number in range(MANY)]

OF_TOPICS: list[tuple[str, dict[str, str]]] = [
    ("admin_query_topic_info", {}),
    ("admin_query_topic_deploy_info", {}),
    ("admin_query_topic_deploy_configure", {}),
    ("admin_query_topic_broker_config_info", {}),
    ("admin_query_cluster_topic_view", {}),
    ("admin_query_topic_control_info", {}),
    ("admin_query_topic_authorize_control", {}),
]
OF_CONSUMERS = [
    ("admin_query_topic_info", {}),
    ("admin_query_topic_deploy_info", {"withGroupAuthInfo": "true"}),
    ("admin_query_topic_authorize_control", {}),
    ("admin_query_group_csmctrl_info", {}),
]


async def turns_of_others(here: House, name: str, params: dict[str, str]) -> int:
    """How often something else could run while a query was answered."""
    method = master_table().find(name)
    turns, ended = 0, asyncio.Event()

    async def others() -> None:
        nonlocal turns
        while not ended.is_set():
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    reply = await method.run(here.town.master, read_args(method.params, params, now_ms=0))
    ended.set()
    await task
    assert reply["result"]
    assert reply["count"]
    return turns


async def test_many_topics() -> None:
    async with house() as here:
        await here.town.broker()
        await here.topics(*NAMES)
        found = {name: await turns_of_others(here, name, params) for name, params in OF_TOPICS}
    assert {name: turns for name, turns in found.items() if turns < TURNS} == {}


async def test_one_topic_of_many_groups() -> None:
    async with house() as here:
        await here.town.broker()
        await here.topics("demo", auth=True)
        await here.town.master.catalogue.apply([ConsumeRecord(name, "demo") for name in NAMES])
        found = {name: await turns_of_others(here, name, params) for name, params in OF_CONSUMERS}
    assert {name: turns for name, turns in found.items() if turns < TURNS} == {}
