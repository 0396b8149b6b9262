"""Whatever a Broker does to a producer's requests, every message arrives, in order; once, where it knows repeats."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytubemq import connect
from pytubemq.client.producer.in_flight_window import EAGER_MESSAGES
from pytubemq.model.limits import MAX_BATCH_MESSAGES
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.batch.record_batch import read_columns
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.extension import PackResult, PackSpan, SendPacksResponseB2P
from pytubemq.wire.rpc.methods import Method
from tests.support.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.net.server.call import Call

PARTITIONS = 3
SEND = Method.SEND_PACKS_P2B


class Fault(Enum):
    """What happens to one request."""

    NONE = "none"
    REFUSED = "all of it refused"
    PARTLY = "the second half refused"
    LOST = "the connection breaks before it is handled"
    ANSWER_LOST = "the connection breaks before the answer is out"


group_sizes = st.one_of(st.integers(1, 30), st.integers(EAGER_MESSAGES, 2 * MAX_BATCH_MESSAGES))
"""The large ones leave while others are under way."""
faults = st.lists(st.sampled_from(list(Fault)), max_size=8)


@pytest.mark.parametrize("idempotent", [False, True])
@settings(max_examples=examples(40))
@given(faults=faults, groups=st.lists(group_sizes, min_size=1, max_size=8))
def test_every_message_arrives_in_order(idempotent: bool, faults: list[Fault], groups: list[int]) -> None:
    asyncio.run(_check(idempotent, faults, groups))


def _broker(idempotent: bool) -> MockBroker:
    """One that detects duplicates, or one that does not."""
    can = OURS if idempotent else OURS & ~Capability.IDEMPOTENT
    return MockBroker(topics={"demo": PARTITIONS}, capabilities=can)


async def _check(idempotent: bool, faults: list[Fault], groups: list[int]) -> None:
    async with _broker(idempotent) as mock:
        for fault in faults:
            match fault:
                case Fault.NONE:
                    mock.script(SEND, lambda _call, _request: None)
                case Fault.REFUSED:
                    mock.fail_next(SEND, code=419)
                case Fault.PARTLY:
                    mock.script(SEND, _part_of_packs(mock))
                case Fault.LOST:
                    mock.drop_on(SEND)
                case Fault.ANSWER_LOST:
                    mock.drop_on(SEND, after=True)
        sent: list[tuple[int, bytes]] = []
        async with connect(mock.masters) as tube, tube.producer("demo") as producer:
            await producer.send(b"so that it is known what the Broker takes", partition=0)
            futures = []
            for count in groups:
                for _ in range(count):
                    number = len(sent)
                    sent.append((number % PARTITIONS, b"%05d" % number))
                    futures.append(producer.submit(sent[-1][1], partition=number % PARTITIONS))
                await asyncio.sleep(0)
            receipts = await asyncio.gather(*futures)
            assert producer.stats.buffered_messages == 0
        for partition_id in range(PARTITIONS):
            stored = [body for body in mock.bodies("demo", partition_id) if len(body) == 5]
            first_time = list(dict.fromkeys(stored))
            assert first_time == [body for target, body in sent if target == partition_id]
            assert not idempotent or stored == first_time
        bodies = {n: mock.bodies("demo", n) for n in range(PARTITIONS)}
        for receipt, (_, body) in zip(receipts, sent, strict=True):
            assert receipt.offset is not None
            assert bodies[receipt.partition.partition_id][receipt.offset // 28] == body


@pytest.mark.slow
@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("refused_at", [0, 1, 2, 3])
@pytest.mark.parametrize("code", [419, 503])
def test_one_refusal_among_many_under_way_keeps_the_order_of_a_key(
    idempotent: bool, refused_at: int, code: int
) -> None:
    def refuse(mock: MockBroker) -> None:
        mock.fail_next(SEND, code=code)

    asyncio.run(_check_one_key(idempotent, refused_at, refuse))


@pytest.mark.slow
@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("silent_at", [0, 1, 3])
def test_one_request_that_is_not_answered_keeps_the_order_of_a_key(idempotent: bool, silent_at: int) -> None:
    """Neither does a refusal right after it, when the Broker's count and the producer's may differ."""

    def fault(mock: MockBroker) -> None:
        mock.silence(SEND)
        mock.script(SEND, lambda _call, _request: None)
        mock.fail_next(SEND, code=419)

    asyncio.run(_check_one_key(idempotent, silent_at, fault, silent=True))


async def _check_one_key(
    idempotent: bool, after: int, fault: Callable[[MockBroker], None], *, silent: bool = False
) -> None:
    """More than one request's worth of one key, so that later requests are under way when one is refused.

    Where a request is not answered in time, others may not be either; such a one is sent again, and stored twice by a
    Broker that knows no repeats.
    """
    size = 100
    bodies = [b"%06d" % number * size for number in range(4 * MAX_BATCH_MESSAGES)]
    async with _broker(idempotent) as mock:
        mock.script(SEND, *([lambda _call, _request: None] * after))
        fault(mock)
        timeout_s = 1.0 if silent else 60.0
        async with connect(mock.masters, request_timeout_s=timeout_s) as tube, tube.producer("demo") as producer:
            await producer.send(b"so that it is known what the Broker takes", partition=0)
            await asyncio.gather(*[producer.submit(body, key="one") for body in bodies])
        stored = [body for body in mock.bodies("demo") if len(body) == 6 * size]
        assert list(dict.fromkeys(stored)) == bodies
        assert stored == bodies or (silent and not idempotent)


def _part_of_packs(mock: MockBroker) -> Any:
    """The first half of the packs is stored, and of the others nothing."""

    def script(call: Call, request: Any) -> SendPacksResponseB2P:
        half = (len(request.packs) + 1) // 2
        stored = mock.work(call, type(request)(**{**_fields(request), "packs": request.packs[:half]}))
        refused = [
            PackResult(
                spans=(
                    PackSpan(
                        count=read_columns(entry.data).count,
                        err_code=419,
                        first_offset=-1,
                        first_message_id=-1,
                        err_msg="the disk is full",
                    ),
                )
            )
            for entry in request.packs[half:]
        ]
        return SendPacksResponseB2P(
            success=not refused,
            err_code=419 if refused else 200,
            err_msg="the disk is full" if refused else "OK!",
            results=(*stored.results, *refused),
            append_time=stored.append_time,
        )

    return script


def _fields(request: Any) -> dict[str, Any]:
    return {name: getattr(request, name) for name in type(request).__dataclass_fields__}
