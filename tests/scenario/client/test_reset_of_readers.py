"""A group is moved while its members have messages from the old place: fetched, in hand, or about to be confirmed."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

import pytubemq
from pytubemq import Partition, Start, sync
from pytubemq.errors import Code, StaleBatchError
from pytubemq.server.cluster import EmbeddedCluster
from pytubemq.testing.disk import FaultyDisk
from pytubemq.wire.protocol.extensions import OURS, Capability
from tests.scenario.broker.support import connected, item, running
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.client.tube import Tube

pytestmark = pytest.mark.anyio
P0 = Partition(1, "demo", 0)
BACKLOG = 3000


@contextlib.asynccontextmanager
async def scene(messages: int = BACKLOG) -> AsyncIterator[tuple[EmbeddedCluster, Tube]]:
    """A topic of one partition with a backlog."""
    async with EmbeddedCluster() as cluster, asyncio.timeout(60):
        await cluster.create_topic("demo", partitions=1)
        async with pytubemq.connect(cluster.master) as tube:
            async with tube.producer("demo") as producer:
                await producer.send_many([b"%d" % n for n in range(messages)])
            yield cluster, tube


def consumer_of(tube: Tube, kind: str) -> Any:
    if kind == "pull":
        return tube.consumer("g", "demo", start=Start.EARLIEST)
    return tube.balance_consumer("g", "demo", node_id=0, source_count=1, start=Start.EARLIEST)


async def next_of(consumer: Any) -> Any:
    batch = await consumer.next_batch()
    assert batch is not None
    return batch


@pytest.mark.parametrize("kind", ["pull", "balance"])
@pytest.mark.parametrize(("to", "first"), [(Start.LATEST, BACKLOG), (Start.EARLIEST, 0), (28 * 2000, 2000)])
async def test_a_member_with_a_backlog_goes_on_at_the_new_place(kind: str, to: Any, first: int) -> None:
    async with scene() as (_, tube), consumer_of(tube, kind) as consumer:
        consumer.batches(max_messages=10)
        await (await next_of(consumer)).confirm()
        in_hand = await next_of(consumer)
        await tube.reset_group("g", "demo", to)
        with pytest.raises(StaleBatchError, match="moved"):
            await in_hand.confirm()
        assert not in_hand.held
        async with tube.producer("demo") as producer:
            await producer.send(b"new")
        batch = await next_of(consumer)
        assert batch.start_offset == 28 * first
        assert batch.messages[0].body == (b"new" if first == BACKLOG else b"%d" % first)
        await batch.confirm()
        assert consumer.lag()[P0] == BACKLOG + 1 - first - len(batch)
        assert await tube.reset_group("g", "demo", 0, dry_run=True) == {P0: (batch.next_offset, 0)}


async def test_a_confirm_that_the_next_fetch_was_sent_behind_is_refused_as_well() -> None:
    async with scene() as (_, tube), consumer_of(tube, "pull") as consumer:
        consumer.batches(max_messages=BACKLOG)
        in_hand = await next_of(consumer)
        await tube.reset_group("g", "demo", 28)
        confirm = asyncio.create_task(in_hand.confirm())
        batch = await next_of(consumer)
        assert batch.start_offset == 28
        with pytest.raises(StaleBatchError, match="moved"):
            await confirm
        await batch.confirm()
        assert consumer.stats.confirmed == len(batch)


async def test_a_member_that_waits_at_the_end_goes_on_at_once() -> None:
    async with scene(3) as (_, tube), consumer_of(tube, "pull") as consumer:
        consumer.batches(max_wait_s=30)
        await (await next_of(consumer)).confirm()
        waiting = asyncio.create_task(next_of(consumer))
        await tube.reset_group("g", "demo", Start.EARLIEST)
        again = await asyncio.wait_for(waiting, 20)
        assert [message.body for message in again] == [b"0", b"1", b"2"]
        await again.confirm()


async def test_a_batch_in_hand_that_nobody_confirms_is_known_to_be_stale_with_the_next_heartbeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pytubemq.client.consumer.broker_heartbeats.HEARTBEAT_PERIOD_S", 0.05)
    async with scene() as (_, tube), consumer_of(tube, "pull") as consumer:
        consumer.batches(max_messages=10)
        in_hand = await next_of(consumer)
        await tube.reset_group("g", "demo", 28 * 2000)
        await until(lambda: not in_hand.held)
        assert (await next_of(consumer)).start_offset == 28 * 2000


async def test_a_reset_is_an_event() -> None:
    async with scene(3) as (_, tube), consumer_of(tube, "pull") as consumer:
        await (await next_of(consumer)).confirm()
        await tube.reset_group("g", "demo", 28)
        await next_of(consumer)
        events = [event async for event in _so_far(tube) if isinstance(event, pytubemq.PositionMoved)]
        assert [(event.partition, event.offset) for event in events] == [(P0, 28)]


async def _so_far(tube: Tube) -> AsyncIterator[Any]:
    events = tube.events()
    with contextlib.suppress(TimeoutError):
        while True:
            yield await asyncio.wait_for(events.get(), 0.2)


async def test_a_push_consumer_is_called_with_what_lies_at_the_new_place() -> None:
    async with scene() as (_, tube):
        offsets: list[int] = []
        began, go_on = asyncio.Event(), asyncio.Event()

        async def handle(batch: Any) -> None:
            offsets.append(batch.start_offset // 28)
            began.set()
            await go_on.wait()

        push = tube.push_consumer("g", "demo", handler=handle, start=Start.EARLIEST, max_messages=10)
        async with push:
            await began.wait()
            await tube.reset_group("g", "demo", 28 * 2000)
            go_on.set()
            await until(lambda: len(offsets) > 1)
            assert offsets[:2] == [0, 2000]


async def test_the_sync_api_raises_for_a_batch_from_before() -> None:
    async with scene() as (cluster, tube):
        taken, moved = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def read() -> list[int]:
            with sync.connect(str(cluster.master)) as own, own.consumer("g", "demo", start=Start.EARLIEST) as consumer:
                batches = consumer.batches(max_messages=10)
                first = next(batches)
                loop.call_soon_threadsafe(taken.set)
                asyncio.run_coroutine_threadsafe(moved.wait(), loop).result(30)
                with pytest.raises(StaleBatchError, match="moved"):
                    first.confirm()
                return [first.start_offset or 0, next(batches).start_offset or 0]

        reading = asyncio.create_task(asyncio.to_thread(read))
        await taken.wait()
        await tube.reset_group("g", "demo", 28 * 2000)
        moved.set()
        assert await reading == [0, 28 * 2000]


# --- at the Broker --------------------------------------------------------------------------------------------


def key() -> Any:
    from pytubemq.broker.registration_key import RegistrationKey

    return RegistrationKey("g", "demo", 0)


async def test_a_registration_from_before_reads_and_confirms_nothing_more() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(10)])
        assert (await peer.register()).reset_epoch is None
        await peer.get(max_messages=3, last_pack_consumed=False)
        held = asyncio.create_task(peer.get(max_messages=3, manual_commit_offset=True, max_wait_ms=20_000))
        await held
        await broker.offsets.set_one(key(), 140)
        for answer in (await peer.commit(up_to=84), await peer.commit(), (await peer.get())[0]):
            assert answer.err_code == Code.MOVED
            assert "register" in (answer.err_msg or "")
        beat = await peer.heartbeat("1:127.0.0.1:1#demo:0")
        assert beat.failure_info == ("301:1:127.0.0.1:1#demo:0",)
        again = await peer.register()
        assert again.curr_offset == 140
        assert (again.reset_epoch or 0) > 0
        assert (await peer.register()).reset_epoch == again.reset_epoch
        head, messages = await peer.get(max_messages=1, last_pack_consumed=False)
        assert [message.payload for message in messages] == [b"5"]
        assert (await peer.commit(up_to=head.next_offset)).curr_offset == 168
    async with running(disk) as broker, connected(broker) as peer:
        assert (await peer.register()).reset_epoch == again.reset_epoch, "who had a batch since before hears of it"
        await broker.offsets.set_one(key(), 28)
        assert ((await peer.register()).reset_epoch or 0) > (again.reset_epoch or 0)


async def test_what_was_fetched_after_a_reset_is_confirmed_in_a_later_registration() -> None:
    async with running() as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(10)])
        await peer.register()
        await broker.offsets.set_one(key(), 28)
        await peer.register()
        head, _ = await peer.get(max_messages=3, last_pack_consumed=False)
        await peer.register()  # its connection broke
        assert (await peer.commit(up_to=head.next_offset)).curr_offset == 112


async def test_a_held_fetch_is_answered_when_the_group_is_moved() -> None:
    async with running() as broker, connected(broker) as peer:
        await peer.send(b"0")
        await peer.register(read_status=2)
        held = asyncio.create_task(peer.get(max_wait_ms=20_000))
        assert broker._state is not None
        waiters = broker._state.waiters
        await until(lambda: len(waiters) == 1)
        await broker.offsets.set_one(key(), 0)
        assert (await held)[0].err_code == Code.MOVED


@pytest.mark.parametrize("capabilities", [Capability(0), OURS & ~Capability.RESET_NOTICES], ids=["Java", "older"])
async def test_one_who_knows_nothing_of_resets_is_moved_without_a_word(capabilities: Capability) -> None:
    async with running() as broker, connected(broker) as ours, connected(broker, capabilities=capabilities) as peer:
        await ours.send_each([item(b"%d" % n) for n in range(10)])
        assert (await peer.register()).reset_epoch is None
        await peer.get(last_pack_consumed=False)
        await broker.offsets.set_one(key(), 140)
        assert (await peer.commit()).success
        head, messages = await peer.get(last_pack_consumed=False)
        assert (head.err_code, messages[0].payload) == (Code.SUCCESS, b"5")
        assert (await peer.register()).reset_epoch is None
