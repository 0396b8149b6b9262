"""A consumer under rules: of the Master, of the Broker, and of its own."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import logging
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq import Connected, Lost, Partition, Start, Throttled, connect
from pytubemq.client.consumer import partition_registration
from pytubemq.core.flow import DataLimit, EmptyReads, FlowRules, LowFetch, format_rules
from pytubemq.errors import ConfigError
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.batch.stored import encode_get_message_response
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import GetMessageResponseB2C, RegisterResponseB2C
from pytubemq.wire.protocol.messages.master import HeartResponseM2C, MasterAuthorizedInfo, RegisterResponseM2C
from pytubemq.wire.rpc.methods import Method
from tests.support.events import event_of, kept_events

if TYPE_CHECKING:
    from pytubemq.net.server.call import Call

pytestmark = pytest.mark.anyio

DEMO = {"demo": 1}
P0 = Partition(1, "demo", 0)
HOUR_MS = 3_600_000
ALWAYS = (0, 2459)
EMPTY = FlowRules(empty_reads=(EmptyReads(1, HOUR_MS),))
NOTHING = FlowRules(data_limits=(DataLimit(*ALWAYS, 21, 0, HOUR_MS),))
SLOW = FlowRules(low_fetch=LowFetch(HOUR_MS // 12, 0, 0))
OK: dict[str, Any] = {"success": True, "err_code": 200, "err_msg": "OK!"}


def registered(default: FlowRules | None = None, group: FlowRules | None = None, *, number: int = 7) -> Any:
    """The Master's answer to a registration, with rules."""
    return RegisterResponseM2C(
        **OK,
        not_allocated=False,
        def_flow_check_id=-2 if default is None else number,
        def_flow_control_info=" " if default is None else format_rules(default),
        group_flow_check_id=-2 if group is None else number,
        group_flow_control_info=" " if group is None else format_rules(group),
        qry_priority_id=-2 if group is None else 203,
    )


def scripted_register(mock: MockBroker, answer: Any) -> None:
    """Register as usual, and answer this."""

    def register(call: Call, request: Any) -> Any:
        mock.work(call, request)
        return answer

    mock.script(Method.CONSUMER_REGISTER_C2M, register)


def heartbeats(mock: MockBroker, **changes: Any) -> None:
    """Have every heartbeat's usual answer changed before it goes out."""

    def heartbeat(call: Call, request: Any) -> Any:
        answer = mock.work(call, request)
        return dataclasses.replace(answer, **changes) if isinstance(answer, HeartResponseM2C) else answer

    mock.respond_fn(Method.CONSUMER_HEARTBEAT_C2M, heartbeat)


def lagging(mock: MockBroker, lag_bytes: int, **fields: Any) -> None:
    """Have every fetch's answer say how much is left."""

    def fetch(call: Call, request: Any) -> Any:
        partition = mock.partitions["demo", 0]
        start = partition.confirmed.get("g", 0)
        if start >= partition.end:
            return None
        partition.fetched["g"] = start + 1
        head = GetMessageResponseB2C(
            **OK, curr_offset=start * 28, next_offset=start * 28 + 28, curr_data_dlt=lag_bytes, **fields
        )
        return encode_get_message_response(head, [partition.messages[start].entry(start)])

    mock.respond_fn(Method.GET_MESSAGE_C2B, fetch)


async def test_rules_are_asked_for_by_number_and_act_after_an_empty_fetch_until_they_are_taken_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        scripted_register(mock, registered(default=EMPTY))
        with caplog.at_level(logging.INFO, logger="pytubemq.client"):
            async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
                batches = consumer.batches(max_wait_s=0.01)
                waiting = asyncio.ensure_future(anext(batches))
                told = await event_of(tube, Throttled)
                assert told == Throttled("a pause after fetches that brought nothing", HOUR_MS / 1000, P0)
                mock.store("demo", b"a")
                fetches = len(mock.received(Method.GET_MESSAGE_C2B))
                asked = mock.received(Method.CONSUMER_HEARTBEAT_C2M)
                assert {request.def_flow_check_id for request in asked} == {7}
                assert {request.group_flow_check_id for request in asked} == {-2}
                assert not waiting.done()
                assert len(mock.received(Method.GET_MESSAGE_C2B)) == fetches == 1
                heartbeats(mock, def_flow_check_id=-2, def_flow_control_info=" ")
                mock.push_event(consumer.client_id, 3, [])  # ends the heartbeat that is held
                async with asyncio.timeout(30):
                    batch = await waiting
                assert batch.messages[0].body == b"a"
        assert mock.received(Method.CONSUMER_HEARTBEAT_C2M)[-1].def_flow_check_id in (7, -2)
        assert "flow-control rules changed" in caplog.text
        assert "the next fetch waits" in caplog.text


async def test_a_limit_on_what_comes_per_minute_stops_a_reader_that_is_far_behind() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"c")
        lagging(mock, 22 << 20)
        scripted_register(mock, registered(group=NOTHING))
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batch = await anext(consumer.batches(max_wait_s=0.01))
            await batch.confirm()
            told = await event_of(tube, Throttled)
            assert (told.reason, told.wait_s) == (
                "0 MiB a minute while more than 21 MiB are left to read",
                HOUR_MS / 1000,
            )
            assert await consumer.next_batch(timeout_s=0.2) is None
            (fetch,) = mock.received(Method.GET_MESSAGE_C2B)
            assert fetch.esc_flow_ctrl, "the group's own rule is kept here, not at the Broker"
            (register,) = mock.received(Method.CONSUMER_REGISTER_C2B)
            assert register.qry_priority_id == 203


async def test_a_reader_that_is_near_is_not_limited() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"c")
        lagging(mock, 21 << 20)
        scripted_register(mock, registered(default=NOTHING))
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches()
            for body in (b"a", b"b", b"c"):
                batch = await anext(batches)
                assert batch.messages[0].body == body
                await batch.confirm()
            assert not mock.received(Method.GET_MESSAGE_C2B)[0].esc_flow_ctrl


async def test_a_pause_after_every_fetch_is_told_once_a_minute_at_most() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        scripted_register(mock, registered(default=FlowRules(low_fetch=LowFetch(1, 0, 0))))
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_messages=1)
            for _ in range(2):
                await (await anext(batches)).confirm()
        assert [one for one in kept_events(tube) if isinstance(one, Throttled)] == [
            Throttled("a pause after every fetch", 0.001, P0)
        ]


async def test_rules_that_cannot_be_read_are_logged_and_leave_the_former_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        scripted_register(mock, registered(default=EMPTY))
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            heartbeats(mock, def_flow_check_id=8, def_flow_control_info="{")
            mock.push_event(consumer.client_id, 3, [])
            await mock.until(
                lambda: any(one.def_flow_check_id == 8 for one in mock.received(Method.CONSUMER_HEARTBEAT_C2M))
            )
            assert consumer.flow.rules.cluster == EMPTY
        assert caplog.text.count("previous flow-control rules, the new ones are invalid") == 1


async def test_a_fetch_interval_keeps_fetches_apart() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        async with tube.consumer("g", "demo", start=Start.EARLIEST, fetch_interval_s=3600) as consumer:
            await (await anext(consumer.batches(max_messages=1))).confirm()
            assert await consumer.next_batch(timeout_s=0.1) is None
        assert len(mock.received(Method.GET_MESSAGE_C2B)) == 1


@pytest.mark.parametrize("limit", ["max_messages_per_s", "max_bytes_per_s"])
async def test_a_rate_holds_for_all_partitions_together(limit: str) -> None:
    async with MockBroker(topics={"demo": 2}) as mock, connect(mock.masters) as tube:
        for partition_id in range(2):
            mock.store("demo", *[b"x" * 100] * 50, partition_id=partition_id)
        rate: Any = {limit: 0.01 if limit == "max_messages_per_s" else 1.0}
        async with tube.consumer("g", "demo", start=Start.EARLIEST, **rate) as consumer:
            await (await anext(consumer.batches(max_messages=10))).confirm()
            async for batch in consumer.batches(max_messages=10, idle_timeout_s=0.2):
                await batch.confirm()
            assert 10 <= consumer.stats.fetched <= 20, "each partition may have asked before the other's answer"


@pytest.mark.parametrize(
    ("option", "value"),
    [("fetch_interval_s", -1), ("max_messages_per_s", 0), ("max_bytes_per_s", 0), ("confirm_timeout_s", 0)],
)
async def test_options_out_of_range_are_named(option: str, value: float) -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        chosen: Any = {option: value}
        with pytest.raises(ConfigError, match=option):
            tube.consumer("g", "demo", **chosen)


async def test_a_broker_that_cannot_hold_a_fetch_is_asked_after_pauses_that_grow() -> None:
    async with (
        MockBroker(topics=DEMO, capabilities=Capability(0)) as mock,
        connect(mock.masters) as tube,
        tube.consumer("g", "demo", start=Start.EARLIEST) as consumer,
    ):
        tube._cluster.rng = lambda: 0.0  # type: ignore[union-attr]
        loop, times = asyncio.get_running_loop(), []
        mock.respond_fn(Method.GET_MESSAGE_C2B, lambda _call, _request: times.append(loop.time()))
        assert await consumer.next_batch(timeout_s=1.2) is None
        pauses = [after - before for before, after in itertools.pairwise(times)]
        assert len(times) <= 12
        assert all(pause >= least for pause, least in zip(pauses, (0.015, 0.03, 0.06, 0.12, 0.15, 0.15), strict=False))
        mock.store("demo", b"a")
        assert (await anext(consumer.batches())).messages[0].body == b"a"


async def test_a_broker_that_answers_at_once_although_it_could_wait_is_not_asked_in_a_spin() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.consumer("g", "demo", start=Start.EARLIEST) as consumer,
    ):
        mock.respond_fn(
            Method.GET_MESSAGE_C2B,
            lambda _call, _request: GetMessageResponseB2C(success=False, err_code=404, err_msg="too many wait"),
        )
        assert await consumer.next_batch(timeout_s=0.5) is None
        assert len(mock.received(Method.GET_MESSAGE_C2B)) <= 12


async def test_the_visit_token_goes_to_the_brokers_as_the_master_renews_it() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        scripted_register(
            mock,
            RegisterResponseM2C(
                **OK, not_allocated=False, authorized_info=MasterAuthorizedInfo(visit_authorized_token=42)
            ),
        )
        async with tube.producer("demo", batching=False) as producer:
            await producer.send(b"a")
            async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
                await anext(consumer.batches())
                await producer.send(b"b")
        first, second = mock.received(Method.SEND_MESSAGE_P2B)
        assert first.auth_info.visit_authorized_token == -2, "not known yet"
        assert second.auth_info.visit_authorized_token == 42
        assert {one.auth_info.visit_authorized_token for one in mock.received(Method.CONSUMER_REGISTER_C2B)} == {42}


async def test_a_send_of_many_carries_the_token_too() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo") as producer,
    ):
        tube._open().authentication.set_visit_token(43)
        await producer.send(b"a")
        await producer.send(b"b")
        (batch,) = mock.received(Method.SEND_PACKS_P2B)
        assert batch.auth_info.visit_authorized_token == 43


@pytest.mark.parametrize("code", [403, 415])
async def test_a_broker_that_goes_on_refusing_a_consumer_is_told_of(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_registration, "BRIEF_S", 0.1)
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        mock.respond_fn(
            Method.CONSUMER_REGISTER_C2B,
            lambda _call, _request: RegisterResponseB2C(success=False, err_code=code, err_msg="not you"),
        )
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            lost: Lost = await event_of(tube, Lost)
            assert (lost.reason.code, lost.reason.message, lost.peer) == (code, "not you", mock.broker_address)
            mock.respond_fn(Method.CONSUMER_REGISTER_C2B, None)
            assert (await anext(consumer.batches())).messages[0].body == b"a"
            assert (await event_of(tube, Connected)).peer == mock.broker_address


async def test_a_broker_that_does_not_know_the_token_yet_is_asked_again() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        mock.fail_next(Method.SEND_MESSAGE_P2B, code=415, text="unknown visit token")
        await producer.send(b"a")
        mock.fail_next(Method.CONSUMER_REGISTER_C2B, code=415, text="unknown visit token")
        mock.fail_next(Method.GET_MESSAGE_C2B, code=415, text="unknown visit token")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            assert (await anext(consumer.batches())).messages[0].body == b"a"
