"""What a Broker may hold for a consumer is given back, also when the consumer never saw the Broker's answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq import Partition, connect
from pytubemq.client.consumer import consumer_base as base_module
from pytubemq.client.consumer.client_balance import consumer as balance_module
from pytubemq.errors import OccupiedError, RequestTimeoutError, StaleBatchError
from pytubemq.testing.mock_broker import SILENCE, MockBroker
from pytubemq.wire.protocol.messages.broker import RegisterResponseB2C
from pytubemq.wire.rpc.methods import Method
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio

DEMO = {"demo": 1}
P0 = Partition(1, "demo", 0)


def unregistrations(mock: MockBroker) -> int:
    """How often the Broker was told that a partition is not wanted any more."""
    return len([one for one in mock.received(Method.CONSUMER_REGISTER_C2B) if one.op_type == 32])


def done_but_not_answered(mock: MockBroker) -> Callable[[Any, Any], Any]:
    """A Broker that registers, and is too slow to say so."""

    def work(call: Any, request: Any) -> Any:
        mock.work(call, request)
        return SILENCE

    return work


def refuses_to_register(mock: MockBroker, code: int) -> Callable[[Any, Any], Any]:
    """A Broker that refuses each registration with a code, and takes what is given back."""

    def work(call: Any, request: Any) -> Any:
        if request.op_type == 32:
            return mock.work(call, request)
        return RegisterResponseB2C(success=False, err_code=code, err_msg="no")

    return work


async def test_a_member_that_leaves_while_it_is_being_registered_leaves_nothing_behind() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.script(Method.CONSUMER_REGISTER_C2B, done_but_not_answered(mock))
        async with tube.consumer("g", "demo"):
            await mock.until(lambda: mock.partitions["demo", 0].owners)
        assert mock.partitions["demo", 0].owners == {}


async def test_an_answer_that_is_due_is_waited_for_before_the_broker_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_module, "UNREGISTER_TIMEOUT_S", 60.0)
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        arrived, go_on = asyncio.Event(), asyncio.Event()

        async def slow(call: Any, request: Any) -> Any:
            arrived.set()
            await go_on.wait()
            return mock.work(call, request)

        mock.script(Method.CONSUMER_REGISTER_C2B, slow)
        consumer = await tube.consumer("g", "demo", close_timeout_s=60.0).__aenter__()
        await arrived.wait()
        closing = asyncio.create_task(consumer.close())
        await asyncio.wait([closing], timeout=0.05)
        assert not unregistrations(mock)  # a Broker that works in several threads might do it first
        go_on.set()
        await closing
        assert unregistrations(mock) == 1
        assert mock.partitions["demo", 0].owners == {}


async def test_a_connect_that_is_cancelled_leaves_nothing_behind() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.balance_consumer("g", "demo", manual=True) as consumer,
    ):
        mock.script(Method.CONSUMER_REGISTER_C2B, done_but_not_answered(mock))
        connecting = asyncio.create_task(consumer.connect(P0))
        await mock.until(lambda: mock.partitions["demo", 0].owners)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert mock.partitions["demo", 0].owners == {}
        assert consumer.connected == frozenset()
        await consumer.connect(P0)
        assert consumer.registered == (P0,)


async def test_a_connect_that_is_not_answered_in_time_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance_module, "CONNECT_TRIES", 1)
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters, request_timeout_s=0.3) as tube,
        tube.balance_consumer("g", "demo", manual=True) as consumer,
    ):
        mock.script(Method.CONSUMER_REGISTER_C2B, done_but_not_answered(mock))
        with pytest.raises(RequestTimeoutError):
            await consumer.connect(P0)
        assert mock.partitions["demo", 0].owners == {}


async def test_a_connect_that_is_refused_has_nothing_to_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance_module, "CONNECT_TRIES", 1)
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.balance_consumer("g", "demo", manual=True) as consumer,
    ):
        mock.fail_next(Method.CONSUMER_REGISTER_C2B, code=410)
        with pytest.raises(OccupiedError):
            await consumer.connect(P0)
        assert not unregistrations(mock)


async def test_what_a_broken_connection_was_to_carry_goes_over_another() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.balance_consumer("g", "demo", manual=True) as consumer,
    ):
        await consumer.connect(P0)
        mock.silence(Method.CONSUMER_REGISTER_C2B)  # the attempt to register again
        mock.drop_connections()
        await mock.until(lambda: len(mock.received(Method.CONSUMER_REGISTER_C2B)) == 2)
        assert mock.partitions["demo", 0].owners == {"g": consumer.client_id}
        await consumer.disconnect(P0)
        assert mock.partitions["demo", 0].owners == {}


@pytest.mark.parametrize("code", [403, 404, 415, 500, 503])
async def test_a_refusal_to_register_again_leaves_the_earlier_registration_to_be_given_back(code: int) -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.balance_consumer("g", "demo", manual=True) as consumer,
    ):
        await consumer.connect(P0)
        mock.respond_fn(Method.CONSUMER_REGISTER_C2B, refuses_to_register(mock, code))
        seeking = asyncio.create_task(consumer.seek(P0, 0))
        await mock.until(lambda: len(mock.received(Method.CONSUMER_REGISTER_C2B)) >= 3)  # refused more than once
        assert mock.partitions["demo", 0].owners == {"g": consumer.client_id}
        await consumer.disconnect(P0)
        with pytest.raises(StaleBatchError):
            await seeking
        assert mock.partitions["demo", 0].owners == {}


@pytest.mark.parametrize("code", [400, 450])
async def test_a_refusal_for_good_gives_the_earlier_registration_back_at_once(code: int) -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.balance_consumer("g", "demo", manual=True) as consumer,
    ):
        await consumer.connect(P0)
        mock.respond_fn(Method.CONSUMER_REGISTER_C2B, refuses_to_register(mock, code))
        with pytest.raises(StaleBatchError, match="given up: no"):
            await consumer.seek(P0, 0)
        assert consumer.connected == frozenset()
        assert mock.partitions["demo", 0].owners == {}


async def test_what_another_member_holds_is_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_module.ConsumerBase, "occupied_for_s", 60.0)
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        async with tube.consumer("g", "demo") as consumer:
            await until(lambda: consumer.assignment)
            mock.respond_fn(Method.CONSUMER_REGISTER_C2B, refuses_to_register(mock, 410))
            seeking = asyncio.create_task(consumer.seek(P0, 0))
            await mock.until(lambda: len(mock.received(Method.CONSUMER_REGISTER_C2B)) >= 3)
        assert not unregistrations(mock)
        seeking.cancel()
