"""Topics that go and come: what a removal waits for, what may be created again, and what is said meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import AlreadyExistsError, BadRequestError, MessageError, NotFoundError, UnavailableError
from pytubemq.master.catalogue.topic_deletion import DELETED_BY
from pytubemq.master.registry.audit import API_USER, Audit
from pytubemq.master.registry.consumes import ConsumeChange
from pytubemq.master.registry.outcome import BAD_VALUE
from pytubemq.master.registry.topic_change import topic_change
from pytubemq.master.registry.topics import DeploySpec, TopicSpec
from pytubemq.model.ids import Address
from pytubemq.model.limits import MAX_TOPICS_PER_CALL
from pytubemq.model.records import ManageStatus, TopicProps
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import ClusterConfig, RegisterRequestB2M, RegisterResponseM2B
from pytubemq.wire.rpc.methods import Method
from tests.scenario.master.town import WAIT_MS, FakeBroker, town
from tests.support.waiting import until

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from pytubemq.wire.protocol.messages.master import HeartResponseM2B
    from tests.scenario.master.town import Town

pytestmark = pytest.mark.anyio

BY = Audit("ann", 1000)
FOREIGN = Capability(0)
CLOSED = TopicProps(accept_publish=False, accept_subscribe=False)


def lively() -> AbstractAsyncContextManager[Town]:
    """No wait of this Master ends by its time."""
    return town(topic_ready_timeout_s=60.0, foreign_topic_timeout_s=60.0)


class Removing(FakeBroker):
    """Does what it is told to, removals included, as long as `serve` runs."""

    async def serve(self, told: HeartResponseM2B | None = None) -> None:
        while True:
            gone = () if told is None or not told.take_remove_topic_info else told.remove_topic_conf_info
            told = await self.heartbeat(
                wait_ms=WAIT_MS, take_removed_topic_info=bool(gone), removed_topics_info=tuple(gone)
            )


async def serving(t: Town, broker_id: int = 1) -> asyncio.Task[None]:
    broker = await t.peer(Removing, broker_id=broker_id, address=Address("127.0.0.9", 8122 + broker_id))
    await broker.register()
    return asyncio.create_task(broker.serve(await broker.heartbeat()))


async def by_hand(t: Town, topic: str, *, remove: bool, by: Audit = BY) -> None:
    """Deleted softly, and removed, as an operator does it by the older API."""
    registry = t.master.registry.topics
    place = DeploySpec(topic, 1)
    await registry.update_deploy([(DeploySpec(topic, 1, CLOSED), by)])
    assert (await registry.soft_delete([(place, by)]))[0].ok
    if remove:
        assert (await registry.remove([(place, by)]))[0].ok


async def test_a_topic_is_removed_with_its_record_and_may_be_created_again() -> None:
    async with lively() as t:
        task = await serving(t)
        await t.master.create_topic("demo", 2)
        found = await t.master.delete_topic("demo")
        assert (found.removed, found.pending, found.record_kept) == (True, [], False)
        assert "demo" not in t.master.catalogue.topics
        with pytest.raises(NotFoundError, match="topic 'demo' does not exist"):
            await t.master.delete_topic("demo")
        assert (await t.master.create_topic("demo", 3)).partitions == 3
        task.cancel()


async def test_one_removed_by_hand_may_be_created_again_and_keeps_what_its_record_says() -> None:
    async with lively() as t:
        task = await serving(t)
        await t.master.create_topic("demo", 2)
        await t.master.registry.topics.update(
            [(TopicSpec("demo", enable_auth_control=True, max_message_bytes=2 << 20), BY)]
        )
        await by_hand(t, "demo", remove=True)
        await until(lambda: not t.master.catalogue.deployed("demo"))
        assert (await t.master.create_topic("demo", 5)).partitions == 5
        record = t.master.catalogue.topics["demo"]
        assert (record.enable_auth_control, record.max_message_bytes) == (True, 2 << 20)
        task.cancel()


async def test_no_operator_can_have_the_name_that_marks_a_topic_deleted_as_a_whole() -> None:
    async with lively() as t:
        task = await serving(t)
        await t.master.create_topic("demo", 1)
        outcome = (await t.master.registry.topics.remove([(DeploySpec("demo", 1), Audit(DELETED_BY, 1000))]))[0]
        assert (outcome.code, "give another name" in outcome.text) == (BAD_VALUE, True)
        await by_hand(t, "demo", remove=True, by=Audit(API_USER, 1000))
        await until(lambda: not t.master.catalogue.deployed("demo"))
        assert "demo" in t.master.catalogue.topics
        task.cancel()


async def test_rules_outlive_the_topic_and_the_answer_says_so() -> None:
    async with lively() as t:
        task = await serving(t)
        await t.master.create_topic("demo", 1)
        await t.master.registry.consumes.add([ConsumeChange(group="g", topic="demo", by=BY)])
        found = await t.master.delete_topic("demo")
        assert (found.removed, found.record_kept) == (True, True)
        assert ("g", "demo") in t.master.catalogue.consumes
        task.cancel()


async def test_what_is_deleted_softly_is_neither_made_anew_nor_lost_and_the_error_tells_both_ways() -> None:
    async with lively() as t:
        task = await serving(t)
        await t.master.create_topic("demo", 1)
        await by_hand(t, "demo", remove=False)
        with pytest.raises(AlreadyExistsError, match="deleted softly on broker 1") as refused:
            await t.master.create_topic("demo", 1)
        assert "admin_redo_deleted_topic_deploy_info" in str(refused.value)
        assert "pytubemq topic delete demo" in str(refused.value)
        assert (await t.master.delete_topic("demo")).removed
        task.cancel()


async def test_a_broker_that_has_not_removed_it_yet_is_named_and_the_record_goes_later() -> None:
    async with town(topic_ready_timeout_s=0.01) as t:
        broker = await t.broker()
        with pytest.raises(UnavailableError, match="did not report it within"):
            await t.master.create_topic("demo", 1)
        await broker.heartbeat()
        found = await t.master.delete_topic("demo")
        assert (found.removed, [one.broker for one in found.pending]) == (False, [1])
        assert "not reported its removal yet" in found.pending[0].why
        assert [topic.state for topic in await t.master.topics()] == ["removing"]
        with pytest.raises(UnavailableError, match="is being removed"):
            await t.master.create_topic("demo", 1)
        await broker.heartbeat(take_removed_topic_info=True, removed_topics_info=("demo",))
        await until(lambda: "demo" not in t.master.catalogue.topics)


async def away(t: Town, task: asyncio.Task[None]) -> None:
    """Broker 1, the first peer, is gone, and the Master has given it up."""
    task.cancel()
    await t.peers[0].close()
    runs = t.master.broker_room.runs
    await until(lambda: runs[1].lost)
    runs[1].online = False


async def test_nobody_waits_for_a_broker_that_is_away() -> None:
    async with lively() as t:
        task = await serving(t)
        await t.master.create_topic("demo", 1)
        await away(t, task)
        with pytest.raises(AlreadyExistsError, match="its broker 1 is away"):
            await t.master.create_topic("demo", 1)
        found = await t.master.delete_topic("demo")
        assert (found.removed, found.pending[0].why) == (False, "away: removes it on return")


async def test_the_record_goes_also_when_the_master_restarts_before_the_broker_is_back(tmp_path: Path) -> None:
    async with town(data_dir=tmp_path) as t:
        task = await serving(t)
        for topic in ("whole", "by_hand", "both", "ruled"):
            await t.master.create_topic(topic, 1)
        await t.master.registry.consumes.add([ConsumeChange(group="g", topic="ruled", by=BY)])
        await away(t, task)
        await by_hand(t, "by_hand", remove=True)
        await by_hand(t, "both", remove=True)
        for topic in ("whole", "both", "ruled"):
            assert not (await t.master.delete_topic(topic)).removed
    async with town(data_dir=tmp_path) as t:
        catalogue = t.master.catalogue
        assert {"whole", "by_hand", "both", "ruled"} <= catalogue.topics.keys()
        task = await serving(t)
        await until(lambda: not any(map(catalogue.deployed, ("whole", "by_hand", "both", "ruled"))))
        assert {"whole", "by_hand", "both", "ruled"} & catalogue.topics.keys() == {"by_hand", "ruled"}
        task.cancel()


async def test_the_record_goes_with_the_last_of_two_places_whatever_takes_that_one() -> None:
    async with lively() as t:
        task, other = await serving(t, 1), await serving(t, 2)
        await t.master.create_topic("demo", 1)
        await away(t, task)
        found = await t.master.delete_topic("demo")
        assert [one.broker for one in found.pending] == [1]
        assert "demo" in t.master.catalogue.topics
        registry = t.master.registry.brokers
        assert (await registry.set_status([1], ManageStatus.OFFLINE, by=BY))[0].ok
        assert (await registry.delete([1], with_topics=True))[0].ok
        assert "demo" not in t.master.catalogue.topics
        other.cancel()


async def test_a_broker_whose_heartbeats_cannot_be_held_gets_the_time_of_two() -> None:
    async with town(topic_ready_timeout_s=0.01, foreign_topic_timeout_s=60.0) as t:
        broker = await t.peer(FakeBroker, capabilities=FOREIGN)
        await broker.register()
        await broker.heartbeat()
        creating = asyncio.create_task(t.master.create_topic("demo", 1))
        await until(lambda: "demo" in t.master.catalogue.topics)
        await broker.heartbeat()  # hears of it
        await broker.heartbeat()  # reports it
        assert (await creating).places[0].ready


async def test_the_systems_own_topic_stays() -> None:
    async with lively() as t:
        with pytest.raises(BadRequestError, match="the system's own"):
            await t.master.delete_topic("__offset_history__")


async def test_many_are_created_in_one_step_and_all_can_be_used_when_it_returns() -> None:
    async with lively() as t:
        tasks = [await serving(t), await serving(t, 2)]
        wanted = {f"t{number}": topic_change(partitions=number + 1) for number in range(20)}
        before = t.master.broker_room.runs[1].conf.sync_id.conf_id
        made = await t.master.create_topics(wanted)
        assert (made.created, made.existing) == (list(wanted), [])
        assert len(t.master.broker_room.topics.publishing("t19")) == 2
        assert t.master.catalogue.config(t.master.catalogue.deploys["t19", 2]).partitions == 20
        assert t.master.broker_room.runs[1].conf.sync_id.conf_id == before + 1, "the Brokers hear of it once"
        again = await t.master.create_topics({**wanted, "new": topic_change()}, exist_ok=True)
        assert (again.created, again.existing) == (["new"], list(wanted))
        for task in tasks:
            task.cancel()


async def test_of_many_none_is_created_when_one_cannot_be() -> None:
    async with lively() as t:
        task = await serving(t)
        await t.master.create_topic("there", 1)
        with pytest.raises(AlreadyExistsError, match="topic there exists already; none of the 3 topics was created"):
            await t.master.create_topics(dict.fromkeys(["a", "there", "b"], topic_change()))
        with pytest.raises(MessageError, match="not a topic name"):
            await t.master.create_topics(dict.fromkeys(["a", "../b"], topic_change()))
        for count in (0, MAX_TOPICS_PER_CALL + 1):
            with pytest.raises(BadRequestError, match=f"{count} topics in one call"):
                await t.master.create_topics({f"t{number}": topic_change() for number in range(count)})
        assert not {"a", "b", "t0"} & t.master.catalogue.topics.keys()
        task.cancel()


async def test_a_broker_that_leaves_during_a_creation_is_not_waited_for_while_another_has_the_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with lively() as t:
        tasks = [await serving(t), await serving(t, 2)]
        leave_after_writes(t, monkeypatch, 2)
        made = await t.master.create_topic("demo", 1)
        assert [(place.broker, place.ready) for place in made.places] == [(1, True), (2, False)]
        for task in tasks:
            task.cancel()


async def test_when_the_only_broker_leaves_during_a_creation_the_error_says_what_is_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with town(topic_ready_timeout_s=0.01) as t:
        await t.broker()
        leave_after_writes(t, monkeypatch, 1)
        with pytest.raises(UnavailableError, match="topic demo is created, but broker 1 did not report it"):
            await t.master.create_topic("demo", 1)
        assert (await t.master.topic("demo")).places[0].ready is False


async def test_a_creation_does_not_wait_for_a_broker_that_is_silent_or_was_late() -> None:
    async with lively() as t:
        task = await serving(t)
        silent = await t.broker(2)
        run = t.master.broker_room.runs[2]
        run.heard_s -= 20.0
        made = await t.master.create_topic("a", 1)
        assert [(place.broker, place.ready) for place in made.places] == [(1, True), (2, False)]
        run.heard_s += 20.0
        run.overdue = True
        made = await t.master.create_topic("b", 1)
        assert [(place.broker, place.ready) for place in made.places] == [(1, True), (2, False)]
        for _ in range(2):
            await silent.heartbeat()
        assert not run.overdue
        assert all(place.ready for place in (await t.master.topic("b")).places)
        task.cancel()


async def test_a_broker_that_is_late_is_named_in_the_answer_and_passed_over_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with lively() as t:
        task = await serving(t)
        await t.broker(2)
        waits = t.master._waits
        monkeypatch.setattr(waits, "_timeout_s", lambda brokers: 0.0 if 2 in brokers else 60.0)
        made = await t.master.create_topic("a", 1)
        assert [(place.broker, place.ready) for place in made.places] == [(1, True), (2, False)]
        assert t.master.broker_room.runs[2].overdue
        monkeypatch.setattr(waits, "_timeout_s", lambda brokers: 60.0)
        made = await t.master.create_topic("b", 1)
        assert [place.ready for place in made.places] == [True, False]
        task.cancel()


def leave_after_writes(t: Town, monkeypatch: pytest.MonkeyPatch, broker_id: int) -> None:
    """Let a Broker say good-bye while the records are written."""
    apply = t.master.catalogue.apply

    async def slow(*args: Any, **more: Any) -> None:
        await apply(*args, **more)
        if broker_id in t.master.broker_room.runs:
            t.master.broker_room._release(broker_id, "closed")

    monkeypatch.setattr(t.master.catalogue, "apply", slow)


async def test_just_after_a_start_a_creation_waits_for_a_first_broker() -> None:
    async with town(first_broker_wait_s=60.0) as t:
        creating = asyncio.create_task(t.master.create_topic("demo", 2))
        broker = await t.peer(FakeBroker, broker_id=1, address=Address("127.0.0.9", 8123))
        await broker.register()
        assert not creating.done(), "a Broker that has registered is not online yet"
        serving = asyncio.create_task(broker.serve())
        assert (await creating).partitions == 2
        serving.cancel()


async def test_a_creation_that_can_only_fail_waits_for_nobody() -> None:
    async with town(first_broker_wait_s=60.0) as t:
        running = await serving(t)
        await t.master.create_topic("demo", 2)
        running.cancel()
        await t.peers[0].close()
        await until(lambda: not t.master.broker_room.runs[1].online if 1 in t.master.broker_room.runs else True)
        with pytest.raises(AlreadyExistsError, match="topic demo exists already, and its broker 1 is away"):
            await t.master.create_topic("demo", 2)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (None, r"no Broker is online\n.*start one: pytubemq server run broker"),
        (ManageStatus.ONLINE, r"no Broker is online; broker 1 is away\n.*start it; `pytubemq cluster health`"),
        (ManageStatus.OFFLINE, r"no Broker is online; broker 1 is offline\n.*admin_online_broker_configure"),
    ],
)
async def test_a_creation_without_a_broker_says_which_there_are(status: ManageStatus | None, text: str) -> None:
    async with town(first_broker_wait_s=0.0) as t:
        if status is not None:
            await t.broker()
            await t.master.registry.brokers.set_status([1], status, by=BY)
            if status is ManageStatus.ONLINE:
                t.master.broker_room.runs.clear()
        with pytest.raises(UnavailableError, match=text):
            await t.master.create_topic("demo", 1)


# --- topics that a Broker holds and the Master does not know ------------------------------------------------------

HELD = (
    "lost:3: : : : : :delete,24h: :1: : : : :2097152",
    "other: : : : : : : : :0: : : : : ",
)
HELD_DEFAULTS = "2:true:true:1000:10000: :delete,168h:1:0:3:10:20000"


class Holding(FakeBroker):
    """Registers with topics from before."""

    async def register(self) -> RegisterResponseM2B:
        request = RegisterRequestB2M(
            client_id=f"{self.broker_id}:{self.address}:2.4.0",
            broker_online=True,
            enable_tls=False,
            read_status_rpt=0,
            write_status_rpt=0,
            cur_broker_conf_id=5,
            conf_check_sum_id=6,
            broker_default_conf_info=HELD_DEFAULTS,
            broker_topic_set_conf_info=HELD,
            held_durability=("lost:memory",),
            held_retention=("other:keep",),
            flow_check_id=-2,
            tls_port=8124,
            cls_config=ClusterConfig(config_id=-2),
        )
        return await self.ask(request, RegisterResponseM2B, Method.BROKER_REGISTER_B2M)


async def holding(t: Town) -> tuple[Holding, RegisterResponseM2B]:
    broker = await t.peer(Holding)
    answer = await broker.register()
    broker.sync = (5, 6)
    return broker, answer


async def test_a_broker_that_holds_unknown_topics_is_given_no_orders_until_they_are_taken_over() -> None:
    async with lively() as t:
        broker, registered = await holding(t)
        assert (registered.take_conf_info, registered.broker_topic_set_conf_info) == (False, ())
        told = await broker.heartbeat()
        assert (told.take_conf_info, told.take_remove_topic_info, told.remove_topic_conf_info) == (False, False, ())
        assert (told.flow_check_id, told.qry_priority_id, told.cls_config) == (None, None, None)
        health = await t.master.health()
        why = [reason.why for reason in health.reasons if reason.thing == "broker 1"]
        assert (health.status, len(why)) == ("degraded", 1)
        assert "does not know (lost, other) and is given no orders" in why[0]
        with pytest.raises(UnavailableError, match="broker 1 holds topics that this Master does not know"):
            await t.master.create_topic("demo", 1)
        broker.sync = (5, 6)
        waiting = asyncio.create_task(broker.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: len(t.master.broker_room.held) == 1)
        found = await t.master.adopt_topics()
        assert [(one.topic, one.broker, one.partitions) for one in found.adopted] == [("lost", 1, 3), ("other", 1, 2)]
        told = await waiting
        assert (told.take_conf_info, len(told.broker_topic_set_conf_info)) == (True, 2)
        assert (told.topic_durability, told.topic_retention) == (("lost:memory",), ("other:keep",))
        lost = t.master.catalogue.deploys["lost", 1]
        assert (lost.topic_status, lost.props.num_partitions, lost.props.delete_policy) == (1, 3, "delete,24h")
        assert t.master.catalogue.topics["lost"].max_message_bytes == 2 << 20
        config = t.master.catalogue.config(t.master.catalogue.deploys["other", 1])
        assert (config.partitions, config.delete_policy) == (2, "keep")
        assert (await t.master.adopt_topics()).adopted == []


async def test_unknown_topics_that_are_let_go_are_not_served_any_more() -> None:
    async with lively() as t:
        broker, _ = await holding(t)
        await broker.heartbeat()
        broker.sync = (5, 6)
        waiting = asyncio.create_task(broker.heartbeat(wait_ms=WAIT_MS))
        await until(lambda: len(t.master.broker_room.held) == 1)
        found = await t.master.adopt_topics(discard=True)
        assert ([one.topic for one in found.discarded], found.adopted) == (["lost", "other"], [])
        told = await waiting
        assert (told.take_conf_info, told.broker_topic_set_conf_info) == (True, ())
        assert not t.master.catalogue.topics


async def test_a_broker_gets_no_more_partitions_than_it_takes_whichever_way_they_come() -> None:
    async with lively() as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", 4)
        await t.master.create_topic("later", 1)
        wide = {f"t{number}": topic_change(partitions=10_000) for number in range(11)}
        too_many = "topics on broker 1 have .*, and would have .*; 100,000 are allowed"
        with pytest.raises(BadRequestError, match=too_many):
            await t.master.create_topics(wide)
        wide.popitem()
        wide.popitem()
        await t.master.registry.topics.deploy(
            [(DeploySpec(name, 1, TopicProps(num_partitions=10_000)), BY) for name in wide]
        )
        with pytest.raises(BadRequestError, match=too_many):
            await t.master.alter_topic("demo", partitions=10_000)
        with pytest.raises(BadRequestError, match=too_many):
            await t.master.registry.topics.update_deploy(
                [(DeploySpec("demo", 1, TopicProps(num_topic_stores=2500)), BY)]
            )
        with pytest.raises(BadRequestError, match=too_many):
            await t.master.registry.topics.deploy([(DeploySpec("x", 1, TopicProps(num_partitions=9_997)), BY)])
        assert len(t.master.catalogue.deploys) == 11
        await t.master.alter_topic("demo", partitions=9_999)
        serving.cancel()


async def test_topics_that_are_being_removed_count_in_the_health_as_they_are_listed() -> None:
    async with town(topic_ready_timeout_s=0.01) as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topic("demo", 1)
        serving.cancel()
        await broker.close()
        await until(lambda: t.master.broker_room.runs[1].lost if 1 in t.master.broker_room.runs else True)
        assert [(topic.state, topic.why) for topic in await t.master.topics()] == [("deployed", "broker 1 is away")]
        await t.master.delete_topic("demo")
        assert [topic.state for topic in await t.master.topics()] == ["removing"]
        assert (await t.master.health()).topics == 1
