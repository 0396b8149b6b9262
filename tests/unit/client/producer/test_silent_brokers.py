"""Producers at a Broker that takes requests and does not respond: messages without a key skip it meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from pytubemq import connect
from pytubemq.client.producer import delivery
from pytubemq.core import routing
from pytubemq.errors import RequestTimeoutError
from pytubemq.model.ids import Partition
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.rpc.methods import Method
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pytubemq import Producer, Receipt

pytestmark = pytest.mark.anyio

SENDS = (Method.SEND_MESSAGE_P2B, Method.SEND_PACKS_P2B)
KINDS = {
    "packs": OURS,
    "batches": OURS & ~Capability.IDEMPOTENT,
    "numbered singles": OURS & ~Capability.PACKS,
    "singles": Capability(0),
}
ENOUGH = 100


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "UNANSWERED_BROKER_S", 0.1)
    monkeypatch.setattr(delivery, "OVERDUE_CHECK_S", 0.01)


class Silence:
    """A Broker's responses to messages, held back until `end`."""

    def __init__(self, *mocks: MockBroker) -> None:
        self._over = asyncio.Event()
        for mock in mocks:
            for method in SENDS:
                mock.respond_fn(method, self._hold)

    async def _hold(self, _call: object, _request: object) -> None:
        await self._over.wait()

    def end(self) -> None:
        self._over.set()


@contextlib.asynccontextmanager
async def two(
    capabilities: Capability, *, request_timeout_s: float = 60.0, delivery_timeout_s: float = 60.0
) -> AsyncIterator[tuple[MockBroker, MockBroker, Producer]]:
    """Two Brokers of one cluster, and a producer that has sent to both."""
    async with (
        MockBroker(topics={"demo": 1}, capabilities=capabilities, broker_id=1) as one,
        MockBroker(topics={"demo": 1}, capabilities=capabilities, broker_id=2) as other,
    ):
        one.peers.append(other)
        async with (
            connect(one.masters, request_timeout_s=request_timeout_s) as tube,
            tube.producer("demo", delivery_timeout_s=delivery_timeout_s) as producer,
        ):
            for broker_id in (1, 2):
                await producer.send(b"first", partition=Partition(broker_id, "demo", 0))
            yield one, other, producer


async def feed(
    submit: Callable[[bytes], asyncio.Future[Receipt]], done: Callable[[], bool]
) -> list[asyncio.Future[Receipt]]:
    """Submit a light load until something is so."""
    futures: list[asyncio.Future[Receipt]] = []
    async with asyncio.timeout(30):
        while not done():
            futures.append(submit(b"%d" % len(futures)))
            await asyncio.sleep(0.002)  # the load's pace
    return futures


@pytest.mark.parametrize("kind", KINDS)
async def test_messages_without_a_key_pass_over_a_broker_that_does_not_respond(kind: str) -> None:
    async with two(KINDS[kind]) as (one, other, producer):
        silence = Silence(other)
        held = producer.submit(b"held", partition=Partition(2, "demo", 0))
        futures = await feed(producer.submit, lambda: len(one.bodies("demo")) > ENOUGH)
        waiting = producer.stats.buffered_messages
        for number in range(20):  # all of them go to the other one, now that it is known
            assert (await producer.send(b"%d" % number)).partition.broker_id == 1
        assert producer.stats.buffered_messages <= waiting
        silence.end()
        await held
        assert {(await producer.send(b"again")).partition.broker_id for _ in range(2)} == {1, 2}, "back at once"
        await asyncio.gather(*futures)
        everything = [*one.bodies("demo"), *other.bodies("demo")]
        assert all(everything.count(b"%d" % number) == 1 for number in range(20, len(futures))), "each once"


async def test_lots_without_a_key_pass_over_a_broker_that_does_not_respond() -> None:
    async with two(OURS) as (one, other, producer):
        silence = Silence(other)
        lots: list[asyncio.Future[object]] = []
        async with asyncio.timeout(30):
            while len(one.bodies("demo")) <= ENOUGH:
                lots.append(asyncio.ensure_future(producer.send_many([b"a", b"b"])))
                await asyncio.sleep(0.002)  # the load's pace
        for _ in range(10):
            assert (await producer.send_many([b"a", b"b"])).partition.broker_id == 1
        silence.end()
        await asyncio.gather(*lots)


async def test_messages_with_a_key_wait_for_their_broker_and_keep_their_order() -> None:
    async with two(OURS) as (one, other, producer):
        key = next(b"%d" % n for n in range(99) if producer._choice._router.for_key(b"%d" % n).broker_id == 2)  # type: ignore[union-attr]
        silence = Silence(other)
        held = [producer.submit(b"key-0", key=key)]
        await feed(producer.submit, lambda: len(one.bodies("demo")) > ENOUGH)
        held += [producer.submit(b"key-%d" % number, key=key) for number in range(1, 50)]
        assert not any(future.done() for future in held)
        silence.end()
        receipts = await asyncio.gather(*held)
        assert {receipt.partition.broker_id for receipt in receipts} == {2}
        stored = [body for body in other.bodies("demo") if body.startswith(b"key-")]
        assert stored == [b"key-%d" % number for number in range(50)]


async def test_when_no_broker_responds_all_get_messages() -> None:
    async with two(OURS) as (one, other, producer):
        silence = Silence(one, other)
        router = producer._choice._router
        futures = [producer.submit(b"held", partition=Partition(broker_id, "demo", 0)) for broker_id in (1, 2)]
        futures += await feed(producer.submit, lambda: router._silent == {1, 2})
        assert not any(router.is_left_out(partition) for partition in router.partitions)
        futures += [producer.submit(b"more") for _ in range(20)]
        silence.end()
        async with asyncio.timeout(30):
            await asyncio.gather(*futures)


async def test_when_one_of_two_silent_brokers_responds_it_gets_the_messages() -> None:
    async with two(OURS) as (one, other, producer):
        router, senders = producer._choice._router, producer._delivery._senders
        silent = Silence(other)
        futures = [producer.submit(b"held", partition=Partition(2, "demo", 0))]
        futures += await feed(producer.submit, lambda: router._silent == {2} and senders[2].awaited_since_s is not None)
        futures += [producer.submit(b"held", partition=Partition(2, "demo", 0)) for _ in range(ENOUGH)]
        await until(lambda: senders[1].awaited_since_s is None)
        paused = Silence(one)
        futures.append(producer.submit(b"held", partition=Partition(1, "demo", 0)))

        def both_are_silent() -> bool:
            producer._delivery.check_overdue(asyncio.get_running_loop().time())
            return router._silent == {1, 2}

        await until(both_are_silent)
        futures += await feed(
            producer.submit, lambda: (filling := producer._choice.filling) is not None and filling.broker_id == 2
        )
        paused.end()
        await until(lambda: router._silent == {2} and senders[1].awaited_since_s is None)
        async with asyncio.timeout(30):
            assert (await producer.send(b"now")).partition.broker_id == 1
        silent.end()
        await asyncio.gather(*futures)


async def test_a_broker_gets_its_share_again_when_all_that_waited_for_it_has_ended() -> None:
    async with two(OURS, request_timeout_s=0.2, delivery_timeout_s=0.6) as (one, other, producer):
        Silence(other)
        held = producer.submit(b"held", partition=Partition(2, "demo", 0))
        futures = await feed(producer.submit, lambda: producer._choice._router._silent == {2})
        with pytest.raises(RequestTimeoutError):
            await held
        await asyncio.gather(*futures, return_exceptions=True)
        assert producer._delivery._senders[2].awaited_since_s is None
        sent = len(other.received(Method.SEND_PACKS_P2B))
        more = await feed(producer.submit, lambda: len(other.received(Method.SEND_PACKS_P2B)) > sent)
        await asyncio.gather(*more, return_exceptions=True)
        assert len(one.bodies("demo")) > 1
