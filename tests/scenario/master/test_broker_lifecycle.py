"""Brokers that an operator looks after: who may register, what status, growth, faults and removal do, over sockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import DiskFullError
from pytubemq.master.registry.audit import Audit
from pytubemq.master.registry.brokers import BrokerSpec
from pytubemq.master.registry.topics import DeploySpec
from pytubemq.model.ids import Address
from pytubemq.model.records import ManageStatus, TopicProps
from pytubemq.wire.protocol.extensions import Capability
from tests.scenario.master.town import WAIT_MS, FakeBroker, FakeProducer, town
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenario.master.town import Town

pytestmark = pytest.mark.anyio

BY = Audit("ann", 1000)
FOREIGN = Capability(0)
CLOSED = TopicProps(accept_publish=False, accept_subscribe=False)


async def configured(t: Town, *, status: ManageStatus = ManageStatus.ONLINE, **fields: Any) -> None:
    """A record of Broker 1 by an operator."""
    spec = BrokerSpec(1, "127.0.0.9", 8123, manage_status=status, **fields)
    await t.master.registry.brokers.add([(spec, BY)])


async def deploy(t: Town, topic: str, **props: Any) -> None:
    found = await t.master.registry.topics.deploy([(DeploySpec(topic, 1, TopicProps(**props)), BY)])
    assert found[0].ok


async def change(t: Town, topic: str, props: TopicProps) -> None:
    found = await t.master.registry.topics.update_deploy([(DeploySpec(topic, 1, props), BY)])
    assert found[0].ok


async def set_status(t: Town, status: ManageStatus) -> None:
    found = await t.master.registry.brokers.set_status([1], status, by=BY)
    assert found[0].ok


async def test_one_that_has_not_taken_its_last_change_is_not_deleted() -> None:
    async with town() as t:
        await configured(t)
        broker = await t.peer(FakeBroker)
        await broker.register()
        await broker.heartbeat()
        await change(t, "__offset_history__", CLOSED)
        await set_status(t, ManageStatus.OFFLINE)
        brokers = t.master.registry.brokers
        (refused,) = await brokers.delete([1], with_topics=True)
        assert (refused.code, "last change" in refused.text) == (406, True)
        assert 1 in t.master.catalogue.brokers
        await broker.heartbeat()  # takes the change
        await broker.heartbeat()  # and says so
        assert [one.code for one in await brokers.delete([1], with_topics=True)] == [200]


@pytest.mark.parametrize("client_id", ["1:127.0.0.8:8123:2.4.0", "1:127.0.0.9:8124:2.4.0"])
async def test_a_configured_broker_comes_from_its_address_only(client_id: str) -> None:
    async with town() as t:
        await configured(t)
        broker = await t.peer(FakeBroker)
        refused = await broker.register_as(client_id)
        assert refused.err_code == 400
        assert "known at 127.0.0.9:8123" in refused.err_msg
        assert (await broker.register()).success


async def test_its_tls_port_is_checked_too_and_one_that_names_none_has_the_clusters() -> None:
    async with town() as t:
        await configured(t, tls_port=9124)
        broker = await t.peer(FakeBroker)
        assert "TLS port 9124" in (await broker.register()).err_msg
        await t.master.registry.brokers.update([(BrokerSpec(1, tls_port=8124), BY)])
        assert (await broker.register()).success


async def test_a_draft_may_not_register_and_gets_the_systems_topic_when_it_is_online() -> None:
    async with town() as t:
        await configured(t, status=ManageStatus.DRAFT)
        broker = await t.peer(FakeBroker)
        refused = await broker.register()
        assert (refused.err_code, "draft" in refused.err_msg) == (400, True)
        await set_status(t, ManageStatus.ONLINE)
        answer = await broker.register()
        assert answer.broker_topic_set_conf_info == ("__offset_history__:10: : : : : : : :0: : : : : ",)
        await broker.heartbeat()
        assert await t.master.topics() == [], "it is nobody's topic"
        assert (await t.master.health()).status == "healthy"


async def test_a_status_opens_and_closes_a_broker_for_producers_and_consumers_at_once() -> None:
    async with town() as t:
        await configured(t)
        await deploy(t, "demo", num_partitions=2)
        broker = await t.peer(FakeBroker)
        await broker.register()
        await broker.heartbeat()
        room = t.master.broker_room
        for status in (
            ManageStatus.ONLY_READ,
            ManageStatus.ONLY_WRITE,
            ManageStatus.OFFLINE,
            ManageStatus.ONLINE,
        ):
            await set_status(t, status)
            assert bool(room.topics.publishing("demo")) == status.publishes
            assert bool(room.topics.consumable(("demo",))[0]) == status.subscribes


async def test_a_producer_that_waits_learns_of_more_partitions_as_soon_as_the_broker_has_them() -> None:
    async with town() as t:
        await configured(t)
        await deploy(t, "demo", num_partitions=2)
        broker = await t.peer(FakeBroker)
        await broker.register()
        await broker.heartbeat()
        producer = await t.peer(FakeProducer)
        await producer.register()
        assert (await producer.heartbeat("demo")).topic_infos == ("demo#1:2:1#",)
        held = asyncio.create_task(producer.heartbeat("demo", wait_ms=WAIT_MS))
        waiting = asyncio.create_task(broker.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master.broker_room.held and t.master.producer_room.held)
        await change(t, "demo", TopicProps(num_partitions=5))
        assert "demo:5:" in (await waiting).broker_topic_set_conf_info[1]
        assert not held.done()
        await broker.heartbeat()
        assert (await held).topic_infos == ("demo#1:5:1#",)


async def test_what_is_no_longer_accepted_is_closed_before_the_broker_has_heard_of_it() -> None:
    async with town() as t:
        await configured(t)
        await deploy(t, "demo")
        broker = await t.peer(FakeBroker, capabilities=FOREIGN)
        await broker.register()
        await broker.heartbeat()
        assert t.master.broker_room.topics.publishing("demo")
        await change(t, "demo", CLOSED)
        assert not t.master.broker_room.topics.publishing("demo")
        assert t.master.broker_room.topics.consumable(("demo",)) == (frozenset(), frozenset())


async def test_a_topic_is_told_as_removed_until_the_broker_says_that_it_is() -> None:
    async with town() as t:
        await configured(t)
        await deploy(t, "demo")
        broker = await t.peer(FakeBroker)
        await broker.register()
        await broker.heartbeat()
        await change(t, "demo", CLOSED)
        target = [(DeploySpec("demo", 1), BY)]
        await t.master.registry.topics.soft_delete(target)
        soft = await broker.heartbeat()
        assert any(text.startswith("demo: :false:false: : : : : :1:") for text in soft.broker_topic_set_conf_info)
        # What a Broker says to have removed without being asked to stays.
        await broker.heartbeat(take_removed_topic_info=True, removed_topics_info=("demo",))
        held = asyncio.create_task(broker.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master.broker_room.held)
        await t.master.registry.topics.remove(target)
        told = await held
        assert [text[:5] for text in told.remove_topic_conf_info] == ["demo:"]
        assert not any(text.startswith("demo:") for text in told.broker_topic_set_conf_info)
        again = await broker.heartbeat()
        assert again.remove_topic_conf_info == told.remove_topic_conf_info
        await broker.heartbeat(take_removed_topic_info=True, removed_topics_info=("demo",))
        await until(lambda: not t.master.catalogue.deployed("demo"))
        assert (await broker.heartbeat()).remove_topic_conf_info == ()
        assert await t.master.registry.topics.delete(["demo"], by=BY)


async def test_a_foreign_broker_that_reports_faults_loses_what_it_cannot_do_until_it_is_let_go(tmp_path: Path) -> None:
    async with town(data_dir=tmp_path) as t:
        await configured(t)
        await deploy(t, "demo")
        broker = await t.peer(FakeBroker, capabilities=FOREIGN)
        await broker.register()
        await broker.heartbeat()
        await broker.heartbeat(write_status_rpt=-1)
        await until(lambda: t.master.catalogue.brokers[1].manage_status is ManageStatus.ONLY_READ)
        assert t.master.catalogue.brokers[1].stamp.modify_user == "Broker AutoReport"
        answer = await broker.heartbeat()
        assert (answer.stop_write, answer.stop_read) == (True, False)
        t.master.registry.brokers.release_forbidden([1])
        assert not (await broker.heartbeat()).stop_write
        assert t.master.catalogue.brokers[1].manage_status is ManageStatus.ONLY_READ, "it stays as it is"
    async with town(data_dir=tmp_path) as t:
        assert t.master.catalogue.brokers[1].manage_status is ManageStatus.ONLY_READ


async def test_a_broker_of_ours_is_spared_only_as_long_as_it_reports_a_fault() -> None:
    async with town() as t:
        await configured(t)
        await deploy(t, "demo")
        broker = await t.peer(FakeBroker)
        await broker.register()
        await broker.heartbeat()
        assert not (await broker.heartbeat(write_status_rpt=-1)).stop_write
        assert not t.master.broker_room.topics.publishing("demo")
        await broker.heartbeat()
        assert t.master.broker_room.topics.publishing("demo")
        assert t.master.catalogue.brokers[1].manage_status is ManageStatus.ONLINE


async def test_a_broker_that_was_deleted_while_it_ran_does_not_come_back_by_itself() -> None:
    async with town() as t:
        broker = await t.broker()
        await set_status(t, ManageStatus.OFFLINE)
        assert (await t.master.registry.brokers.delete([1], with_topics=True))[0].ok
        assert (await broker.heartbeat()).err_code == 411
        refused = await broker.register()
        assert (refused.err_code, "was deleted" in refused.err_msg) == (400, True)
        await configured(t)
        assert (await broker.register()).success


async def test_new_rules_reach_a_waiting_broker_at_once_and_blank_ones_take_them_back() -> None:
    rules = '[{"type":1,"rule":[{"zeroCnt":3,"freqInMs":300}]}]'
    async with town() as t:
        broker = await t.broker()
        await broker.heartbeat()
        for given, expected in (
            ({"flow_ctrl_enable": True, "flow_ctrl_info": rules}, rules),
            ({"flow_ctrl_enable": False}, " "),
        ):
            held = asyncio.create_task(broker.heartbeat(wait_ms=WAIT_MS))
            await until(lambda: t.master.broker_room.held)
            await t.master.registry.cluster.update_defaults(given, TopicProps(), by=BY)
            answer = await held
            assert answer.flow_control_info == expected
            assert answer.flow_check_id == t.master.catalogue.cluster.stamp.serial_id


async def test_a_reload_tells_everything_again() -> None:
    async with town() as t:
        broker = await t.broker()
        held = asyncio.create_task(broker.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master.broker_room.held)
        assert [outcome.code for outcome in t.master.registry.brokers.reload([1, 7])] == [200, 401]
        assert (await held).take_conf_info
        assert not (await broker.heartbeat()).take_conf_info


async def test_who_made_itself_known_may_still_move() -> None:
    async with town(lost_connection_grace_s=30.0) as t:
        first = await t.broker()
        await first.close()
        await until(lambda: t.master.broker_room.runs[1].lost)
        moved = await t.peer(FakeBroker, address=Address("127.0.0.7", 9123))
        assert (await moved.register()).success
        assert t.master.catalogue.brokers[1].address == Address("127.0.0.7", 9123)


async def test_what_cannot_be_stored_shows_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object, __: object) -> None:
        raise DiskFullError("no space left to write meta.db")

    async with town() as t:
        await configured(t)
        broker = await t.peer(FakeBroker, capabilities=FOREIGN)
        await broker.register()
        await broker.heartbeat()
        with monkeypatch.context() as broken:
            broken.setattr(t.master.catalogue._store, "apply", full)
            await broker.heartbeat(write_status_rpt=-1)
            await until(lambda: t.master.broker_room.upkeep.problem)
        reasons = (await t.master.health()).reasons
        assert any("no space left" in reason.why for reason in reasons)
        await broker.heartbeat(write_status_rpt=-1)
        await until(lambda: t.master.catalogue.brokers[1].manage_status is ManageStatus.ONLY_READ)
        assert t.master.broker_room.upkeep.problem is None


async def test_health_waits_for_no_broker_that_an_operator_keeps_out_and_names_one_that_lost_something() -> None:
    async with town() as t:
        await t.broker(2)
        await configured(t, status=ManageStatus.DRAFT)
        assert [broker.manage_status for broker in await t.master.brokers()] == ["draft", "online"]
        assert (await t.master.health()).status == "healthy"
        await set_status(t, ManageStatus.ONLINE)
        assert [reason.thing for reason in (await t.master.health()).reasons] == ["broker 1"]
        broker = await t.peer(FakeBroker, capabilities=FOREIGN)
        await broker.register()
        await broker.heartbeat()
        assert (await t.master.health()).status == "healthy"
        await broker.heartbeat(write_status_rpt=-1)
        await until(lambda: t.master.catalogue.brokers[1].manage_status is ManageStatus.ONLY_READ)
        await broker.heartbeat()
        (reason,) = (await t.master.health()).reasons
        assert (reason.thing, "only-read since" in reason.why) == ("broker 1", True)
        await set_status(t, ManageStatus.OFFLINE)
        assert (await t.master.health()).status == "degraded"
        t.master.registry.brokers.release_forbidden([1])
        assert (await t.master.health()).status == "healthy"


async def test_a_strangers_broker_that_came_and_went_does_not_degrade_the_cluster() -> None:
    async with town() as t:
        await t.broker(2)
        stranger = await t.broker(7)
        await stranger.close()
        await until(lambda: t.master.broker_room.runs[7].lost)
        assert [broker.state for broker in await t.master.brokers()] == ["online", "away"]
        assert (await t.master.health()).status == "healthy"
        await t.peers[0].close()
        await until(lambda: t.master.broker_room.runs[2].lost)
        assert [reason.thing for reason in (await t.master.health()).reasons] == ["broker 2", "broker 7"]
