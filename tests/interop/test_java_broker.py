"""A Java Broker at our Master, looked after over /webapi.htm: let in, given more, rid of a topic, kept off clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.admin.app import create_app
from pytubemq.admin.serving.http import HttpServer
from pytubemq.admin.webapi.authorization import Access
from pytubemq.admin.webapi.routes import master_routes
from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.model.ids import Address
from tests.support.waiting import until

from .fetch import fetch
from .processes import TOKEN, JavaBroker
from .webapi import WebApi

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.anyio, pytest.mark.timeout(300)]

WAIT_S = 90.0
"""A Java Broker beats every 8 s, and takes two beats to carry a change out and to say so."""


@pytest.fixture
async def master(tmp_path: Path) -> AsyncIterator[tuple[MasterService, WebApi]]:
    made = MasterService(
        MasterSettings(listen=Address("127.0.0.1", 0), data_dir=tmp_path / "master", foreign_topic_timeout_s=WAIT_S)
    )
    await made.start()
    server = HttpServer(create_app(made, pages=master_routes(made, Access(TOKEN))), Address("127.0.0.1", 0))
    try:
        yield made, WebApi(f"http://{await server.start()}")
    finally:
        await server.close()
        await made.close()


async def test_a_java_broker_is_looked_after(master: tuple[MasterService, WebApi], tmp_path: Path) -> None:
    ours, api = master
    broker = JavaBroker(fetch(), tmp_path / "broker", broker_id=1, host="127.0.0.1", masters=str(ours.address))
    added = {"brokerId": 1, "brokerIp": "127.0.0.1", "brokerPort": broker.port, "manageStatus": "online"}
    await api.modify("admin_add_broker_configure", **added, numPartitions=2)
    await api.modify("admin_add_new_topic_record", brokerId=1, topicName="kept,gone")
    await broker.start()
    try:
        await until(lambda: _partitions(ours, "kept") == _partitions(ours, "gone") == 2, timeout_s=WAIT_S)
        (status,) = await api.query("admin_query_broker_run_status", brokerId=1)
        assert (status["runStatus"], status["subStatus"], status["isConfLoaded"]) == ("running", "idle", "true")

        beyond = {"deletePolicy": "delete,72h,10GB", "durability": "memory"}
        await api.modify("admin_modify_topic_info", brokerId=1, topicName="kept", numPartitions=5, **beyond)
        await until(lambda: _partitions(ours, "kept") == 5, timeout_s=WAIT_S)
        told = [text for text in ours.broker_room.runs[1].reported_topics if text.startswith("kept:5:")]
        assert ":delete,72h:" in told[0], "of what it has no words for it is told the age alone"

        shown = await ours.topic("kept")
        assert (shown.messages, shown.unreachable) == (None, []), "it answers, but not this"
        assert "broker 1 at 127.0.0.1" in shown.unsupported[0]
        assert "is not a pytubemq Broker" in shown.unsupported[0]

        where: dict[str, Any] = {"brokerId": 1, "topicName": "gone"}
        await api.modify("admin_modify_topic_info", **where, acceptPublish=False, acceptSubscribe=False)
        assert _partitions(ours, "gone") == 0, "closed at once"
        await api.modify("admin_delete_topic_info", **where)
        await api.modify("admin_remove_topic_info", **where)
        await until(lambda: not ours.catalogue.deployed("gone"), timeout_s=WAIT_S)

        # In one step each, which waits for its heartbeats.
        assert (await ours.create_topic("gone", 3)).places[0].ready
        removal = await ours.delete_topic("gone")
        assert (removal.removed, removal.pending) == (True, [])
        assert (await ours.create_topic("gone", 1)).places[0].ready

        await api.modify("admin_offline_broker_configure", brokerId=1)
        assert _partitions(ours, "kept") == 0
        await api.modify("admin_online_broker_configure", brokerId=1)
        assert _partitions(ours, "kept") == 5
    finally:
        await broker.kill()


def _partitions(master: MasterService, topic: str) -> int:
    """What producers are told of a topic; as many as consumers may have."""
    told = sum(place.partitions * place.stores for place in master.broker_room.topics.publishing(topic))
    assert told == len(master.broker_room.topics.consumable((topic,))[0])
    return told
