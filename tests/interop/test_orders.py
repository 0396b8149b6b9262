"""Our Broker under a Java Master: when topics can be written, flow control, a topic removed, a Master lost."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.broker.service import BrokerService, BrokerSettings
from pytubemq.core.flow import parse_rules
from pytubemq.model.ids import Address
from tests.scenario.broker.support import connected, item
from tests.support.ports import free_port
from tests.support.waiting import until, until_answer

from .fetch import fetch
from .processes import JavaMaster
from .webapi import WebApi, until_answers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio
RULES = [{"type": 0, "rule": [{"start": "00:00", "end": "24:00", "dltInM": 21, "limitInM": 1, "freqInMs": 1000}]}]


@pytest.fixture
async def master(tmp_path: Path) -> AsyncIterator[JavaMaster]:
    java = fetch()
    running = JavaMaster(java, tmp_path / "master")
    await running.start()
    try:
        await until_answers(running)
        yield running
    finally:
        await running.kill()


def broker(master: JavaMaster, port: int, tmp_path: Path) -> BrokerService:
    return BrokerService(
        BrokerSettings(
            broker_id=2,
            listen=Address("127.0.0.1", port),
            data_dir=tmp_path / "data",
            masters=(Address("127.0.0.1", master.port),),
            heartbeat_period_s=0.5,
        )
    )


async def writable(api: WebApi, topic: str) -> bool:
    rows = await api.query("admin_query_topic_info", topicName=topic)
    return bool(rows) and bool(rows[0].get("isSrvAcceptPublish"))


async def until_writable(api: WebApi, *topics: str) -> float:
    """Wait until producers are given all these topics; how long that took, s."""
    began_s = time.monotonic()
    for topic in topics:
        await until_answer(partial(writable, api, topic), timeout_s=120)
    return time.monotonic() - began_s


async def test_a_java_masters_word(master: JavaMaster, tmp_path: Path) -> None:
    api, port = WebApi(master.web), free_port("127.0.0.1")
    await api.modify(
        "admin_add_broker_configure", brokerId=2, brokerIp="127.0.0.1", brokerPort=port, manageStatus="online"
    )
    await api.modify("admin_add_new_topic_record", brokerId=2, topicName="kept,gone", numPartitions=2)
    ours = broker(master, port, tmp_path)
    await ours.start()
    try:
        first_s = await until_writable(api, "kept", "gone")
        await ours.close()
        ours = broker(master, port, tmp_path)
        await ours.start()
        again_s = await until_writable(api, "kept", "gone")
        assert again_s < first_s / 2, "who says that it serves already is believed at once"
        await _flow(api, ours)
        await _removal(api, ours)
        await master.kill()
        await until(lambda: ours.health()["status"] == "degraded")
        await master.start()
        await until(lambda: ours.health()["status"] == "ok", timeout_s=60)
        await until_answers(master)
        await until_writable(api, "kept")
    finally:
        await ours.close()


async def _flow(api: WebApi, ours: BrokerService) -> None:
    assert ours._state is not None
    flow = ours._state.flow
    await api.modify(
        "admin_set_cluster_default_setting", flowCtrlEnable=True, flowCtrlInfo=json.dumps(RULES), qryPriorityId=302
    )
    await until(lambda: flow.limits and flow.priority_id == 302)
    assert flow.rules == parse_rules(json.dumps(RULES))
    await api.modify("admin_set_cluster_default_setting", flowCtrlEnable=False)
    await until(lambda: not flow.limits)


async def _removal(api: WebApi, ours: BrokerService) -> None:
    state = ours._state
    assert state is not None
    async with connected(ours) as peer:
        peer.topic = "gone"
        assert (await peer.send_each([item(b"old")] * 3)).success
        await peer.register()
        where: dict[str, Any] = {"brokerId": 2, "topicName": "gone"}
        await api.modify("admin_modify_topic_info", **where, acceptPublish=False, acceptSubscribe=False)
        await api.modify("admin_delete_topic_info", **where)
        await until(lambda: (served := state.topics.get("gone")) is not None and not served.writable)
        assert len((await peer.get())[1]) == 3, "a soft delete leaves it readable"
        await api.modify("admin_remove_topic_info", **where)
        await until(lambda: state.topics.get("gone") is None and ("gone", 0) not in state.store.partitions())
        assert not [key for key in state.store.positions() if key[1] == "gone"]
    assert ours._orders is not None
    removal = ours._orders.removal
    await until(lambda: not removal.hidden, timeout_s=60)
    assert not await api.query("admin_query_topic_info", topicName="gone"), "the Master has heard of it"
