"""The consumer against a scripted cluster."""

from __future__ import annotations

import asyncio

import pytest

from pytubemq import Connected, Lost, Partition, Rebalanced, Skipped, SlowConsumer, Start, Throttled, connect
from pytubemq.client.consumer import consumer_base as base_module
from pytubemq.errors import (
    BadRequestError,
    ClosedError,
    ConfigError,
    GroupMismatchError,
    MessageError,
    NotAllowedError,
    NotFoundError,
    RequestTimeoutError,
    StaleBatchError,
)
from pytubemq.model.ids import Address
from pytubemq.testing.mock_broker import SILENCE, MockBroker
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import GetMessageResponseB2C
from pytubemq.wire.rpc.methods import Method
from tests.support.events import event_of
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

DEMO = {"demo": 1}
P0 = Partition(1, "demo", 0)
P1 = Partition(1, "demo", 1)


async def test_batches_come_and_a_confirm_moves_the_group() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"c")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_messages=2)
            first = await anext(batches)
            assert [message.body for message in first] == [b"a", b"b"]
            assert (first.partition, first.start_offset, first.next_offset, len(first)) == (P0, 0, 56, 2)
            assert [message.offset for message in first] == [0, 28]
            assert mock.confirmed("g", "demo") == 0
            await first.confirm()
            assert mock.confirmed("g", "demo") == 2
            second = await anext(batches)
            assert [message.body for message in second] == [b"c"]
            assert consumer.lag() == {P0: 1}
            assert consumer.assignment == (P0,)


async def test_next_batch_alone_fetches() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        with pytest.raises(ClosedError):
            await tube.consumer("g", "demo").next_batch()
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer, asyncio.timeout(10):
            batch = await consumer.next_batch()
            assert batch is not None
            assert [message.body for message in batch] == [b"a", b"b"]
            await batch.confirm()
            assert await consumer.next_batch(timeout_s=0.01) is None


async def test_the_first_message_needs_neither_sleep_nor_second_heartbeat() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            await anext(consumer.batches())
        assert len(mock.received(Method.CONSUMER_HEARTBEAT_C2M)) <= 2


async def test_client_ids_carry_group_and_kind() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters, client_name="report") as tube,
        tube.consumer("my_group", "demo") as one,
        tube.consumer("my_group", "demo") as other,
    ):
        group, _, rest = one.client_id.rpartition("_")
        assert group == "my_group"
        assert rest.split("-")[0] == "127.0.0.1"
        assert rest.split("-")[4] == "Pull"
        assert rest.endswith(".report")
        assert one.client_id != other.client_id


async def test_one_unconfirmed_batch_per_partition() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_messages=1, max_wait_s=0.05)
            batch = await anext(batches)
            assert await consumer.next_batch(timeout_s=0.2) is None
            await batch.confirm()
            assert (await anext(batches)).messages[0].body == b"b"


async def test_after_closing_next_batch_raises_so_that_no_loop_spins() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        async with tube.consumer("g", "demo") as consumer:
            batches = consumer.batches()
        with pytest.raises(ClosedError, match="the consumer is not open"):
            await consumer.next_batch(timeout_s=0.01)
        assert [batch async for batch in batches] == []


async def test_the_iteration_yields_nothing_while_nothing_comes_and_next_batch_returns_none() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.consumer("g", "demo", start=Start.EARLIEST) as consumer,
    ):
        waiting = asyncio.ensure_future(anext(consumer.batches(max_wait_s=0.01)))
        await mock.until(lambda: len(mock.received(Method.GET_MESSAGE_C2B)) > 5)
        assert not waiting.done(), "the end of one fetch is no batch"
        mock.store("demo", b"a")
        batch = await waiting
        assert [message.body for message in batch] == [b"a"]
        await batch.confirm()
        assert await consumer.next_batch(timeout_s=0.02) is None


async def test_partitions_take_turns() -> None:
    async with MockBroker(topics={"demo": 2}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", partition_id=0)
        mock.store("demo", b"b", partition_id=1)
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches()
            got = {(await anext(batches)).partition, (await anext(batches)).partition}
            assert got == {P0, P1}


async def test_a_rejected_batch_comes_again() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches()
            first = await anext(batches)
            await first.reject()
            again = await anext(batches)
            assert again.messages == first.messages
            with pytest.raises(StaleBatchError, match=r"rejected|later one"):
                await first.confirm()
            await again.confirm()
            assert mock.confirmed("g", "demo") == 1
            with pytest.raises(StaleBatchError, match="confirmed before"):
                await again.confirm()
            with pytest.raises(StaleBatchError):
                await again.reject()


async def test_leaving_the_block_never_confirms() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batch = await anext(consumer.batches(max_messages=1))
        assert mock.confirmed("g", "demo") == 0
        assert not mock.consumers
        assert not mock.partitions["demo", 0].owners
        farewell = mock.received(Method.CONSUMER_REGISTER_C2B)[-1]
        assert (farewell.op_type, farewell.read_status) == (32, 1)
        assert not mock.received(Method.CONSUMER_COMMIT_C2B)
        assert not any(request.last_pack_consumed for request in mock.received(Method.GET_MESSAGE_C2B))
        with pytest.raises(StaleBatchError):
            await batch.confirm()
        await consumer.close()


async def test_a_batch_held_too_long_is_given_back_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        async with tube.consumer("g", "demo", start=Start.EARLIEST, confirm_timeout_s=0.05) as consumer:
            batches = consumer.batches()
            slow = await anext(batches)
            event = await event_of(tube, SlowConsumer)
            assert (event.partition, event.messages, event.held_s) == (P0, 1, 0.05)
            assert "g: a batch of 1:demo:0 was neither confirmed nor rejected within 0.05 s" in caplog.text
            with pytest.raises(StaleBatchError, match=r"(?s)0.05 s.*confirm within"):
                await slow.confirm()
            again = await anext(batches)
            assert again.messages == slow.messages
            await again.confirm()


@pytest.mark.parametrize(("start", "status"), [(Start.EARLIEST, 0), (Start.LATEST, 1), (Start.ALWAYS_LATEST, 2)])
async def test_where_a_group_begins(start: Start, status: int) -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"old")
        async with tube.consumer("g", "demo", start=start) as consumer:
            await until(lambda: consumer.assignment)
            mock.store("demo", b"new")
            batch = await anext(consumer.batches())
            assert [message.body for message in batch] == ([b"old", b"new"] if status == 0 else [b"new"])
        assert mock.received(Method.CONSUMER_REGISTER_C2B)[0].read_status == status


async def test_filters_go_to_master_and_broker_and_are_applied_again_by_text() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        async with tube.producer("demo") as producer:
            # "Aa" and "BB" share their hash, so the Broker cannot tell them apart
            for msg_type in ("Aa", "BB", "CC", None):
                await producer.send(str(msg_type).encode(), msg_type=msg_type)
            await producer.send(b"last", msg_type="Aa")
        async with tube.consumer("g", "demo", start=Start.EARLIEST, filters=["Aa"]) as consumer:
            batch = await anext(consumer.batches())
            assert [message.body for message in batch] == [b"Aa", b"last"]
            await batch.confirm()
        assert mock.received(Method.CONSUMER_REGISTER_C2M)[0].topic_condition == ("demo#Aa",)
        assert mock.received(Method.CONSUMER_REGISTER_C2B)[0].filter_cond_str == ("Aa",)


async def test_a_batch_that_only_holds_other_types_is_passed_by() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        async with tube.producer("demo") as producer:
            await producer.send(b"collides", msg_type="BB")
        async with tube.consumer("g", "demo", start=Start.EARLIEST, filters={"demo": ["Aa"]}) as consumer:
            consumer.batches()
            await mock.until(lambda: mock.confirmed("g", "demo") == 1)


async def test_a_message_that_fails_its_check_is_counted_and_reported() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"c")
        mock.partitions["demo", 0].messages[1].corrupt = True
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batch = await anext(consumer.batches())
            assert [message.body for message in batch] == [b"a", b"c"]
            event = await event_of(tube, Skipped)
            assert (event.partition, event.messages, event.offset) == (P0, 1, 28)
            assert "checksum" in event.reason
            assert consumer.stats.skipped == 1


async def test_a_restarted_broker_is_registered_at_again_and_the_batch_in_hand_confirmed() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_messages=1, max_wait_s=0.05)
            batch = await anext(batches)
            await mock.stop_broker()
            await mock.start_broker()
            await batch.confirm()
            assert mock.confirmed("g", "demo") == 1
            assert (await anext(batches)).messages[0].body == b"b"
            registrations = [r for r in mock.received(Method.CONSUMER_REGISTER_C2B) if r.op_type == 31]
            assert len(registrations) >= 2
            assert registrations[1].read_status == 0


async def test_registering_again_does_not_take_the_group_back_to_where_this_member_began() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"c")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            await until(lambda: consumer.assignment)
            # while this one stood still, another member read on and left
            mock.partitions["demo", 0].confirmed["g"] = 2
            mock.partitions["demo", 0].owners.clear()
            batch = await anext(consumer.batches(max_wait_s=0.05))
            assert batch.start_offset == 56
            registrations = [r for r in mock.received(Method.CONSUMER_REGISTER_C2B) if r.op_type == 31]
            assert [r.curr_offset for r in registrations] == [None, None]


async def test_a_broker_that_comes_back_at_another_address_is_found_there() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_messages=1, max_wait_s=0.05)
            await (await anext(batches)).confirm()
            before = mock.broker_address
            await mock.stop_broker()
            lost = await event_of(tube, Lost)
            assert lost.peer == before
            mock.broker_address = Address("127.0.0.1", 0)
            await mock.start_broker()
            mock.check_sum += 1
            assert mock.broker_address != before
            async with asyncio.timeout(20):
                batch = await anext(batches)
            assert batch.messages[0].body == b"b"
            await batch.confirm()
            assert (await event_of(tube, Connected)).peer == mock.broker_address


async def test_a_restart_of_everything_is_survived() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_messages=1, max_wait_s=0.05)
            await (await anext(batches)).confirm()
            await mock.stop()
            await event_of(tube, Lost)
            await mock.start()
            await event_of(tube, Connected)
            batch = await anext(batches)
            assert batch.messages[0].body == b"b"
            await batch.confirm()
            await mock.until(lambda: len(mock.received(Method.CONSUMER_REGISTER_C2M)) == 2)
            again = mock.received(Method.CONSUMER_REGISTER_C2M)[-1]
            assert len(again.subscribe_info) == 1


async def test_a_master_that_forgot_the_consumer_hears_what_it_holds() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.consumer("g", "demo") as consumer:
        await until(lambda: consumer.assignment)
        await mock.until(lambda: mock.acknowledged)
        mock.forget_clients()
        await mock.until(lambda: len(mock.received(Method.CONSUMER_REGISTER_C2M)) == 2)
        again = mock.received(Method.CONSUMER_REGISTER_C2M)[1]
        assert again.subscribe_info == (f"{consumer.client_id}@g#1:{mock.broker_address}#demo:0",)
        assert consumer.assignment == (P0,)


@pytest.mark.parametrize("code", [411, 412])
async def test_a_broker_that_forgot_the_consumer_is_registered_at_again(code: int) -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        mock.fail_next(Method.GET_MESSAGE_C2B, code=code)
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batch = await anext(consumer.batches(max_wait_s=0.05))
            await batch.confirm()
            assert mock.confirmed("g", "demo") == 1


async def test_an_occupied_partition_is_tried_until_it_is_free() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        mock.fail_next(Method.CONSUMER_REGISTER_C2B, code=410, times=3)
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            assert len(await anext(consumer.batches(max_wait_s=0.05))) == 1
            # the Master hears that the event is done although the partition was not free at first
            await mock.until(lambda: mock.acknowledged)


async def test_a_partition_that_is_refused_for_good_is_reported_as_not_held() -> None:
    async with MockBroker(topics={"demo": 2}) as mock, connect(mock.masters) as tube:
        mock.fail_next(Method.CONSUMER_REGISTER_C2B, code=400, text="not this one")
        async with tube.consumer("g", "demo") as consumer:
            event = await event_of(tube, Rebalanced)
            assert len(event.given) == 1
            await mock.until(lambda: mock.acknowledged)
            reports = [r for r in mock.received(Method.CONSUMER_HEARTBEAT_C2M) if r.report_subscribe_info]
            assert len(reports[0].subscribe_info) == 1
            assert len(consumer.assignment) == 1
            with pytest.raises(BadRequestError, match="not this one"):
                await consumer.next_batch()


async def test_events_connect_disconnect_and_are_acknowledged_with_the_report() -> None:
    async with (
        MockBroker(topics={"demo": 2}, auto_assign=False) as mock,
        connect(mock.masters) as tube,
        tube.consumer("g", "demo") as consumer,
    ):
        connect_id = mock.push_event(consumer.client_id, 1, [P0, P1])
        gained = await event_of(tube, Rebalanced)
        assert (gained.gained, consumer.assignment) == ((P0, P1), (P0, P1))
        await mock.until(lambda: len(mock.acknowledged) == 1)
        disconnect_id = mock.push_event(consumer.client_id, 2, [P1])
        given = await event_of(tube, Rebalanced)
        assert given.given == (P1,)
        await mock.until(lambda: len(mock.acknowledged) == 2)
        assert [event.rebalance_id for event in mock.acknowledged] == [connect_id, disconnect_id]
        assert [event.status for event in mock.acknowledged] == [2, 2]
        report = [r for r in mock.received(Method.CONSUMER_HEARTBEAT_C2M) if r.event is not None][-1]
        assert report.report_subscribe_info
        assert [info.rpartition("#")[2] for info in report.subscribe_info] == ["demo:0"]
        assert consumer.assignment == (P0,)
        assert consumer.stats.rebalances == 2


async def test_an_unknown_event_is_answered_and_changes_nothing() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.consumer("g", "demo") as consumer:
        await mock.until(lambda: len(mock.acknowledged) == 1)
        mock.push_event(consumer.client_id, 5, [P0])
        await mock.until(lambda: len(mock.acknowledged) == 2)
        assert consumer.assignment == (P0,)


async def test_a_partition_to_give_away_waits_for_the_batch_in_hand() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batch = await anext(consumer.batches(max_wait_s=0.05))
            await mock.until(lambda: len(mock.acknowledged) == 1)
            mock.push_event(consumer.client_id, 2, [P0])
            beats = len(mock.received(Method.CONSUMER_HEARTBEAT_C2M))
            await mock.until(lambda: len(mock.received(Method.CONSUMER_HEARTBEAT_C2M)) > beats)
            await batch.confirm()
            await mock.until(lambda: len(mock.acknowledged) == 2)
            assert mock.confirmed("g", "demo") == 1
            assert consumer.assignment == ()


async def test_a_batch_that_stays_in_hand_is_taken_away_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_module, "RELEASE_WAIT_S", 0.05)
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batch = await anext(consumer.batches(max_wait_s=0.05))
            await mock.until(lambda: len(mock.acknowledged) == 1)
            mock.push_event(consumer.client_id, 2, [P0])
            await mock.until(lambda: len(mock.acknowledged) == 2)
            with pytest.raises(StaleBatchError, match="the Master reassigned its partition"):
                await batch.confirm()
            assert mock.confirmed("g", "demo") == 0


async def test_a_confirm_whose_answer_is_lost_is_asked_again_by_offset() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_messages=1, max_wait_s=0.05)
            batch = await anext(batches)
            mock.drop_on(Method.CONSUMER_COMMIT_C2B, after=True)
            await batch.confirm()
            assert mock.confirmed("g", "demo") == 1
            assert (await anext(batches)).messages[0].body == b"b"


async def test_a_confirm_that_is_refused_fails_and_the_batch_comes_again() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_wait_s=0.05)
            batch = await anext(batches)
            mock.fail_next(Method.CONSUMER_COMMIT_C2B, code=403, text="closed")
            with pytest.raises(NotAllowedError, match="closed"):
                await batch.confirm()
            assert (await anext(batches)).messages == batch.messages


async def test_a_confirm_that_nobody_answers_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.client.consumer.confirms.CONFIRM_RETRY_S", 1.0)
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters, request_timeout_s=0.3) as tube:
        mock.store("demo", b"a")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_wait_s=0.05)
            batch = await anext(batches)
            mock.respond_fn(Method.CONSUMER_COMMIT_C2B, lambda _call, _request: SILENCE)
            with pytest.raises(RequestTimeoutError, match="not answered within 1 s"):
                await batch.confirm()
            assert len(mock.received(Method.CONSUMER_COMMIT_C2B)) > 1, "it was sent again"
            mock.respond_fn(Method.CONSUMER_COMMIT_C2B, None)
            again = await anext(batches)
            await again.confirm()


async def test_java_brokers_are_polled_and_confirmed_without_offsets() -> None:
    async with MockBroker(topics=DEMO, capabilities=Capability(0)) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches()
            batch = await anext(batches)
            assert batch.next_offset is None
            await batch.confirm()
            (commit,) = mock.received(Method.CONSUMER_COMMIT_C2B)
            assert (commit.last_pack_consumed, commit.up_to) == (True, None)
            mock.store("demo", b"c")
            assert [message.body for message in await anext(batches)] == [b"c"]
        fetch = mock.received(Method.GET_MESSAGE_C2B)[0]
        assert (fetch.max_wait_ms, fetch.max_messages) == (None, None)


async def test_a_java_broker_that_forgot_the_batch_has_it_come_again() -> None:
    async with MockBroker(topics=DEMO, capabilities=Capability(0)) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches()
            batch = await anext(batches)
            await mock.stop_broker()
            await mock.start_broker()
            with pytest.raises(StaleBatchError, match="come again"):
                await batch.confirm()
            again = await anext(batches)
            await again.confirm()
            assert mock.confirmed("g", "demo") == 1


async def test_flow_control_is_obeyed_and_told() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        mock.respond(
            Method.GET_MESSAGE_C2B,
            GetMessageResponseB2C(success=False, err_code=452, err_msg="too fast", min_limit_time=20),
        )
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            assert len(await anext(consumer.batches(max_wait_s=0.05))) == 1
            event = await event_of(tube, Throttled)
            assert (event.reason, event.wait_s, event.partition) == ("too fast", 0.02, P0)


async def test_idle_ends_the_iteration_and_it_can_go_on() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            seen = 0
            async for batch in consumer.batches(idle_timeout_s=0.2, max_wait_s=0.05):
                seen += len(batch)
                await batch.confirm()
            assert seen == 1
            mock.store("demo", b"b")
            assert (await anext(consumer.batches(max_wait_s=0.05))).messages[0].body == b"b"


async def test_a_cancelled_wait_loses_nothing() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.consumer("g", "demo", start=Start.EARLIEST) as consumer,
    ):
        batches = consumer.batches(max_wait_s=0.05)
        waiting = asyncio.ensure_future(anext(batches))
        await until(lambda: consumer.assignment)
        waiting.cancel()
        mock.store("demo", b"a")
        assert (await anext(batches)).messages[0].body == b"a"


async def test_a_refusal_in_the_background_is_raised_out_of_batches() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.consumer("g", "demo") as consumer:
        batches = consumer.batches(max_wait_s=0.05)
        await mock.until(lambda: mock.acknowledged)
        mock.fail_next(Method.CONSUMER_REGISTER_C2M, code=450, text="the group is forbidden", times=5)
        mock.forget_clients()
        with pytest.raises(NotAllowedError, match="forbidden"):
            await anext(batches)
        with pytest.raises(NotAllowedError):
            consumer.batches()


async def test_what_the_master_refuses_is_raised_with_the_remedy() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        with pytest.raises(NotFoundError, match=r"(?s)nope.*pytubemq topic create nope"):
            await tube.consumer("g", "nope").__aenter__()
        mock.fail_next(Method.CONSUMER_REGISTER_C2M, code=425, text="other topics")
        with pytest.raises(GroupMismatchError, match=r"(?s)other topics.*another group name"):
            await tube.consumer("g", "demo").__aenter__()


async def test_options_that_make_no_sense_are_refused_by_name() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        with pytest.raises(MessageError, match="group"):
            tube.consumer("no good", "demo")
        with pytest.raises(ConfigError, match=r"write a list: filters=\['AA'\]"):
            tube.consumer("g", "demo", filters="AA")
        with pytest.raises(ConfigError, match="other"):
            tube.consumer("g", "demo", filters={"other": ["AA"]})
        with pytest.raises(MessageError, match="filter item"):
            tube.consumer("g", "demo", filters=["a,b"])
        with pytest.raises(ConfigError, match=r"write texts: filters=\['1'\]"):
            tube.consumer("g", "demo", filters=[1])  # type: ignore[list-item]
        with pytest.raises(ConfigError, match="confirm_timeout_s"):
            tube.consumer("g", "demo", confirm_timeout_s=0)
        with pytest.raises(ConfigError, match=r"tube.consumer\(group, 'a', 'b'\)"):
            tube.consumer("g", ["a", "b"])  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"start is 'first'\n.* as texts 'earliest', 'latest'"):
            tube.consumer("g", "demo", start="first")  # type: ignore[arg-type]
        as_text = tube.consumer("g", "demo", start="earliest")  # type: ignore[arg-type]
        assert as_text.options.start is Start.EARLIEST
        assert repr(as_text) == "Consumer('g', 'demo', 0 partitions, not open)"
        async with tube.consumer("g", "demo") as consumer:
            assert repr(consumer).startswith("Consumer('g', 'demo', ")
            with pytest.raises(ConfigError, match="max_messages"):
                consumer.batches(max_messages=0)
            with pytest.raises(ConfigError, match="max_wait_s"):
                consumer.batches(max_wait_s=1e6)
        with pytest.raises(ClosedError):
            consumer.batches()


async def test_closing_while_somebody_waits_ends_the_iteration() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        consumer = await tube.consumer("g", "demo").__aenter__()
        waiting = asyncio.create_task(consumer.next_batch())
        await until(lambda: consumer.assignment)
        await consumer.close()
        assert await waiting is None


async def test_closing_with_everything_gone_is_bounded() -> None:
    mock = MockBroker(topics=DEMO)
    await mock.start()
    tube = await connect(mock.masters).__aenter__()
    consumer = await tube.consumer("g", "demo").__aenter__()
    await until(lambda: consumer.assignment)
    await mock.stop()
    await tube.close()
    await tube.close()


@pytest.mark.parametrize(("op_type", "status"), [(3, 2), (5, 2), (77, -2)])
async def test_an_event_of_a_type_that_nobody_knows_is_refused_and_changes_nothing(op_type: int, status: int) -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.consumer("g", "demo") as consumer,
    ):
        await until(lambda: consumer.assignment)
        held = consumer.assignment
        (client_id,) = mock.consumers
        number = mock.push_event(client_id, op_type, list(held))
        await mock.until(lambda: any(one.rebalance_id == number for one in mock.acknowledged))
        result = mock.acknowledged[-1]
        assert (result.rebalance_id, result.op_type, result.status) == (number, op_type, status)
        assert consumer.assignment == held
