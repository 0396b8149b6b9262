"""Consumers at a real Master: events as they happen, and what bad ones get."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import Code, NotFoundError
from pytubemq.model.limits import MAX_STRAY_PARTITIONS
from pytubemq.model.records import ConsumeRecord, GroupRecord
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import (
    ClientSubRepInfo,
    CloseRequestC2M,
    CloseResponseM2C,
    EventProto,
    HeartRequestC2MV2,
    HeartResponseM2C,
    HeartResponseM2CV2,
    RegisterRequestC2MV2,
    RegisterResponseM2CV2,
)
from pytubemq.wire.rpc.methods import Method
from tests.scenario.master.town import WAIT_MS, FakeBroker, FakeConsumer, Town, town
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def served(*, partitions: int = 4, **settings: Any) -> AsyncIterator[Town]:
    """A town with the topic demo."""
    async with town(**settings) as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", partitions)
        yield t
        serving.cancel()


def taken(answer: HeartResponseM2C) -> tuple[str, ...]:
    """The partitions of the answer's event."""
    assert answer.event is not None
    return tuple(info.partition("#")[2] for info in answer.event.subscribe_info)


def named_only(answer: HeartResponseM2C) -> list[str]:
    """The partitions of the answer's event as `topic:partition`."""
    return sorted(place.partition("#")[2] for place in taken(answer))


def done(answer: HeartResponseM2C) -> EventProto:
    """The acknowledgement of the answer's event."""
    assert answer.event is not None
    return EventProto(rebalance_id=answer.event.rebalance_id, op_type=answer.event.op_type, status=2)


async def named(t: Town, name: str, **more: Any) -> FakeConsumer:
    return await t.peer(FakeConsumer, client_id=name, **more)


async def holding(t: Town, name: str) -> tuple[FakeConsumer, HeartResponseM2C]:
    """A consumer that has taken what it was told first."""
    consumer = await named(t, name)
    await consumer.register()
    first = await consumer.heartbeat(wait_ms=WAIT_MS)
    assert first.event is not None
    await consumer.heartbeat(done=done(first), holds=first.event.subscribe_info)
    return consumer, first


async def leave(consumer: FakeConsumer) -> None:
    request = CloseRequestC2M(client_id=consumer.client_id, group_name=consumer.group)
    answer = await consumer.ask(request, CloseResponseM2C, Method.CONSUMER_CLOSE_C2M)
    assert answer.success


async def test_a_joiner_is_served_by_two_held_heartbeats() -> None:
    async with served() as t:
        old, first = await holding(t, "old")
        waiting_old = asyncio.create_task(old.heartbeat(wait_ms=WAIT_MS))
        new = await named(t, "new")
        await new.register()
        waiting_new = asyncio.create_task(new.heartbeat(wait_ms=WAIT_MS))
        give = await waiting_old
        assert give.event is not None
        assert give.event.op_type == 20
        assert len(taken(give)) == 2
        assert not waiting_new.done()
        kept = tuple(info for info in first.event.subscribe_info if info not in give.event.subscribe_info)  # type: ignore[union-attr]
        await old.heartbeat(done=done(give), holds=kept)
        take = await waiting_new
        assert taken(take) == taken(give)
        assert take.event is not None
        assert take.event.op_type == 10
        assert take.event.rebalance_id != give.event.rebalance_id
        found = await t.master.group("g")
        assert sorted(len(member.partitions) for member in found.member_list) == [2, 2]


async def test_members_whose_heartbeats_are_not_held_are_told_with_the_next_one_at_each_step() -> None:
    """So what a Go, C++ or Java member waits for is its own period, two or three times."""
    async with served() as t:
        old, new = [await named(t, name, capabilities=Capability(0)) for name in ("old", "new")]
        await old.register()
        first = await old.heartbeat()
        assert len(taken(first)) == 4
        assert first.event is not None
        await old.heartbeat(done=done(first), holds=first.event.subscribe_info)
        await new.register()
        give = await old.heartbeat()
        assert give.event is not None
        assert (give.event.op_type, len(taken(give))) == (20, 2)
        assert (await new.heartbeat()).event is None, "the other one still reads them"
        kept = tuple(info for info in first.event.subscribe_info if info not in give.event.subscribe_info)
        await old.heartbeat(done=done(give), holds=kept)
        take = await new.heartbeat()
        assert take.event is not None
        assert (take.event.op_type, named_only(take)) == (10, named_only(give))


async def test_who_leaves_wakes_who_stays() -> None:
    async with served() as t:
        stays, _ = await holding(t, "stays")
        leaves = await named(t, "leaves")
        await leaves.register()
        give = await stays.heartbeat(wait_ms=WAIT_MS)
        await stays.heartbeat(done=done(give))
        take = await leaves.heartbeat(wait_ms=WAIT_MS)
        waiting = asyncio.create_task(stays.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master._groups.held)
        await leave(leaves)
        assert sorted(taken(await waiting)) == sorted(taken(take))


async def test_a_heartbeat_that_may_not_wait_is_answered_at_once() -> None:
    async with served(partitions=1) as t:
        await holding(t, "a")
        idle = await named(t, "b", capabilities=Capability(0))
        await idle.register()
        assert (await idle.heartbeat()).event is None


async def test_a_held_heartbeat_ends_with_its_wait() -> None:
    async with served(partitions=1) as t:
        await holding(t, "a")
        idle = await named(t, "b")
        await idle.register()
        assert (await idle.heartbeat(wait_ms=20)).event is None


async def test_too_many_held_heartbeats_are_answered_at_once() -> None:
    async with served(partitions=1, max_held_heartbeats=1) as t:
        await holding(t, "a")
        first, second = await named(t, "b"), await named(t, "c")
        await first.register()
        await second.register()
        held = asyncio.create_task(first.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master._groups.held)
        assert (await second.heartbeat(wait_ms=WAIT_MS)).event is None
        assert not held.done()
        held.cancel()


async def test_an_event_that_was_lost_is_told_again_to_the_new_connection() -> None:
    async with served() as t:
        consumer = await named(t, "a")
        await consumer.register()
        lost = await consumer.heartbeat(wait_ms=WAIT_MS)
        again = await (await named(t, "a")).heartbeat(wait_ms=WAIT_MS)
        assert again.event == lost.event


async def test_one_of_ours_whose_connection_breaks_is_gone_after_the_grace() -> None:
    async with served(lost_connection_grace_s=0.02) as t:
        dies, _ = await holding(t, "dies")
        lives = await named(t, "lives")
        await lives.register()
        waiting = asyncio.create_task(lives.heartbeat(wait_ms=WAIT_MS))
        await dies.close()
        assert len(taken(await waiting)) == 4


async def test_a_java_consumer_whose_connection_breaks_stays() -> None:
    async with served(lost_connection_grace_s=0.0) as t:
        java = await named(t, "java", capabilities=Capability(0))
        await java.register()
        first = await java.heartbeat()
        assert len(taken(first)) == 4
        await java.close()
        await until(lambda: not t.master._groups._connections._carried)
        again = await named(t, "java", capabilities=Capability(0))
        answer = await again.heartbeat(done=done(first), holds=first.event.subscribe_info)  # type: ignore[union-attr]
        assert answer.success


async def test_a_silent_consumer_is_gone_after_the_time_out() -> None:
    async with served(client_timeout_s=0.05) as t:
        silent = await named(t, "silent", capabilities=Capability(0))
        await silent.register()
        await until(lambda: not t.master._groups.groups)
        answer = await silent.heartbeat()
        assert (answer.success, answer.err_code) == (False, 411)
        assert answer.authorized_info is None


async def test_the_time_out_of_consumers_is_theirs_alone() -> None:
    async with served(consumer_timeout_s=0.05) as t:
        silent = await named(t, "silent", capabilities=Capability(0))
        await silent.register()
        await until(lambda: not t.master._groups.groups)
        assert t.master._brokers.runs
        assert (
            t.master.settings.producer_silence_s
            == t.master.settings.broker_silence_s
            == t.master.settings.client_timeout_s
        )


async def test_consumers_come_back_to_a_restarted_master_with_what_they_hold(tmp_path: Path) -> None:
    async with served(data_dir=tmp_path) as t:
        _, first = await holding(t, "a")
        held = first.event.subscribe_info  # type: ignore[union-attr]
    async with town(data_dir=tmp_path) as t:
        back = await named(t, "a")
        assert (await back.heartbeat()).err_code == 411
        assert (await back.register(holds=held)).not_allocated is False
        waiting = asyncio.create_task(back.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master._groups.held)
        await t.broker()
        found = await t.master.group("g")
        assert len(found.member_list[0].partitions) == 4
        assert found.state == "stable"
        assert not waiting.done(), "nothing was withdrawn while the Broker was on its way"
        waiting.cancel()


async def test_a_broker_that_restarts_moves_nothing() -> None:
    async with town(lost_connection_grace_s=0.0) as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", 2)
        consumer, _ = await holding(t, "a")
        waiting = asyncio.create_task(consumer.heartbeat(wait_ms=WAIT_MS))
        await broker.close()
        await asyncio.gather(serving, return_exceptions=True)
        await until(lambda: not t.master._brokers.runs)
        again = await t.peer(FakeBroker)
        await again.register()
        await again.heartbeat()
        assert (await t.master.brokers())[0].state == "online"
        assert not waiting.done()
        assert len((await t.master.group("g")).member_list[0].partitions) == 2
        waiting.cancel()


async def test_a_broker_that_stays_away_takes_its_partitions_with_it() -> None:
    async with town(lost_connection_grace_s=0.0, broker_absence_s=0.02) as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", 2)
        consumer, first = await holding(t, "a")
        waiting = asyncio.create_task(consumer.heartbeat(wait_ms=WAIT_MS))
        await broker.close()
        await asyncio.gather(serving, return_exceptions=True)
        gone = await waiting
        assert gone.event is not None
        assert gone.event.op_type == 20
        assert taken(gone) == taken(first)


async def test_a_newcomer_is_not_told_what_others_are_on_their_way_with(tmp_path: Path) -> None:
    async with served(data_dir=tmp_path) as t:
        _, first = await holding(t, "old")
        held = first.event.subscribe_info[:3]  # type: ignore[union-attr]
    async with town(data_dir=tmp_path, restart_grace_s=300) as t:
        await t.broker(leases=(*held, "c@g@h#1:127.0.0.9:8123#demo:0"))
        new = await named(t, "new")
        await new.register()
        told = await new.heartbeat(wait_ms=WAIT_MS)
        assert len(taken(told)) == 1
        await new.heartbeat(done=done(told), holds=told.event.subscribe_info)  # type: ignore[union-attr]
        back = await named(t, "old")
        assert (await back.register(holds=held)).not_allocated is False
        found = {member.id: len(member.partitions) for member in (await t.master.group("g")).member_list}
        assert found == {"new": 1, "old": 3}


@pytest.mark.parametrize(("known", "ours"), [((), False), ((0, 1, 2), False), ((0, 1, 2, 3), False), ((), True)])
async def test_what_a_broker_that_came_back_does_not_know_as_read_is_told_again_to_who_is_not_ours(
    known: tuple[int, ...], ours: bool
) -> None:
    async with served() as t:
        broker = next(peer for peer in t.peers if isinstance(peer, FakeBroker))
        consumer = await t.peer(
            FakeConsumer, client_id="a", capabilities=Capability.HEARTBEAT_WAIT if ours else Capability(0)
        )
        await consumer.register()
        await until(lambda: len(t.master._groups.groups["g"].view.available) == 4)
        first = await consumer.heartbeat()
        held = first.event.subscribe_info  # type: ignore[union-attr]
        assert (await consumer.heartbeat(done=done(first), holds=held)).event is None
        broker.leases = tuple(held[number] for number in known)
        await broker.register()
        serving = asyncio.create_task(broker.serve())
        await until(lambda: t.master._groups.groups["g"].view.available)
        told = await consumer.heartbeat()
        serving.cancel()
        if ours or len(known) == 4:
            assert told.event is None
            return
        assert told.event is not None
        assert (told.event.op_type, told.event.subscribe_info) == (10, held[len(known) :])
        assert (await consumer.heartbeat(done=done(told), holds=held)).event is None
        assert (await t.master.group("g")).state == "stable"


async def test_a_cluster_without_readers_serves_its_first_consumer_at_once(tmp_path: Path) -> None:
    async with served(data_dir=tmp_path):
        pass
    async with town(data_dir=tmp_path) as t:
        await t.broker()
        new = await named(t, "new")
        await new.register()
        assert len(taken(await new.heartbeat(wait_ms=WAIT_MS))) == 4


async def test_what_a_consumer_could_not_take_goes_to_another() -> None:
    async with served() as t:
        other = await named(t, "other")
        fails, _ = await holding(t, "fails")
        await other.register()
        give = await fails.heartbeat(wait_ms=WAIT_MS)
        await fails.heartbeat(done=done(give))
        waiting = asyncio.create_task(fails.heartbeat(wait_ms=WAIT_MS))
        take = await other.heartbeat(wait_ms=WAIT_MS)
        failed = EventProto(rebalance_id=take.event.rebalance_id, op_type=10, status=-2)  # type: ignore[union-attr]
        answer = await other.heartbeat(done=failed, holds=())
        assert answer.event is None, "not the same again at once"
        assert sorted(taken(await waiting)) == sorted(taken(take))


async def test_an_operator_takes_a_consumer_out_of_the_sharing() -> None:
    async with served() as t:
        consumer, first = await holding(t, "a")
        with pytest.raises(NotFoundError):
            t.master._groups.rebalance("no such group", ["a"], 0)
        waiting = asyncio.create_task(consumer.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master._groups.held)
        assert t.master._groups.rebalance("g", ["a", "nobody"], 1) == ("a",)
        assert t.master._groups.rebalance("g", ["a"], 1) == (), "it is out already"
        gives = await waiting
        assert (gives.event and gives.event.op_type, taken(gives)) == (20, taken(first))
        assert (await consumer.heartbeat(done=done(gives), holds=(), wait_ms=20)).event is None
        assert (await t.master.group("g")).state == "stable"


async def test_a_topic_that_a_group_may_not_consume_is_taken_from_it_and_given_back() -> None:
    async with served() as t:
        await t.master.create_topic("other", 2)
        consumer = await named(t, "a")
        await consumer.register("demo", "other")
        first = await consumer.heartbeat(wait_ms=WAIT_MS)
        await consumer.heartbeat(done=done(first), holds=first.event.subscribe_info)  # type: ignore[union-attr]
        waiting = asyncio.create_task(consumer.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master._groups.held)
        forbidden = ConsumeRecord("g", "other", consume_enable=False)
        await t.master._catalogue.apply([forbidden])
        gives = await waiting
        assert gives.event is not None
        assert gives.event.op_type == 20
        assert named_only(gives) == ["other:0", "other:1"]
        waiting = asyncio.create_task(consumer.heartbeat(done=done(gives), wait_ms=WAIT_MS))
        await until(lambda: t.master._groups.held)
        await t.master._catalogue.apply([replace(forbidden, consume_enable=True)])
        assert named_only(await waiting) == ["other:0", "other:1"]


async def test_a_group_with_too_few_consumers_for_its_brokers_waits_for_more() -> None:
    async with town() as t:
        serving = [asyncio.create_task((await t.broker(number)).serve()) for number in (1, 2, 3)]
        await t.master.create_topic("demo", 1)
        await t.master._catalogue.apply([GroupRecord("g", alwd_broker_client_rate=1)])
        one, two = await named(t, "one"), await named(t, "two")
        await one.register()
        waiting = asyncio.create_task(one.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master._groups.held)
        assert "1 of 2" in (await t.master.health()).reasons[0].why
        await two.register()
        assert len(taken(await waiting)) + len(taken(await two.heartbeat(wait_ms=WAIT_MS))) == 3
        terms: dict[str, Any] = {"require_bound": True, "session_key": "k", "total_count": 1}
        bound = await t.peer(FakeConsumer, client_id="bound", group="h")
        assert (await bound.register(**terms)).success, "another group has no such record"
        await t.master._catalogue.apply([GroupRecord("i", alwd_broker_client_rate=1)])
        refused = await (await t.peer(FakeConsumer, client_id="bound", group="i")).register(**terms)
        assert refused.err_code == 400
        assert "at least 2" in refused.err_msg
        for task in serving:
            task.cancel()


async def test_a_bound_group_begins_with_its_claims() -> None:
    async with served() as t:
        terms: dict[str, Any] = {"require_bound": True, "session_key": "k", "total_count": 2}
        one, two = await named(t, "one"), await named(t, "two", capabilities=Capability(0))
        await one.register(**terms, required_partition="1:demo:0=3,1:demo:1=5")
        assert (await two.register(**terms, required_partition="1:demo:1=9")).not_allocated is True
        first = await one.heartbeat(wait_ms=WAIT_MS)
        assert named_only(first) == ["demo:0"]
        assert first.not_allocated is True
        await one.heartbeat(done=done(first), holds=first.event.subscribe_info)  # type: ignore[union-attr]
        second = await two.heartbeat()
        assert named_only(second) == ["demo:1"]
        assert second.not_allocated is True, "it still has to say to the Broker where it begins"
        rest = await two.heartbeat(done=done(second), holds=second.event.subscribe_info)  # type: ignore[union-attr]
        assert rest.not_allocated is False
        assert len(taken(rest)) == 1
        assert len(taken(await one.heartbeat(wait_ms=WAIT_MS))) == 1


async def test_a_bound_group_waits_until_it_is_complete() -> None:
    async with served() as t:
        terms: dict[str, Any] = {"require_bound": True, "session_key": "k", "total_count": 2, "select_big": True}
        one, two = await named(t, "one"), await named(t, "two")
        await one.register(**terms)
        waiting = asyncio.create_task(one.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: t.master._groups.held)
        assert "1 of 2" in (await t.master.health()).reasons[0].why
        await two.register(**terms)
        assert len(taken(await waiting)) == 2
        assert len(taken(await two.heartbeat(wait_ms=WAIT_MS))) == 2


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"client_id": " "}, 400),
        ({"client_id": "c" * 1025}, 400),
        ({"group_name": ""}, 400),
        ({"host_name": ""}, 400),
        ({"topic_list": (" ",)}, 400),
        ({"topic_list": ("nosuch", "demo")}, 431),
        ({"client_id": "a@b"}, 400),
        ({"group_name": "a#b"}, 400),
        ({"topic_condition": ("other#a",)}, 400),
        ({"topic_condition": ("other#",)}, 400),
        ({"topic_condition": ("demo",)}, 400),
        ({"subscribe_info": ("nonsense",)}, 400),
        ({"require_bound": True}, 400),
        ({"require_bound": True, "session_key": "k", "total_count": 0}, 400),
        ({"require_bound": True, "session_key": "k", "total_count": 1, "required_partition": "1:x:0=0"}, 400),
        ({"require_bound": True, "session_key": "k", "total_count": 1, "required_partition": "1:demo=0"}, 400),
        ({"require_bound": True, "session_key": "k", "total_count": 1, "required_partition": "1:demo:0=x"}, 400),
        ({"require_bound": True, "session_key": "k", "total_count": 1}, 424),
        ({"topic_condition": ("demo#a",)}, 426),
        ({"topic_condition": ("demo#",)}, 200),
    ],
)
async def test_a_registration_gets_the_originals_code(more: dict[str, Any], code: int) -> None:
    async with served() as t:
        await (await named(t, "first")).register()
        second = await named(t, "second")
        fields: dict[str, Any] = {"client_id": "second", "group_name": "g", "host_name": "h", "topic_list": ("demo",)}
        answer = await second.ask_register(**(fields | more))
        assert answer.err_code == code
        assert answer.success is (code == 200)
        if code != 200:
            assert answer.err_msg
            assert answer.authorized_info is None


async def test_flow_control_is_told_to_who_asks() -> None:
    async with served() as t:
        consumer = await named(t, "a")
        plain = await consumer.register()
        assert plain.def_flow_check_id is None
        asks = await consumer.register(def_flow_check_id=-2)
        assert (asks.def_flow_check_id, asks.group_flow_check_id, asks.qry_priority_id, asks.ssd_store_id) == (-2,) * 4
        assert (asks.def_flow_control_info, asks.group_flow_control_info) == (" ", " ")


async def test_bad_strings_are_answered_and_the_connection_goes_on() -> None:
    async with served() as t:
        consumer = await named(t, "a")
        refused = await consumer.register(holds=("not a subscription",))
        assert (refused.success, refused.err_code) == (False, Code.BAD_REQUEST)
        assert "'not a subscription'" in refused.err_msg
        assert (await consumer.register()).success
        beat = await consumer.heartbeat(holds=("not a subscription",))
        assert (beat.success, beat.err_code) == (False, Code.BAD_REQUEST)
        assert (await consumer.heartbeat()).success


async def test_closing_an_unknown_consumer_succeeds() -> None:
    async with town() as t:
        await leave(await named(t, "nobody"))


async def test_consumers_are_bounded_in_number_and_in_what_they_say() -> None:
    async with town(max_clients=1, max_client_state_bytes=2_000) as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", 2)
        first = await t.peer(FakeConsumer)
        second = await t.peer(FakeConsumer, client_id="g_127.0.0.1-2-2-2-Pull-1.0")
        assert (await first.register()).success
        refused = await second.register()
        assert (refused.success, refused.err_code) == (False, Code.BAD_REQUEST)
        assert "1 clients, 1 are allowed" in refused.err_msg
        holds = tuple(f"{first.client_id}@g#1:127.0.0.9:8123#demo:{number}" for number in range(100))
        admission = t.master._groups._admission
        registered_bytes = admission.total_bytes
        assert (await first.heartbeat(holds=holds)).err_code == Code.BAD_REQUEST
        assert admission.total_bytes == registered_bytes
        assert (await first.heartbeat(holds=holds[:20])).success, "who is in stays in"
        reported_bytes = admission.total_bytes
        assert registered_bytes < reported_bytes <= 2_000
        assert (await first.heartbeat()).success
        assert admission.total_bytes == reported_bytes, "what is not told anew is still remembered"
        assert (await first.heartbeat(holds=holds[:1])).success
        assert admission.total_bytes < reported_bytes
        await first.ask(
            CloseRequestC2M(client_id=first.client_id, group_name="g"), CloseResponseM2C, Method.CONSUMER_CLOSE_C2M
        )
        assert (await second.register()).success
        serving.cancel()


async def test_a_member_names_no_more_partitions_than_its_topics_have() -> None:
    async with town() as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", 2)
        consumer = await t.peer(FakeConsumer)
        many = tuple(f"c@g#1:127.0.0.9:8123#demo:{number}" for number in range(MAX_STRAY_PARTITIONS + 3))
        refused = await consumer.register(holds=many)
        assert refused.err_code == 400
        assert "lists 10003 partitions but its topics have 2; list each assigned partition once" in refused.err_msg
        assert (await consumer.register(holds=many[:2])).success
        answer = await consumer.heartbeat(holds=many)
        assert (answer.err_code, "lists 10003 partitions" in answer.err_msg) == (400, True)
        serving.cancel()


async def test_a_client_balanced_member_names_no_more_partitions_than_its_topics_have() -> None:
    async with town() as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", 2)
        consumer = await t.peer(FakeConsumer)
        many = "demo#" + ",".join(f"1:{number}" for number in range(MAX_STRAY_PARTITIONS + 4))

        def said(text: str) -> ClientSubRepInfo:
            return ClientSubRepInfo(
                broker_config_id=0, topic_meta_info_id=0, report_sub_info=True, part_sub_info=(text,)
            )

        async def register(text: str) -> RegisterResponseM2CV2:
            return await consumer.ask(
                RegisterRequestC2MV2(
                    client_id="c",
                    group_name="g",
                    host_name="h",
                    source_count=1,
                    node_id=0,
                    topic_list=("demo",),
                    sub_rep_info=said(text),
                ),
                RegisterResponseM2CV2,
                Method.CONSUMER_REGISTER_C2M_V2,
            )

        refused = await register(many)
        assert (refused.err_code, "its topics have 2" in refused.err_msg) == (400, True)
        assert (await register("demo#1:0,1:1")).err_code == 200
        answer = await consumer.ask(
            HeartRequestC2MV2(client_id="c", group_name="g", sub_rep_info=said(many)),
            HeartResponseM2CV2,
            Method.CONSUMER_HEARTBEAT_C2M_V2,
        )
        assert (answer.err_code, "its topics have 2" in answer.err_msg) == (400, True)
        serving.cancel()


async def test_a_report_that_is_too_long_to_be_remembered_is_refused_and_its_acknowledgement_counts() -> None:
    async with served(max_client_state_bytes=250) as t:
        consumer = await t.peer(FakeConsumer)
        assert (await consumer.register()).success
        answer = await consumer.heartbeat(holds=(), wait_ms=WAIT_MS)
        member = t.master.group_room.groups["g"].view.members[consumer.client_id]
        assert (member.event is not None, len(member.holds)) == (True, 4)
        assert answer.event is not None
        refused = await consumer.heartbeat(holds=answer.event.subscribe_info, done=done(answer))
        assert (refused.success, refused.err_code) == (False, Code.BAD_REQUEST)
        assert "250 are allowed" in refused.err_msg
        member = t.master.group_room.groups["g"].view.members[consumer.client_id]
        assert (member.event, len(member.holds)) == (None, 4)
        assert (await consumer.heartbeat()).success, "it stays"
