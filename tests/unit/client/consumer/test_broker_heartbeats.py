"""Heartbeats of a consumer to the Brokers that hold partitions for it."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pytubemq import Partition, connect
from pytubemq.client.consumer import broker_heartbeats as heartbeats_module
from pytubemq.model.ids import Address
from pytubemq.model.limits import MAX_HEARTBEAT_PARTITIONS, MAX_REQUEST_BYTES
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.messages.broker import HeartBeatRequestC2B, HeartBeatResponseB2C
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.serialization.message_bytes import encode
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

TWO = {"demo": 2}
P0, P1 = (Partition(1, "demo", number) for number in range(2))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats_module, "HEARTBEAT_PERIOD_S", 0.05)


def registrations(mock: MockBroker) -> list[int]:
    """The partitions that the Broker was asked to hold, in order."""
    return [one.partition_id for one in mock.received(Method.CONSUMER_REGISTER_C2B) if one.op_type == 31]


async def test_a_broker_is_told_in_one_request_of_all_that_it_holds() -> None:
    async with MockBroker(topics=TWO) as mock, connect(mock.masters) as tube, tube.consumer("g", "demo") as consumer:
        await until(lambda: consumer.assignment == (P0, P1))
        before = len(mock.received(Method.CONSUMER_HEARTBEAT_C2B))
        await mock.until(lambda: len(mock.received(Method.CONSUMER_HEARTBEAT_C2B)) > before + 1)
        told = mock.received(Method.CONSUMER_HEARTBEAT_C2B)[-1]
        assert (told.client_id, told.group_name) == (consumer.client_id, "g")
        assert sorted(told.partition_info) == [f"1:{mock.broker_address}#demo:{number}" for number in range(2)]
        assert sorted(registrations(mock)) == [0, 1]


async def test_what_a_broker_does_not_know_any_more_is_registered_again() -> None:
    async with MockBroker(topics=TWO) as mock, connect(mock.masters) as tube, tube.consumer("g", "demo") as consumer:
        await until(lambda: consumer.assignment == (P0, P1))
        mock.partitions["demo", 1].owners.clear()
        await mock.until(lambda: mock.partitions["demo", 1].owners)
        assert sorted(registrations(mock)) == [0, 1, 1]


async def test_a_broker_that_refuses_a_heartbeat_is_registered_at_again() -> None:
    async with MockBroker(topics=TWO) as mock, connect(mock.masters) as tube, tube.consumer("g", "demo") as consumer:
        await until(lambda: consumer.assignment == (P0, P1))
        mock.respond(
            Method.CONSUMER_HEARTBEAT_C2B, HeartBeatResponseB2C(success=False, err_code=415, err_msg="not this token")
        )
        await mock.until(lambda: len(registrations(mock)) == 4)
        await until(lambda: consumer.assignment == (P0, P1))


async def test_a_heartbeat_that_is_refused_for_another_reason_loses_no_registration() -> None:
    async with MockBroker(topics=TWO) as mock, connect(mock.masters) as tube, tube.consumer("g", "demo") as consumer:

        def more_heartbeats_than(count: int) -> bool:
            return len(mock.received(Method.CONSUMER_HEARTBEAT_C2B)) > count

        await until(lambda: consumer.assignment == (P0, P1))
        for code in (400, 500, 503):
            before = len(mock.received(Method.CONSUMER_HEARTBEAT_C2B))
            mock.respond(
                Method.CONSUMER_HEARTBEAT_C2B, HeartBeatResponseB2C(success=False, err_code=code, err_msg="not now")
            )
            await mock.until(partial(more_heartbeats_than, before + 1))
            assert consumer.assignment == (P0, P1)
        assert sorted(registrations(mock)) == [0, 1]


async def test_a_failure_that_cannot_be_read_does_not_end_the_consumer() -> None:
    async with MockBroker(topics=TWO) as mock, connect(mock.masters) as tube, tube.consumer("g", "demo") as consumer:
        await until(lambda: consumer.assignment == (P0, P1))
        bad = ("", "411:", "x:1:127.0.0.1:1#demo:0", f"411:1:{mock.broker_address}#demo:1")
        mock.respond(
            Method.CONSUMER_HEARTBEAT_C2B,
            HeartBeatResponseB2C(success=True, err_code=200, err_msg="OK!", has_part_failure=True, failure_info=bad),
        )
        await mock.until(lambda: len(registrations(mock)) == 3)
        assert sorted(registrations(mock)) == [0, 1, 1], "what could be read of it holds"
        await until(lambda: consumer.assignment == (P0, P1))


@pytest.mark.parametrize(("most", "size_bytes"), [(2, 1 << 20), (10, 100)], ids=["by count", "by bytes"])
async def test_what_is_too_much_for_one_heartbeat_goes_in_several(
    monkeypatch: pytest.MonkeyPatch, most: int, size_bytes: int
) -> None:
    monkeypatch.setattr(heartbeats_module, "MAX_HEARTBEAT_PARTITIONS", most)
    monkeypatch.setattr(heartbeats_module, "MAX_HEARTBEAT_BYTES", size_bytes)
    async with (
        MockBroker(topics={"demo": 5}) as mock,
        connect(mock.masters) as tube,
        tube.consumer("g", "demo") as consumer,
    ):
        await until(lambda: len(consumer.assignment) == 5)
        before = len(mock.received(Method.CONSUMER_HEARTBEAT_C2B))
        mock.partitions["demo", 4].owners.clear()
        await mock.until(lambda: mock.partitions["demo", 4].owners)
        await mock.until(lambda: len(mock.received(Method.CONSUMER_HEARTBEAT_C2B)) > before + 6)
        told = [one.partition_info for one in mock.received(Method.CONSUMER_HEARTBEAT_C2B)[before:]]
        assert max(map(len, told)) <= 3
        assert {text for part in told for text in part} == {f"1:{mock.broker_address}#demo:{n}" for n in range(5)}
        assert sorted(registrations(mock)) == [0, 1, 2, 3, 4, 4], "only what was named as failed is registered again"


@pytest.mark.parametrize("chars", [1, 64], ids=["short names", "long names"])
def test_the_largest_heartbeat_and_its_response_fit_into_a_frame(chars: int) -> None:
    address = Address("h" * 8 * chars, 65535)
    members: Any = [SimpleNamespace(partition=Partition(2**31 - 1, "t" * chars, n)) for n in range(25_000)]
    sent: list[Any] = []
    for texts, part in heartbeats_module._parts(address, members):
        request = HeartBeatRequestC2B(
            client_id="c" * 1024, group_name="g" * 1024, read_status=0, partition_info=tuple(texts)
        )
        failed = tuple(f"411:{text}" for text in texts)
        answer = HeartBeatResponseB2C(success=True, err_code=200, err_msg="OK!", failure_info=failed)
        assert len(encode(request)) < MAX_REQUEST_BYTES - 4096
        assert len(encode(answer)) < MAX_REQUEST_BYTES - 4096
        assert len(texts) == len(part) <= MAX_HEARTBEAT_PARTITIONS
        sent += part
    assert sent == members, "all of them, in order, once"
