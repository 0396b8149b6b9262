"""The consumer that balances itself, against a scripted cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq import Partition, Rebalanced, Start, connect
from pytubemq._version import __version__
from pytubemq.client.consumer.client_balance import consumer as consumer_module
from pytubemq.client.consumer.client_balance import role as role_module
from pytubemq.client.consumer.client_balance.share import keep_share
from pytubemq.errors import (
    BadRequestError,
    ClosedError,
    Code,
    ConfigError,
    FormatError,
    GroupMismatchError,
    NotFoundError,
    OccupiedError,
    RefusedError,
    StaleBatchError,
    ThrottledError,
    WireError,
)
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.master import HeartRequestC2MV2, RegisterRequestC2MV2
from pytubemq.wire.rpc.methods import Method
from tests.support.waiting import until, until_answer

if TYPE_CHECKING:
    from pytubemq import BalanceConsumer, Tube
    from pytubemq.wire.protocol.messages.broker import RegisterRequestC2B

pytestmark = pytest.mark.anyio

FOUR = {"demo": 4}
P = [Partition(1, "demo", number) for number in range(4)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that a user would wait out."""
    monkeypatch.setattr(consumer_module, "CONNECT_PAUSE_S", 0.01)
    monkeypatch.setattr(consumer_module, "CLOSED_GRACE_S", 0.05)
    monkeypatch.setattr(consumer_module, "CLOSED_CHECK_PERIOD_S", 0.01)
    monkeypatch.setattr(consumer_module, "BALANCE_ROUND_S", 0.05)
    monkeypatch.setattr(role_module, "NODE_RETRY_S", 0.01)
    monkeypatch.setattr(role_module, "REPORT_AFTER_S", 0.01)


@pytest.fixture(params=[OURS, Capability(0)], ids=["ours", "java"])
def capabilities(request: pytest.FixtureRequest) -> Capability:
    """Servers of ours, and servers that know no extension."""
    value: Capability = request.param
    return value


def manual(tube: Tube, *topics: str, **options: Any) -> BalanceConsumer:
    """A consumer that connects to nothing by itself and asks the Master whenever it is asked."""
    return tube.balance_consumer("g", *(topics or ("demo",)), manual=True, meta_check_s=0.1, **options)


def registrations(mock: MockBroker) -> list[RegisterRequestC2B]:
    """What Brokers were asked to register."""
    return [one for one in mock.received(Method.CONSUMER_REGISTER_C2B) if one.op_type == 31]


# --- by itself ----------------------------------------------------------------------------------------------------


async def test_two_nodes_read_one_half_each(capabilities: Capability) -> None:
    async with MockBroker(topics=FOUR, capabilities=capabilities) as mock, connect(mock.masters) as tube:
        for number in range(4):
            mock.store("demo", b"%d" % number, partition_id=number)
        got: dict[int, set[bytes]] = {0: set(), 1: set()}
        async with (
            tube.balance_consumer("g", "demo", node_id=0, source_count=2, start=Start.EARLIEST) as zero,
            tube.balance_consumer("g", "demo", node_id=1, source_count=2, start=Start.EARLIEST) as one,
        ):
            for node, consumer in enumerate((zero, one)):
                assert await consumer.ready(10)
                batches = consumer.batches()
                for _ in range(2):
                    batch = await anext(batches)
                    got[node] |= {message.body for message in batch}
                    await batch.confirm()
                assert consumer.share == frozenset(consumer.registered)
            assert got == {0: {b"0", b"2"}, 1: {b"1", b"3"}}
            assert [mock.confirmed("g", "demo", number) for number in range(4)] == [1, 1, 1, 1]
            await until(lambda: mock.reported.get(zero.consumer_id) == ("demo#1:0,1:2",))
            await until(lambda: mock.reported.get(one.consumer_id) == ("demo#1:1,1:3",))
        assert not mock.consumers
        assert not any(partition.owners for partition in mock.partitions.values())


async def test_a_node_without_a_share_is_ready_too() -> None:
    async with (
        MockBroker(topics={"demo": 1}) as mock,
        connect(mock.masters) as tube,
        tube.balance_consumer("g", "demo", node_id=1, source_count=2) as consumer,
    ):
        assert await consumer.ready(10)
        assert consumer.registered == ()
        assert consumer.share == frozenset()


async def test_a_topic_that_grows_is_followed() -> None:
    async with (
        MockBroker(topics={"demo": 1}) as mock,
        connect(mock.masters) as tube,
        tube.balance_consumer("g", "demo", node_id=0, source_count=1, meta_check_s=0.1) as consumer,
    ):
        assert await consumer.ready(10)
        mock.create_topic("demo", 3)
        await until(lambda: consumer.registered == tuple(P[:3]) and consumer.stats.rebalances == 2)


async def test_what_is_closed_for_a_while_is_taken_again_and_moves_nowhere() -> None:
    async with MockBroker(topics={"demo": 2, "other": 2}) as mock, connect(mock.masters) as tube:
        other = [Partition(1, "other", number) for number in range(2)]
        async with (
            tube.balance_consumer("g", "demo", "other", node_id=0, source_count=2, meta_check_s=0.1) as zero,
            tube.balance_consumer("g", "demo", "other", node_id=1, source_count=2, meta_check_s=0.1) as one,
        ):
            assert await zero.ready(10)
            assert await one.ready(10)
            assert zero.registered == (P[0], other[0])
            mock.closed.add("other")
            await until(lambda: zero.registered == (P[0],) and one.registered == (P[1],))
            assert zero.share == {P[0], other[0]}
            mock.closed.clear()
            await until(lambda: zero.registered == (P[0], other[0]) and one.registered == (P[1], other[1]))


async def test_a_master_that_calls_everything_closed_for_a_moment_takes_nothing_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer_module, "CLOSED_GRACE_S", 3600.0)
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        async with tube.balance_consumer(
            "g", "demo", node_id=0, source_count=1, start=Start.EARLIEST, meta_check_s=0.1
        ) as consumer:
            batch = await anext(consumer.batches(max_messages=1))
            mock.closed.add("demo")
            mock.touch()
            await until_meta(consumer, dict.fromkeys(P, False))
            assert consumer.registered == tuple(P)
            await batch.confirm()
            assert await anext(consumer.batches(max_messages=1))
            mock.closed.clear()
            mock.touch()
            await until_meta(consumer, dict.fromkeys(P, True))
        assert len(registrations(mock)) == 4


async def test_a_broker_that_takes_a_registration_knows_better_than_the_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        async with tube.balance_consumer("g", "demo", node_id=0, source_count=1, meta_check_s=0.1) as consumer:
            assert await consumer.ready(10)
            await mock.stop_broker()
            mock.closed.add("demo")
            mock.touch()
            await until_meta(consumer, {P[0]: False})
            monkeypatch.setattr(consumer_module, "CLOSED_GRACE_S", 3600.0)
            assert consumer._role is not None
            consumer._role.meta.closed_since_s = {P[0]: -1e9}  # for much longer than that
            await mock.start_broker()
            await until(lambda: consumer.registered == (P[0],))
            seen = len(mock.received(Method.GET_PART_META_C2M))
            await mock.until(lambda: len(mock.received(Method.GET_PART_META_C2M)) > seen + 2)
            assert consumer.registered == (P[0],)
        assert len(registrations(mock)) == 2


async def test_a_batch_is_confirmed_across_a_restart_of_its_broker() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        async with tube.balance_consumer(
            "g", "demo", node_id=0, source_count=1, start=Start.EARLIEST, meta_check_s=0.1
        ) as consumer:
            batches = consumer.batches(max_messages=1)
            batch = await anext(batches)
            await mock.stop_broker()
            mock.online = False
            asked = len(mock.received(Method.GET_PART_META_C2M))
            await mock.until(lambda: len(mock.received(Method.GET_PART_META_C2M)) > asked + 1)
            assert consumer.share == {P[0]}
            await mock.start_broker()
            mock.online = True
            await batch.confirm()
            assert mock.confirmed("g", "demo") == 1
            assert [message.body for message in await anext(batches)] == [b"b"]


async def test_a_partition_of_a_dead_predecessor_is_taken_when_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_module, "GUARD_S", 0.05)
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.partitions["demo", 0].owners["g"] = "the dead one"
        async with tube.balance_consumer("g", "demo", node_id=0, source_count=1, meta_check_s=0.1) as consumer:
            await until(lambda: len(registrations(mock)) > 2)
            assert not await consumer.ready(0.05)
            mock.partitions["demo", 0].owners.clear()
            assert await consumer.ready(10)
            assert consumer.registered == (P[0],)


async def test_what_another_has_taken_over_is_left_to_it_until_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_module, "GUARD_S", 0.05)
    async with (
        MockBroker(topics={"demo": 1}) as mock,
        connect(mock.masters) as tube,
        tube.balance_consumer("g", "demo", node_id=0, source_count=1, meta_check_s=0.1) as consumer,
    ):
        assert await consumer.ready(10)
        consumer.batches(max_wait_s=0.01)
        mock.partitions["demo", 0].owners["g"] = "somebody"
        mock.store("demo", b"wake up")
        await until(lambda: not consumer.registered and not consumer.connected)
        mock.partitions["demo", 0].owners.clear()
        await until(lambda: consumer.registered == (P[0],))


async def test_events_tell_of_what_was_taken() -> None:
    async with (
        MockBroker(topics=FOUR) as mock,
        connect(mock.masters) as tube,
        tube.balance_consumer("g", "demo", node_id=1, source_count=2) as consumer,
        asyncio.timeout(10),
    ):
        async for event in tube.events():
            if isinstance(event, Rebalanced):
                assert event.gained == (P[1], P[3])
                assert event.assignment == consumer.registered
                break


async def test_what_cannot_mend_is_raised_out_of_the_batches() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        mock.fail_next(Method.CONSUMER_REGISTER_C2B, code=400, text="no such filter", times=8)
        async with tube.balance_consumer("g", "demo", node_id=0, source_count=1) as consumer:
            with pytest.raises(BadRequestError, match="no such filter"):
                async for _ in consumer.batches():
                    pass
            with pytest.raises(BadRequestError):
                await consumer.ready()


# --- the membership -----------------------------------------------------------------------------------------------


async def test_what_the_master_is_told_on_entering() -> None:
    async with (
        MockBroker(topics={"demo": 2, "filt": 1}) as mock,
        connect(mock.masters) as tube,
        manual(tube, "filt", "demo", node_id=0, source_count=2, filters={"filt": ["abc"]}) as consumer,
    ):
        (said,) = mock.received(Method.CONSUMER_REGISTER_C2M_V2)
        assert isinstance(said, RegisterRequestC2MV2)
        assert said.client_id == consumer.consumer_id
        assert said.client_id.split("-")[4] == "Balance"
        assert (said.group_name, said.source_count, said.node_id) == ("g", 2, 0)
        assert said.topic_list == ("filt", "demo")
        assert said.topic_condition == ("filt#abc",)
        report = said.sub_rep_info
        assert report is not None
        assert (report.broker_config_id, report.topic_meta_info_id) == (-2, -2)
        assert not report.report_sub_info
        assert report.lst_assigned_time is None
        assert said.ops_task_info is None


async def test_members_without_numbers_say_so() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube, manual(tube) as consumer:
        (said,) = mock.received(Method.CONSUMER_REGISTER_C2M_V2)
        assert (said.source_count, said.node_id) == (-2, -2)
        assert (consumer.source_count, consumer.node_id, consumer.share) == (None, None, frozenset())


async def test_who_we_are() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        consumer = tube.balance_consumer("g", "demo", node_id=1, source_count=3, filters=["a"])
        assert (consumer.closed, consumer.consumer_id) == (True, "")
        async with consumer:
            assert (consumer.closed, consumer.client_version) == (False, __version__)
            assert consumer.client_version in consumer.consumer_id
            assert (consumer.node_id, consumer.source_count) == (1, 3)
            assert consumer.filters("demo") == {"a"}
            assert consumer.options.confirm_timeout_s is None
            with pytest.raises(ConfigError, match="does not read the topic 'other'"):
                consumer.filters("other")
            with pytest.raises(ClosedError):
                await consumer.__aenter__()
        assert consumer.closed
        with pytest.raises(ClosedError):
            await consumer.partition_meta()
        with pytest.raises(ClosedError):
            await consumer.connect(P[0])
        await consumer.disconnect(P[0])


async def test_a_forgotten_consumer_registers_again_with_what_it_holds(capabilities: Capability) -> None:
    async with (
        MockBroker(topics=FOUR, capabilities=capabilities) as mock,
        connect(mock.masters) as tube,
        manual(tube) as consumer,
    ):
        await consumer.connect(P[1])
        mock.forget_clients()
        mock.reported.clear()
        mock.touch()
        poke(consumer)
        await until(lambda: mock.reported.get(consumer.consumer_id) == ("demo#1:1",))
        assert consumer.registered == (P[1],)


async def test_a_number_that_a_dead_member_has_is_waited_for() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        mock.consumers["dead"] = "g"
        mock.nodes["dead"] = 0
        entering = asyncio.create_task(tube.balance_consumer("g", "demo", node_id=0, source_count=2).__aenter__())
        await mock.until(lambda: len(mock.received(Method.CONSUMER_REGISTER_C2M_V2)) > 2)
        del mock.consumers["dead"]
        assert await (await entering).ready(10)


async def test_a_number_is_waited_for_across_a_restart_of_the_master() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        mock.consumers["dead"] = "g"
        mock.nodes["dead"] = 0
        entering = asyncio.create_task(tube.balance_consumer("g", "demo", node_id=0, source_count=2).__aenter__())
        await mock.until(lambda: len(mock.received(Method.CONSUMER_REGISTER_C2M_V2)) > 1)
        mock.drop_on(Method.CONSUMER_REGISTER_C2M_V2)
        mock.crash_next(Method.CONSUMER_REGISTER_C2M_V2, exception_name="StandbyException")
        await mock.until(lambda: len(mock.received(Method.CONSUMER_REGISTER_C2M_V2)) > 4)
        del mock.consumers["dead"]
        assert await (await entering).ready(10)


async def test_a_number_that_a_living_member_has_is_refused_in_the_end() -> None:
    async with (
        MockBroker(topics=FOUR) as mock,
        connect(mock.masters) as tube,
        tube.balance_consumer("g", "demo", node_id=0, source_count=2),
    ):
        with pytest.raises(GroupMismatchError, match="give each its own node_id") as caught:
            await tube.balance_consumer("g", "demo", node_id=0, source_count=2, node_wait_s=0.05).__aenter__()
        assert caught.value.code == 430


@pytest.mark.parametrize(
    ("code", "hint"),
    [(424, "another group name"), (425, "same topics"), (426, "same filters"), (429, "same source_count")],
)
async def test_a_group_that_differs_is_told_with_what_to_do(code: int, hint: str) -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        mock.fail_next(Method.CONSUMER_REGISTER_C2M_V2, code=code, text="differs")
        with pytest.raises(GroupMismatchError, match=hint):
            await manual(tube).__aenter__()


async def test_a_topic_that_does_not_exist_is_named() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        with pytest.raises(NotFoundError, match="nosuch"):
            await manual(tube, "nosuch").__aenter__()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "neither a share"),
        ({"node_id": 0}, "only one of"),
        ({"source_count": 2, "manual": True}, "only one of"),
        ({"node_id": 2, "source_count": 2}, "node_id is 2 and source_count is 2"),
        ({"node_id": -1, "source_count": 2}, "node_id is -1"),
        ({"manual": True, "meta_check_s": 0.0}, "meta_check_s"),
        ({"manual": True, "node_wait_s": -1.0}, "node_wait_s"),
        ({"manual": True, "confirm_timeout_s": 0.0}, "confirm_timeout_s"),
    ],
)
async def test_options_that_make_no_sense_are_refused(options: dict[str, Any], text: str) -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        with pytest.raises(ConfigError, match=text):
            tube.balance_consumer("g", "demo", **options)


async def test_heartbeats_carry_what_is_known(capabilities: Capability) -> None:
    async with (
        MockBroker(topics=FOUR, capabilities=capabilities) as mock,
        connect(mock.masters) as tube,
        manual(tube) as consumer,
    ):
        await consumer.connect(P[0])
        await consumer.connect(P[2])
        await until(lambda: mock.reported.get(consumer.consumer_id) == ("demo#1:0,1:2",))
        beats = mock.received(Method.CONSUMER_HEARTBEAT_C2M_V2)
        told: HeartRequestC2MV2 = next(one for one in beats if one.sub_rep_info.report_sub_info)
        assert told.sub_rep_info is not None
        assert told.sub_rep_info.topic_meta_info_id == mock.meta_id
        assert told.sub_rep_info.broker_config_id == mock.check_sum
        assert (told.sub_rep_info.lst_assigned_time or 0) > 0
        await consumer.disconnect(P[0])
        await until(lambda: mock.reported.get(consumer.consumer_id) == ("demo#1:2",))


# --- by hand ------------------------------------------------------------------------------------------------------


async def test_the_partitions_there_are_with_whether_they_can_be_consumed() -> None:
    async with MockBroker(topics={"demo": 2}) as mock, MockBroker(topics={"demo": 1}, broker_id=2) as other:
        mock.peers.append(other)
        async with connect(mock.masters) as tube, manual(tube) as consumer:
            assert await consumer.partition_meta() == {P[0]: True, P[1]: True, Partition(2, "demo", 0): True}
            other.online = False
            await until_meta(consumer, {P[0]: True, P[1]: True, Partition(2, "demo", 0): False})


async def until_meta(consumer: BalanceConsumer, expected: dict[Partition, bool]) -> None:
    """Ask until the answer is the expected one."""
    await until_answer(consumer.partition_meta, lambda found: found == expected, timeout_s=10)


async def test_the_master_is_asked_once_per_period(capabilities: Capability) -> None:
    async with (
        MockBroker(topics=FOUR, capabilities=capabilities) as mock,
        connect(mock.masters) as tube,
        tube.balance_consumer("g", "demo", manual=True, meta_check_s=60) as consumer,
    ):
        answers = await asyncio.gather(*(consumer.partition_meta() for _ in range(20)))
        assert all(answer == dict.fromkeys(P, True) for answer in answers)
        assert len(mock.received(Method.GET_PART_META_C2M)) == 1


async def test_connect_read_confirm_disconnect(capabilities: Capability) -> None:
    async with MockBroker(topics=FOUR, capabilities=capabilities) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"c", partition_id=3)
        async with manual(tube, start=Start.EARLIEST) as consumer:
            assert not await consumer.ready(0.01)
            await consumer.connect("1:demo:3")
            assert await consumer.ready(10)
            registered = consumer.registered
            assert registered == consumer.assignment == (P[3],)
            batch = await consumer.next_batch(timeout_s=10)
            assert batch is not None
            assert [message.body for message in batch] == [b"a", b"b", b"c"]
            await batch.confirm()
            offsets = consumer.offsets()[P[3]]
            assert (offsets.position, offsets.newest) == (84, 84)
            assert offsets.told_at_ms > 1_600_000_000_000
            await consumer.disconnect(P[3])
            assert consumer.registered == ()
            assert consumer.offsets() == {}
            assert mock.partitions["demo", 3].owners == {}
            await consumer.disconnect(P[3])


async def test_an_offset_to_begin_at_wins_over_start_and_position() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"c")
        mock.partitions["demo", 0].confirmed["g"] = 3
        async with manual(tube, start=Start.ALWAYS_LATEST) as consumer:
            await consumer.connect(P[0], offset=28)
            (said,) = registrations(mock)
            assert (said.curr_offset, said.read_status) == (28, 0)
            batch = await consumer.next_batch(timeout_s=10)
            assert batch is not None
            assert [message.body for message in batch] == [b"b", b"c"]


async def test_where_to_start_is_said_once_per_partition() -> None:
    async with (
        MockBroker(topics=FOUR) as mock,
        connect(mock.masters) as tube,
        manual(tube, start=Start.ALWAYS_LATEST) as consumer,
    ):
        await consumer.connect(P[0])
        await consumer.disconnect(P[0])
        await consumer.connect(P[0])
        assert [one.read_status for one in registrations(mock)] == [2, 0]
        assert [one.curr_offset for one in registrations(mock)] == [None, None]


async def test_connecting_twice_at_once_registers_once() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube, manual(tube) as consumer:
        await asyncio.gather(*(consumer.connect(P[0]) for _ in range(10)))
        await consumer.connect(P[0])
        assert len(registrations(mock)) == 1


async def test_unknown_and_closed_partitions_are_refused() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        mock.closed.add("demo")
        async with manual(tube) as consumer:
            with pytest.raises(NotFoundError, match="no partition 1:demo:9") as missing:
                await consumer.connect("1:demo:9")
            assert missing.value.code == 404
            with pytest.raises(RefusedError, match="cannot be consumed now") as closed:
                await consumer.connect(P[0])
            assert closed.value.code == 422
            with pytest.raises(FormatError):
                await consumer.connect(" ")
            with pytest.raises(ConfigError, match="offset is -1"):
                await consumer.connect(P[0], offset=-1)
        assert not registrations(mock)


@pytest.mark.parametrize("code", [410, 415])
async def test_a_refused_partition_is_left_alone_for_a_while(code: int) -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube, manual(tube) as consumer:
        mock.fail_next(Method.CONSUMER_REGISTER_C2B, code=code, times=2)
        with pytest.raises(RefusedError) as refused:
            await consumer.connect(P[0])
        assert refused.value.code == code
        with pytest.raises(ThrottledError, match="was refused") as guarded:
            await consumer.connect(P[0])
        assert guarded.value.code == Code.CLIENT_HIGH_FREQUENCY_REQUEST
        assert len(registrations(mock)) == 2
        await consumer.connect(P[1])


async def test_a_broker_that_refuses_once_is_asked_again() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube, manual(tube) as consumer:
        mock.fail_next(Method.CONSUMER_REGISTER_C2B, code=410)
        await consumer.connect(P[0])
        assert consumer.registered == (P[0],)


async def test_a_partition_of_another_member_is_occupied() -> None:
    async with (
        MockBroker(topics=FOUR) as mock,
        connect(mock.masters) as tube,
        manual(tube) as one,
        manual(tube) as other,
    ):
        await one.connect(P[0])
        with pytest.raises(OccupiedError):
            await other.connect(P[0])
        await one.disconnect(P[0])
        await other.connect(P[1])


@pytest.mark.slow
async def test_what_cannot_be_consumed_any_more_is_given_back() -> None:
    async with (
        MockBroker(topics={"demo": 1, "other": 1}) as mock,
        connect(mock.masters) as tube,
        manual(tube, "demo", "other") as consumer,
    ):
        await consumer.connect(P[0])
        await consumer.connect("1:other:0")
        mock.closed.add("demo")
        await until_meta(consumer, {P[0]: False, Partition(1, "other", 0): True})
        await until(lambda: consumer.registered == (Partition(1, "other", 0),))
        await mock.until(lambda: mock.partitions["demo", 0].owners == {})


async def test_a_batch_is_never_given_back_by_itself_but_by_its_partition() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        async with manual(tube, start=Start.EARLIEST) as consumer:
            await consumer.connect(P[0])
            batch = await consumer.next_batch(timeout_s=10)
            assert batch is not None
            assert batch.ticket
            leaving = asyncio.create_task(consumer.disconnect(P[0]))
            await asyncio.sleep(0)
            await batch.confirm()  # waited for
            await leaving
            assert mock.confirmed("g", "demo") == 1
            with pytest.raises(StaleBatchError, match="settle each batch once"):
                await batch.confirm()


async def test_a_consumer_that_is_closed_while_it_connects_holds_nothing() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        consumer = manual(tube)
        await consumer.__aenter__()
        arrived, go_on = asyncio.Event(), asyncio.Event()

        async def late(call: Any, request: Any) -> Any:
            arrived.set()
            await go_on.wait()
            return mock.work(call, request)

        mock.script(Method.CONSUMER_REGISTER_C2B, late)
        connecting = asyncio.create_task(consumer.connect(P[0]))
        await arrived.wait()
        await consumer.close()
        go_on.set()
        with pytest.raises(ClosedError):
            await connecting
        assert mock.partitions["demo", 0].owners == {}


# --- the operators ------------------------------------------------------------------------------------------------


async def test_an_operator_sends_the_group_to_the_newest_messages(capabilities: Capability) -> None:
    async with MockBroker(topics={"demo": 1}, capabilities=capabilities) as mock, connect(mock.masters) as tube:
        mock.store("demo", *(b"%d" % number for number in range(10)))
        mock.newest_id = 1_000  # given before: not for whoever registers now
        async with manual(tube, start=Start.EARLIEST) as consumer:
            await consumer.connect(P[0])
            batch = await anext(consumer.batches(max_messages=1, max_wait_s=0.01))
            mock.newest_id = 2_000
            mock.touch()
            poke(consumer)
            await mock.until(lambda: mock.confirmed("g", "demo") == 10)
            with pytest.raises(StaleBatchError, match="newest"):
                await batch.confirm()
            mock.store("demo", b"new")
            batch = await anext(consumer.batches(max_messages=1, max_wait_s=0.01))
            assert [message.body for message in batch] == [b"new"]
            assert [one.read_status for one in registrations(mock)] == [0, 2]
            poke(consumer)
            beats = mock.received(Method.CONSUMER_HEARTBEAT_C2M_V2)
            assert newest_of(beats[0]) == 1_000
            await mock.until(lambda: newest_of(mock.received(Method.CONSUMER_HEARTBEAT_C2M_V2)[-1]) == 2_000)


def newest_of(beat: HeartRequestC2MV2) -> int | None:
    """Which command to go to the newest messages a heartbeat knows of."""
    return None if beat.ops_task_info is None else beat.ops_task_info.csm_frm_max_offset_ctrl_id


def poke(consumer: BalanceConsumer) -> None:
    """Have the next heartbeat sent now, for a Master that cannot hold them."""
    consumer._poke()


async def test_a_command_that_comes_during_a_registration_is_followed_after_it() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"old")
        async with manual(tube, start=Start.EARLIEST) as consumer:
            await consumer.connect(P[0])
            arrived, go_on = asyncio.Event(), asyncio.Event()

            async def late(call: Any, request: Any) -> Any:
                arrived.set()
                await go_on.wait()
                return mock.work(call, request)

            mock.script(Method.CONSUMER_REGISTER_C2B, late)
            mock.drop_connections()
            await arrived.wait()
            consumer._go_to_newest()
            go_on.set()
            await until(lambda: [one.read_status for one in registrations(mock)] == [0, 0, 2])
            await until(lambda: consumer.registered == (P[0],))
            assert mock.confirmed("g", "demo") == 1


# --- the helper ---------------------------------------------------------------------------------------------------


async def test_the_helper_keeps_a_share_for_whoever_calls_it() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        consumer = manual(tube, node_id=1, source_count=2)
        await consumer.__aenter__()
        keeping = asyncio.create_task(keep_share(consumer))
        await until(lambda: consumer.registered == (P[1], P[3]))
        await consumer.connect(P[0])
        await until(lambda: consumer.registered == (P[1], P[3]))  # not its own, so given back
        await consumer.close()
        await keeping


async def test_the_helper_needs_a_number() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube, manual(tube) as consumer:
        with pytest.raises(ConfigError, match="has no share"):
            await keep_share(consumer)


@pytest.mark.parametrize("code", [403, 404, 410, 415, 500, 503])
async def test_the_helper_tries_again_what_may_mend(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_module, "GUARD_S", 0.01)
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        mock.fail_next(Method.CONSUMER_REGISTER_C2B, code=code, times=9)
        async with tube.balance_consumer("g", "demo", node_id=0, source_count=1, meta_check_s=0.1) as consumer:
            assert await consumer.ready(20)
            assert consumer.registered == tuple(P)


async def test_the_helper_waits_for_a_broker_that_answers_with_exceptions() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        for _ in range(8):
            mock.crash_next(Method.CONSUMER_REGISTER_C2B, exception_name="java.lang.RuntimeException", text="stopping")
        async with tube.balance_consumer("g", "demo", node_id=0, source_count=1, meta_check_s=0.1) as consumer:
            assert await consumer.ready(10)
            assert consumer.registered == tuple(P)


async def test_the_helper_raises_what_is_not_the_protocol() -> None:
    async with MockBroker(topics=FOUR) as mock, connect(mock.masters) as tube:
        mock.script(Method.CONSUMER_REGISTER_C2B, *[lambda _call, _request: b"\xff\xff"] * 8)
        async with tube.balance_consumer("g", "demo", node_id=0, source_count=1) as consumer:
            with pytest.raises(WireError):
                await consumer.next_batch(timeout_s=10)


async def test_the_master_may_be_away_for_a_while(capabilities: Capability) -> None:
    async with (
        MockBroker(topics={"demo": 1}, capabilities=capabilities) as mock,
        connect(mock.masters) as tube,
        tube.balance_consumer("g", "demo", node_id=0, source_count=1, meta_check_s=0.1) as consumer,
    ):
        assert await consumer.ready(10)
        await mock.stop()
        await until(lambda: not consumer.registered)
        mock.create_topic("demo", 2)
        await mock.start()
        await until(lambda: consumer.registered == (P[0], P[1]))
        await until(lambda: mock.reported.get(consumer.consumer_id) == ("demo#1:0,1:1",))
