"""What an administrator may do with the cluster, its Brokers and topics (a whole session is recorded elsewhere)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import BadRequestError
from pytubemq.master.registry.audit import Audit
from pytubemq.master.registry.brokers import BrokerSpec
from pytubemq.master.registry.topics import DeploySpec, TopicSpec
from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.model.ids import Address
from pytubemq.model.records import ConsumeRecord, ManageStatus, TopicProps, TopicStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from pytubemq.master.registry.outcome import Outcome
    from pytubemq.master.registry.registry import Registry

pytestmark = pytest.mark.anyio

BY = Audit("ann", 1000)
CLOSED = TopicProps(accept_publish=False, accept_subscribe=False)


@asynccontextmanager
async def master() -> AsyncIterator[MasterService]:
    made = MasterService(MasterSettings(listen=Address("127.0.0.1", 0)))
    await made.start()
    yield made
    await made.close()


def codes(found: Iterable[Outcome]) -> list[int]:
    return [outcome.code for outcome in found]


async def add(registry: Registry, *broker_ids: int, status: ManageStatus = ManageStatus.ONLINE) -> None:
    specs = [BrokerSpec(broker_id, f"127.0.0.{broker_id}", manage_status=status) for broker_id in broker_ids]
    assert codes(await registry.brokers.add([(spec, BY) for spec in specs])) == [200] * len(broker_ids)


async def deploy(registry: Registry, topic: str, broker_id: int, **props: int | bool) -> int:
    made = DeploySpec(topic, broker_id, TopicProps(**props))  # type: ignore[arg-type]
    return codes(await registry.topics.deploy([(made, BY)]))[0]


async def change(registry: Registry, topic: str, broker_id: int, props: TopicProps) -> int:
    return codes(await registry.topics.update_deploy([(DeploySpec(topic, broker_id, props), BY)]))[0]


# --- Brokers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", list(ManageStatus))
@pytest.mark.parametrize("now", list(ManageStatus))
async def test_a_draft_goes_online_and_nothing_becomes_a_draft_again(now: ManageStatus, wanted: ManageStatus) -> None:
    async with master() as m:
        await add(m.registry, 1, status=now)
        (outcome,) = await m.registry.brokers.set_status([1], wanted, by=BY)
        if now is wanted:
            expected = 403
        elif wanted is ManageStatus.DRAFT or (now is ManageStatus.DRAFT and wanted is not ManageStatus.ONLINE):
            expected = 407
        else:
            expected = 200
        assert outcome.code == expected
        assert m.catalogue.brokers[1].manage_status is (wanted if expected == 200 else now)


async def test_brokers_may_share_a_host_but_neither_id_nor_address() -> None:
    async with master() as m:
        brokers = m.registry.brokers
        await add(m.registry, 1)
        assert codes(await brokers.add([(BrokerSpec(2, "127.0.0.1", 9000), BY)])) == [200]
        for spec in (BrokerSpec(1, "127.0.0.9"), BrokerSpec(9, "127.0.0.1", 9000), BrokerSpec(9, "127.0.0.1")):
            with pytest.raises(BadRequestError, match="belongs to broker"):
                await brokers.add([(BrokerSpec(3, "127.0.0.3"), BY), (spec, BY)])
        with pytest.raises(BadRequestError, match="belongs to broker"):
            await brokers.add([(BrokerSpec(3, "127.0.0.3"), BY), (BrokerSpec(3, "127.0.0.4"), BY)])
        assert sorted(m.catalogue.brokers) == [1, 2]
        assert codes(await brokers.update([(BrokerSpec(2, port=8123), BY)])) == [407]


async def test_the_pages_of_a_broker_have_a_port_of_their_own() -> None:
    async with master() as m:
        brokers = m.registry.brokers
        specs = [
            BrokerSpec(1, "127.0.0.1", web_port=8123),
            BrokerSpec(2, "127.0.0.1"),
            BrokerSpec(3, "127.0.0.3", 8081),
        ]
        assert codes(await brokers.add([(spec, BY) for spec in specs])) == [407, 200, 407]
        assert sorted(m.catalogue.brokers) == [2]
        assert codes(await brokers.add([(BrokerSpec(3, "127.0.0.3", tls_port=8081), BY)])) == [407]
        changes = [BrokerSpec(2, web_port=8124), BrokerSpec(2, port=8081), BrokerSpec(2, web_port=8082)]
        assert codes(await brokers.update([(spec, BY) for spec in changes])) == [407, 407, 200]
        # one that came in with shared ports can still be looked after
        await m.catalogue.apply([replace(m.catalogue.brokers[2], web_port=8123)])
        assert codes(await brokers.set_status([2], ManageStatus.ONLINE, by=BY)) == [200]


async def test_an_id_is_made_of_the_address() -> None:
    async with master() as m:
        found = await m.registry.brokers.add([(BrokerSpec(None, "200.0.0.2"), BY), (BrokerSpec(None, "10.0.0.1"), BY)])
        assert [outcome.key for outcome in found] == [(939524094, "200.0.0.2"), (167772161, "10.0.0.1")]
        for host in ("0.0.0.0", "128.0.0.0"):
            with pytest.raises(BadRequestError, match="no id can be made"):
                await m.registry.brokers.add([(BrokerSpec(None, host), BY)])


async def test_a_broker_is_deleted_only_out_of_use_and_with_nothing_in_use_on_it() -> None:
    async with master() as m:
        brokers = m.registry.brokers
        await add(m.registry, 1, 2)
        assert await deploy(m.registry, "demo", 1) == 200
        assert codes(await brokers.delete([1], with_topics=True)) == [406]
        await brokers.set_status([1], ManageStatus.OFFLINE, by=BY)
        assert codes(await brokers.delete([1], with_topics=False)) == [404]
        assert codes(await brokers.delete([1], with_topics=True)) == [406]
        assert await change(m.registry, "demo", 1, CLOSED) == 200
        assert codes(await brokers.delete([1], with_topics=True)) == [406]
        assert await change(m.registry, "__offset_history__", 1, CLOSED) == 200
        assert codes(await brokers.delete([1, 1, 77], with_topics=True)) == [200, 200, 200]
        assert sorted(m.catalogue.brokers) == [2]
        assert m.catalogue.deployed("demo") == {}
        assert "demo" in m.catalogue.topics


async def test_reading_and_writing_are_switched_one_by_one() -> None:
    async with master() as m:
        await add(m.registry, 1)
        await add(m.registry, 2, status=ManageStatus.DRAFT)

        async def switch(publish: bool | None, subscribe: bool | None) -> ManageStatus:
            found = await m.registry.brokers.set_read_or_write([1], publish=publish, subscribe=subscribe, by=BY)
            assert codes(found) == [200]
            return m.catalogue.brokers[1].manage_status

        assert await switch(False, None) is ManageStatus.ONLY_READ
        assert await switch(False, None) is ManageStatus.ONLY_READ
        assert await switch(None, False) is ManageStatus.OFFLINE
        assert await switch(True, None) is ManageStatus.ONLY_WRITE
        assert await switch(True, True) is ManageStatus.ONLINE
        found = await m.registry.brokers.set_read_or_write([2, 9], publish=True, subscribe=None, by=BY)
        assert codes(found) == [405, 401]


# --- topics -----------------------------------------------------------------------------------------------------


async def test_partitions_and_stores_only_grow_and_the_systems_own_topic_stays() -> None:
    async with master() as m:
        await add(m.registry, 1)
        assert await deploy(m.registry, "demo", 1, num_partitions=3) == 200
        assert await deploy(m.registry, "demo", 1) == 402
        assert await deploy(m.registry, "demo", 9) == 401
        assert await deploy(m.registry, "vast", 1, num_partitions=5_000, num_topic_stores=3) == 407
        for props, code in (
            (TopicProps(num_partitions=2), 407),
            (TopicProps(num_partitions=3), 403),
            (TopicProps(num_partitions=4, delete_policy="delete,1h"), 200),
            (TopicProps(num_topic_stores=2), 200),
            (TopicProps(num_topic_stores=1), 407),
            (TopicProps(num_partitions=5_001), 407),
        ):
            assert await change(m.registry, "demo", 1, props) == code, props
        found = m.catalogue.props("demo", 1)
        assert (found.num_partitions, found.num_topic_stores, found.delete_policy) == (4, 2, "delete,1h")
        assert await change(m.registry, "__offset_history__", 1, TopicProps(num_partitions=11)) == 407
        assert await change(m.registry, "nosuch", 1, TopicProps(num_partitions=11)) == 401


async def test_a_topic_goes_step_by_step_and_comes_back_from_the_first_only() -> None:
    async with master() as m:
        topics = m.registry.topics
        await add(m.registry, 1)
        await deploy(m.registry, "demo", 1)
        target = [(DeploySpec("demo", 1), BY)]
        assert codes(await topics.soft_delete(target)) == [406], "in use"
        assert codes(await topics.remove(target)) == [406]
        assert codes(await topics.restore(target)) == [406]
        await change(m.registry, "demo", 1, CLOSED)
        for expected in (TopicStatus.SOFT_DELETED, TopicStatus.SOFT_DELETED):
            assert codes(await topics.soft_delete(target)) == [200]
            assert m.catalogue.deploys["demo", 1].topic_status is expected
        assert await change(m.registry, "demo", 1, TopicProps(num_partitions=9)) == 406
        assert await deploy(m.registry, "demo", 1) == 402
        assert codes(await topics.restore(target)) == [200]
        restored = m.catalogue.deploys["demo", 1]
        assert restored.topic_status is TopicStatus.NORMAL
        assert not m.catalogue.props("demo", 1).accept_publish
        assert codes(await topics.soft_delete(target)) == [200]
        assert codes(await topics.remove(target)) == [200]
        assert m.catalogue.deploys["demo", 1].topic_status is TopicStatus.SOFT_REMOVED
        assert codes(await topics.restore(target)) == [406]
        assert codes(await topics.soft_delete(target)) == [406]
        assert codes(await topics.remove(target)) == [200]


async def test_a_topics_record_is_deleted_when_nothing_needs_it() -> None:
    async with master() as m:
        topics = m.registry.topics
        await add(m.registry, 1)
        await deploy(m.registry, "demo", 1)
        await topics.add([(TopicSpec("free"), BY), (TopicSpec("read"), BY)])
        await m.catalogue.apply([ConsumeRecord("g", "read")])
        assert codes(await topics.delete(["demo", "free", "read", "nosuch"], by=BY)) == [406, 200, 406, 200]
        assert sorted(m.catalogue.topics) == ["__offset_history__", "demo", "read"]


async def test_leave_to_consume_is_asked_for_or_not() -> None:
    async with master() as m:
        topics = m.registry.topics
        guarded = [(TopicSpec("demo", enable_auth_control=True), BY)]
        assert [codes(await topics.put(guarded)) for _ in range(2)] == [[200], [403]]
        before = m.catalogue.topics["demo"]
        assert before.enable_auth_control
        assert codes(await topics.disable_auth(["demo", "nosuch"], by=BY)) == [200, 200]
        assert not m.catalogue.topics["demo"].enable_auth_control
        assert "nosuch" not in m.catalogue.topics


async def test_the_number_of_a_topic_is_none_where_a_place_brought_its_record_or_it_was_given_so() -> None:
    async with master() as m:
        await add(m.registry, 1)
        await deploy(m.registry, "placed", 1)
        specs = [(TopicSpec("told"), BY), (TopicSpec("restored", -2), BY), (TopicSpec("numbered", 7), BY)]
        await m.registry.topics.add(specs)
        assert codes(await m.registry.topics.update([(TopicSpec("numbered", -2), BY)])) == [403]
        found = {name: record.topic_name_id for name, record in m.catalogue.topics.items()}
        assert found == {"__offset_history__": -2, "placed": -2, "told": 0, "restored": -2, "numbered": 7}


# --- the cluster ------------------------------------------------------------------------------------------------


async def test_defaults_that_are_not_given_stay() -> None:
    async with master() as m:
        cluster = m.registry.cluster
        assert not cluster.is_set
        made = await cluster.set_defaults({"broker_port": 9000}, TopicProps(num_partitions=4), by=BY)
        assert (cluster.is_set, made.broker_port, made.props.num_partitions) == (True, 9000, 4)
        await add(m.registry, 1)
        assert m.catalogue.brokers[1].address.port == 9000
        assert m.catalogue.broker_props(1).num_partitions == 4
        changed = await cluster.update_defaults({"qry_priority_id": 202}, TopicProps(), by=Audit("bob", 2000))
        assert (changed.broker_port, changed.qry_priority_id, changed.props.num_partitions) == (9000, 202, 4)
        assert (changed.stamp.create_user, changed.stamp.modify_user) == ("ann", "bob")
        with pytest.raises(BadRequestError, match="already"):
            await cluster.update_defaults({"qry_priority_id": 202}, TopicProps(), by=BY)
        with pytest.raises(BadRequestError, match="brokerWebPort 9000"):
            await cluster.update_defaults({"broker_web_port": 9000}, TopicProps(), by=BY)
        await cluster.update_defaults({"flow_ctrl_enable": True, "flow_ctrl_info": "[]"}, TopicProps(), by=BY)
        again = await cluster.set_defaults({"max_message_bytes": 2**21}, TopicProps(unflush_threshold=7), by=BY)
        assert (again.broker_port, again.qry_priority_id, again.flow_ctrl_enable) == (9000, 202, True)
        assert (again.props.num_partitions, again.props.unflush_threshold) == (1, 7)
        with pytest.raises(BadRequestError, match="already"):
            await cluster.set_defaults({}, TopicProps(unflush_threshold=7), by=BY)
