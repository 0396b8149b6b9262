"""Repeated responses that are unreadable or contradictory: the consumer or reader waits longer each time, or ends."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from pytubemq import Partition, Start, Throttled, connect
from pytubemq.client.consumer import fetch_throttle
from pytubemq.client.reader import reader as reader_module
from pytubemq.core.retry import Backoff
from pytubemq.errors import CorruptError
from pytubemq.testing.mock_broker import SILENCE, MockBroker
from pytubemq.wire.protocol.messages.broker import GetMessageResponseB2C
from pytubemq.wire.protocol.messages.extension import ReadRangeResponseB2C
from pytubemq.wire.rpc.methods import Method
from tests.support.events import kept_events
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.net.server.call import Call

pytestmark = pytest.mark.anyio

P0 = Partition(1, "demo", 0)
NO_RESPONSE = b"\x08\x01\x10\xc8\x01\x22\x7f"
"""Success, and a message longer than what follows."""


def unreadable(_call: Call, _request: object) -> bytes:
    return NO_RESPONSE


def counted(pauses: list[int]) -> Backoff:
    """A backoff without pauses, which notes each one that there would be."""

    class Counted(Backoff):
        def delay_s(self, attempt: int, rng: Callable[[], float]) -> float:
            pauses.append(attempt)
            return 0.0

    return Counted()


async def test_a_response_that_stays_unreadable_is_fetched_with_growing_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[int] = []
    assert fetch_throttle.FAILED.delay_s(1, lambda: 0.0) == fetch_throttle.OTHER_S
    assert fetch_throttle.FAILED.delay_s(1000, lambda: 0.0) == 5.0
    monkeypatch.setattr(fetch_throttle, "FAILED", counted(pauses))
    caplog.set_level(logging.WARNING)
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        mock.respond_fn(Method.GET_MESSAGE_C2B, unreadable)
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches()
            await until(lambda: len(pauses) >= 5)
            mock.respond_fn(Method.GET_MESSAGE_C2B, None)
            batch = await anext(batches)
            assert [message.body for message in batch] == [b"a", b"b"]
            await batch.confirm()
        lines = [record.getMessage() for record in caplog.records if "fetch from offset" in record.getMessage()]
        assert len(lines) == 1, "once a minute"
        assert lines[0].startswith("1:demo:0: the fetch from offset 0 on failed: ")
        assert pauses[:5] == [1, 2, 3, 4, 5]
        throttled = [event for event in kept_events(tube) if isinstance(event, Throttled)]
        assert [event.partition for event in throttled] == [P0]


def lost(next_offset: int | None) -> Callable[[Call, object], GetMessageResponseB2C]:
    """Successful responses without a message, always from the same offset."""
    return lambda _call, _request: GetMessageResponseB2C(
        success=True, err_code=200, err_msg="OK!", curr_offset=0, next_offset=next_offset, max_offset=56
    )


@pytest.mark.parametrize("next_offset", [None, 0, 28])
async def test_success_that_leads_nowhere_is_fetched_with_growing_pauses_and_logged_once(
    next_offset: int | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[int] = []
    monkeypatch.setattr(fetch_throttle, "POLL", counted(pauses))
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        mock.respond_fn(Method.GET_MESSAGE_C2B, lost(next_offset))
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches()
            await until(lambda: len(pauses) >= 5)
            assert pauses[:5] == [1, 2, 3, 4, 5]
            mock.respond_fn(Method.GET_MESSAGE_C2B, None)
            assert [message.body for message in await anext(batches)][-1] == b"b"
    assert sum("messages left out" in line for line in caplog.messages) <= 1


async def test_a_filter_that_passes_over_messages_costs_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[int] = []
    monkeypatch.setattr(fetch_throttle, "POLL", counted(pauses))
    offsets = iter(range(0, 28 * 50, 28))

    def passed(_call: Call, _request: object) -> object:
        at = next(offsets, None)
        if at is None:
            return SILENCE
        return GetMessageResponseB2C(
            success=True, err_code=200, err_msg="OK!", curr_offset=at, next_offset=at + 28, max_offset=28 * 50
        )

    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.respond_fn(Method.GET_MESSAGE_C2B, passed)
        async with tube.consumer("g", "demo", filters={"demo": ["x"]}, start=Start.EARLIEST) as consumer:
            consumer.batches()
            await until(lambda: len(mock.received(Method.GET_MESSAGE_C2B)) > 50)
            assert pauses == []


async def test_a_reader_of_what_stays_unreadable_ends_with_partition_and_offset() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        mock.respond_fn(Method.READ_RANGE_C2B, unreadable)
        async with tube.reader(P0, start=28, end=Start.LATEST) as reader:
            with pytest.raises(CorruptError, match="1:demo:0 from offset 28 on cannot be read: the Broker's response"):
                await anext(reader.batches())
        assert [request.check for request in mock.received(Method.READ_RANGE_C2B)] == [None, True]


def nothing(newest: int) -> ReadRangeResponseB2C:
    return ReadRangeResponseB2C(success=False, err_code=404, err_msg="nothing", min_offset=0, max_offset=newest)


async def test_a_reader_of_a_broker_that_contradicts_itself_ends() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        mock.respond_fn(Method.READ_RANGE_C2B, lambda _call, _request: nothing(56))
        async with tube.reader(P0, start=28, end=Start.LATEST) as reader:
            with pytest.raises(CorruptError, match="no message at offset 28, but the end of the partition at 56"):
                await anext(reader.batches())
        assert len(mock.received(Method.READ_RANGE_C2B)) == 3


async def test_a_reader_at_the_end_of_a_broker_that_holds_no_fetch_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[int] = []
    monkeypatch.setattr(reader_module, "POLL", counted(pauses))
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        mock.respond_fn(Method.READ_RANGE_C2B, lambda _call, _request: nothing(56))
        async with tube.reader(P0, start=56) as reader:
            batches = reader.batches(max_wait_s=30)
            task = asyncio.ensure_future(anext(batches))
            await until(lambda: len(pauses) >= 5)
            assert pauses[:5] == [1, 2, 3, 4, 5]
            mock.respond_fn(Method.READ_RANGE_C2B, None)
            mock.store("demo", b"c")
            assert [message.body for message in await task] == [b"c"]
