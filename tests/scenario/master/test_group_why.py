"""Why a group, or some of its members, gets nothing: what the Master says of each case."""

from __future__ import annotations

from typing import Any

import pytest

from pytubemq.errors import NotFoundError
from pytubemq.master.groups.stall_reasons import CONFIRMS_UNKNOWN
from pytubemq.master.registry.audit import Audit
from pytubemq.master.registry.consumes import ConsumeChange
from pytubemq.model.records import ConsumeRecord, DeployRecord, ManageStatus, TopicProps, TopicRecord
from tests.scenario.master.town import FakeConsumer, Town, town
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

BY = Audit("ann", 1000)


async def deploy(t: Town, *topics: str, broker_id: int = 1, partitions: int = 2) -> None:
    props = TopicProps(num_partitions=partitions)
    await t.master.catalogue.apply(
        [*(TopicRecord(name) for name in topics), *(DeployRecord(name, broker_id, props=props) for name in topics)]
    )


async def block(t: Town, group: str, topic: str) -> None:
    await t.master.registry.consumes.add([ConsumeChange(group=group, topic=topic, by=BY, consume_enable=False)])


async def why(t: Town, group: str, topic: str | None = None) -> str:
    return (await t.master.group(group, topic=topic)).why


async def test_a_group_that_gets_all_there_is_has_no_reason() -> None:
    async with town() as t:
        broker = await t.broker()
        await deploy(t, "demo")
        await broker.heartbeat()
        await broker.heartbeat()
        consumer = await t.peer(FakeConsumer)
        await consumer.register("demo")
        while (answer := await consumer.heartbeat(wait_ms=100)).event is None:
            pass
        await consumer.heartbeat(done=answer.event, holds=answer.event.subscribe_info)
        assert await why(t, "g") == ""
        other = await t.peer(FakeConsumer, client_id="g_2")
        third = await t.peer(FakeConsumer, client_id="g_3")
        await other.register("demo")
        await third.register("demo")
        assert await why(t, "g") == "it has 3 members and 2 partitions: 2 have none"


async def test_a_blocked_group_is_explained_with_members_and_without() -> None:
    async with town() as t:
        broker = await t.broker()
        await deploy(t, "demo", "other")
        await broker.heartbeat()
        await broker.heartbeat()
        await block(t, "g", "demo")
        closed = "demo is closed for it: an administrator has switched off consuming it for this group"
        absent = f"no consumer of it is registered, {CONFIRMS_UNKNOWN}"
        assert await why(t, "g") == f"{absent}; {closed}"
        assert await why(t, "g", "other") == absent
        with pytest.raises(NotFoundError, match="topic 'nosuch' does not exist"):
            await t.master.group("nobody", topic="nosuch")
        consumer = await t.peer(FakeConsumer)
        assert (await consumer.register("demo")).success
        assert (await why(t, "g")).startswith(closed)


async def test_a_group_that_is_not_there_is_none_unless_a_record_or_the_topic_keeps_it_out() -> None:
    async with town() as t:
        await t.master.catalogue.apply([TopicRecord("demo")])
        allowed = ConsumeRecord("allowed", "demo", consume_enable=True)
        blocked = ConsumeRecord("blocked", "demo", consume_enable=False)
        await t.master.catalogue.apply([allowed, blocked])
        for name in ("nobody", "allowed"):
            with pytest.raises(NotFoundError, match="no record restricts it"):
                await t.master.group(name)
            shown = await t.master.group(name, topic="demo")
            assert (shown.state, shown.topics) == ("absent", [])
            assert shown.closed[0].why == "it is on no Broker any more"
            assert shown.why.startswith("no consumer of it is registered, and it has confirmed nothing")
        assert (await t.master.group("blocked")).closed[0].topic == "demo"


async def test_a_group_whose_brokers_are_away_or_out_of_use_says_so() -> None:
    async with town(lost_connection_grace_s=0.01) as t:
        broker = await t.broker()
        await deploy(t, "demo")
        await broker.heartbeat()
        await broker.heartbeat()
        consumer = await t.peer(FakeConsumer)
        await consumer.register("demo")
        await broker.close()
        await until(lambda: 1 not in t.master.broker_room.runs)
        assert "broker 1 is away, and its partitions wait for it" in await why(t, "g")
        await t.master.registry.brokers.set_status([1], ManageStatus.OFFLINE, by=BY)
        assert await why(t, "g") == "demo is closed for it: no Broker that has it lets consumers read now"


async def test_a_broker_that_stays_away_remains_the_reason() -> None:
    async with town(lost_connection_grace_s=0.01, broker_absence_s=0.02) as t:
        broker = await t.broker()
        await deploy(t, "demo")
        await broker.heartbeat()
        await broker.heartbeat()
        consumer = await t.peer(FakeConsumer)
        await consumer.register("demo")
        await broker.close()
        await until(lambda: 1 not in t.master.broker_room.runs)
        await until(lambda: t.master.broker_room.topics.consumable(["demo"]) == (frozenset(), frozenset()))
        assert "broker 1 is away, and its partitions wait for it" in await why(t, "g")


async def test_a_bound_group_waits_for_all_of_its_consumers() -> None:
    async with town() as t:
        broker = await t.broker()
        await deploy(t, "demo")
        await broker.heartbeat()
        await broker.heartbeat()
        consumer = await t.peer(FakeConsumer)
        bound: dict[str, Any] = {"require_bound": True, "session_key": "k", "total_count": 2, "required_partition": ""}
        assert (await consumer.register("demo", **bound)).success
        assert await why(t, "g") == "1 of 2 consumers have joined; it gets nothing before all have"


async def test_health_names_a_broker_out_of_use_that_holds_topics_and_no_other() -> None:
    async with town() as t:
        await t.broker()
        await t.master.registry.brokers.set_status([1], ManageStatus.OFFLINE, by=BY)
        health = await t.master.health()
        assert (health.status, health.brokers, health.brokers_online) == ("healthy", 1, 0), (
            "nothing is there to be missed"
        )
        await deploy(t, *(f"t{number}" for number in range(10)))
        (reason,) = [one for one in (await t.master.health()).reasons if one.thing == "broker 1"]
        assert reason.why == (
            "offline: an operator has set it so, and clients cannot reach t0, t1, t2, t3, t4, t5, t6, t7 and 2 more "
            "there"
        )
