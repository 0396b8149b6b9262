"""Reading a group from given offsets: seeking in a held partition, and groups that begin together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pytubemq import Bound, Partition, Start, connect
from pytubemq.errors import ConfigError, NotFoundError, RequestTimeoutError, StaleBatchError
from pytubemq.testing.mock_broker import SILENCE, MockBroker
from pytubemq.wire.protocol.messages.master import RegisterResponseM2C
from pytubemq.wire.rpc.methods import Method

pytestmark = pytest.mark.anyio

DEMO = {"demo": 2}
P0 = Partition(1, "demo", 0)
P1 = Partition(1, "demo", 1)
OK: dict[str, Any] = {"success": True, "err_code": 200, "err_msg": "OK!"}


async def test_seeking_back_and_forth() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"c", b"d")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_messages=2, max_wait_s=0.05)
            first = await anext(batches)
            assert await consumer.seek(P0, 84) == 84
            with pytest.raises(StaleBatchError, match="sent to another offset"):
                await first.confirm()
            batch = await anext(batches)
            assert [message.body for message in batch] == [b"d"]
            assert consumer.lag() == {P0: 1}
            await batch.confirm()
            assert await consumer.seek("1:demo:0", 28) == 28
            assert consumer.lag() == {P0: 3}
            assert [message.body for message in await anext(batches)] == [b"b", b"c"]
        registrations = [one.curr_offset for one in mock.received(Method.CONSUMER_REGISTER_C2B) if one.op_type == 31]
        assert registrations == [None, 84, 28], "only a seek moves the group"


async def test_a_seek_waits_for_a_confirm_that_is_on_its_way() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_messages=1, max_wait_s=0.05)
            batch = await anext(batches)
            arrived, go_on = asyncio.Event(), asyncio.Event()

            async def slowly(call: Any, request: Any) -> Any:
                arrived.set()
                await go_on.wait()
                return mock.work(call, request)

            mock.script(Method.CONSUMER_COMMIT_C2B, slowly)
            confirming = asyncio.create_task(batch.confirm())
            await arrived.wait()
            seeking = asyncio.create_task(consumer.seek(P0, 0))
            await asyncio.sleep(0)
            go_on.set()
            await confirming
            assert await seeking == 0
            assert (await anext(batches)).messages[0].body == b"a"


async def test_a_seek_that_cannot_be_done_says_why() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters, request_timeout_s=0.2) as tube:
        mock.store("demo", b"a")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batch = await anext(consumer.batches(max_wait_s=0.05))
            await batch.confirm()
            with pytest.raises(NotFoundError, match="1:demo:1 is not assigned"):
                await consumer.seek(P1, 0)
            with pytest.raises(ConfigError, match="offset is -1"):
                await consumer.seek(P0, -1)
            mock.respond_fn(Method.CONSUMER_REGISTER_C2B, lambda _call, _request: SILENCE)
            with pytest.raises(RequestTimeoutError, match="was not sent to the Broker"):
                await consumer.seek(P0, 0)


async def test_a_bound_consumer_says_so_and_begins_at_its_offsets_once() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"c")
        undivided = RegisterResponseM2C(**OK, not_allocated=True)
        mock.script(Method.CONSUMER_REGISTER_C2M, lambda call, request: (mock.work(call, request), undivided)[1])
        bound = Bound(session_key="job-7", source_count=1, select_big=False, offsets={P0: 56})
        async with tube.consumer("g", "demo", start=Start.EARLIEST, bound=bound) as consumer:
            batch = await anext(consumer.batches())
            assert [message.body for message in batch] == [b"c"]
            await mock.until(lambda: mock.acknowledged)
            mock.push_event(consumer.client_id, 2, [P0])
            await mock.until(lambda: len(mock.acknowledged) == 2)
            mock.push_event(consumer.client_id, 1, [P0])
            await mock.until(lambda: len(mock.acknowledged) == 3)
            mock.forget_clients()
            await mock.until(lambda: len(mock.received(Method.CONSUMER_REGISTER_C2M)) == 2)
        first, again = mock.received(Method.CONSUMER_REGISTER_C2M)
        said = (first.require_bound, first.session_key, first.total_count, first.required_partition, first.select_big)
        assert said == (True, "job-7", 1, "1:demo:0=56", False)
        assert (first.not_allocated, again.not_allocated) == (True, False)
        begun = [
            (one.partition_id, one.curr_offset)
            for one in mock.received(Method.CONSUMER_REGISTER_C2B)
            if one.op_type == 31
        ]
        assert sorted(begun[:2]) == [(0, 56), (1, None)]
        assert begun[2] == (0, None), "what comes back later is read where the group stands"


async def test_a_group_that_was_divided_before_is_read_where_it_stands() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"c")
        bound = Bound(session_key="job-7", source_count=1, offsets={P0: 56})
        async with tube.consumer("g", "demo", start=Start.EARLIEST, bound=bound) as consumer:
            batch = await anext(consumer.batches())
            assert [message.body for message in batch] == [b"a", b"b", b"c"]


def test_bounds_are_told_as_people_write_them() -> None:
    with pytest.raises(ConfigError, match="write a number from 1 to 1,000,000"):
        Bound(session_key="k", source_count=0)


async def test_a_plain_consumer_is_not_bound() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.consumer("g", "demo"):
        (register,) = mock.received(Method.CONSUMER_REGISTER_C2M)
        assert register.require_bound is False
        assert (register.session_key, register.total_count, register.required_partition) == (None, None, None)
        assert (register.select_big, register.not_allocated) == (None, None)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"session_key": " "}, "session_key"),
        ({"source_count": 0}, "source_count"),
        ({"offsets": {P0: -1}}, "offset of 1:demo:0"),
    ],
)
def test_what_makes_no_sense_is_named(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Bound(**{"session_key": "k", "source_count": 1, **given})


async def test_offsets_of_other_topics_are_refused() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        bound = Bound(session_key="k", source_count=1, offsets={"1:other:0": 0})  # type: ignore[dict-item]
        with pytest.raises(ConfigError, match="1:other:0, of a topic that this consumer does not read"):
            tube.consumer("g", "demo", bound=bound)
