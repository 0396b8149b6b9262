"""Positions that somebody else changes while consumers read: at once, durable, and no confirm undoes it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.broker.offsets import offset_admin
from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.errors import BadRequestError, Code, NotFoundError, RefusedError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.testing.disk import FaultyDisk, Operation
from pytubemq.wire.protocol.extensions import OURS, Capability
from tests.support.waiting import until

from .support import Peer, connected, running

if TYPE_CHECKING:
    from pytubemq.broker.inspect import BrokerInspect
    from pytubemq.broker.offsets.offset_admin import OffsetAdmin
    from pytubemq.broker.service import BrokerService
    from pytubemq.wire.batch.stored import StoredMessage

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

UNNOTIFIED = OURS & ~Capability.RESET_NOTICES
"""A consumer that goes on from the new place without a word; `client/test_reset_of_readers.py` has the others."""
KEY = RegistrationKey("g", "demo", 0)


def tools(broker: BrokerService) -> tuple[OffsetAdmin, BrokerInspect]:
    return broker.offsets, broker.inspect


async def send(peer: Peer, count: int, partition_id: int = 0) -> None:
    for number in range(count):
        assert (await peer.send(b"message %d" % number, partition_id)).success


def payloads(found: tuple[object, list[StoredMessage]]) -> list[bytes]:
    return [message.payload for message in found[1]]


async def test_a_reset_on_a_live_consumer_survives_its_next_confirm_and_a_crash() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker, capabilities=UNNOTIFIED) as peer:
        offsets, inspect = tools(broker)
        await send(peer, 5)
        await peer.register()
        first = await peer.get(max_messages=3)
        assert len(first[1]) == 3
        assert await offsets.set_one(KEY, OFFSET_UNIT) == 0
        # the confirm of what it had before says yes and changes nothing
        answer = await peer.commit()
        assert (answer.success, answer.curr_offset) == (True, OFFSET_UNIT)
        assert payloads(await peer.get()) == [b"message %d" % number for number in range(1, 5)]
        assert (await inspect.position(KEY)).in_flight == 4 * OFFSET_UNIT
        assert (await peer.commit()).curr_offset == 5 * OFFSET_UNIT
        assert await offsets.set_one(KEY, 2 * OFFSET_UNIT + 3) == 5 * OFFSET_UNIT
    disk.crash()
    async with running(disk) as broker, connected(broker, capabilities=UNNOTIFIED) as peer:
        assert (await peer.register()).curr_offset == 2 * OFFSET_UNIT, "a whole message, durable before the answer"


async def test_a_reset_survives_a_confirm_up_to_and_a_registration_anew() -> None:
    async with running() as broker, connected(broker, capabilities=UNNOTIFIED) as peer:
        offsets, _ = tools(broker)
        await send(peer, 5)
        await peer.register()
        await peer.get(manual_commit_offset=True)
        await offsets.set_one(KEY, OFFSET_UNIT)
        assert (await peer.commit(up_to=5 * OFFSET_UNIT)).curr_offset == OFFSET_UNIT
        assert (await peer.register()).curr_offset == OFFSET_UNIT
        assert (await peer.commit(up_to=5 * OFFSET_UNIT)).curr_offset == OFFSET_UNIT
        _, messages = await peer.get(manual_commit_offset=True, max_messages=2)
        assert len(messages) == 2
        assert (await peer.commit(up_to=2 * OFFSET_UNIT)).curr_offset == 2 * OFFSET_UNIT, "what it got since counts"
        await offsets.set_one(KEY, 5 * OFFSET_UNIT)
        assert (await peer.commit(up_to=3 * OFFSET_UNIT)).curr_offset == 5 * OFFSET_UNIT


async def test_a_consumer_that_waits_at_the_end_gets_at_once_what_it_is_moved_to() -> None:
    async with running() as broker, connected(broker, capabilities=UNNOTIFIED) as peer:
        offsets, _ = tools(broker)
        await send(peer, 2)
        await peer.register(curr_offset=2 * OFFSET_UNIT)
        waiting = asyncio.create_task(peer.get(max_wait_ms=20_000))
        await until(lambda: broker.health()["held_fetches"] == 1)
        await offsets.set_many(["g"], {("demo", 0): 0})
        assert payloads(await waiting) == [b"message 0", b"message 1"]


async def test_many_are_set_cloned_and_removed() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker, capabilities=UNNOTIFIED) as peer:
        offsets, inspect = tools(broker)
        for partition_id in range(3):
            await send(peer, 2, partition_id)
        far = {("demo", 0): 10**15, ("demo", 1): OFFSET_UNIT + 1, ("demo", 2): 0}
        assert await offsets.set_many(["a", "b"], far) == 6
        found = {facts.key: facts.confirmed for facts in await inspect.positions()}
        assert found == {
            RegistrationKey(group, "demo", number): offset
            for group in ("a", "b")
            for number, offset in enumerate((2 * OFFSET_UNIT, OFFSET_UNIT, 0))
        }
        assert await offsets.clone("a", ["c", "a"], []) == 3
        assert await offsets.to_end(["b"], ["demo"]) == 3
        assert await offsets.remove(["a", "nobody"], ["demo"]) == 3
        assert await offsets.remove(["a"], []) == 0
        assert await inspect.groups() == (frozenset({"b", "c"}), frozenset())
    disk.crash()
    async with running(disk) as broker:
        _, inspect = tools(broker)
        assert {facts.key.group for facts in await inspect.positions()} == {"b", "c"}
        assert {facts.confirmed for facts in await inspect.positions(["b"])} == {2 * OFFSET_UNIT}


async def test_whose_position_is_removed_begins_again() -> None:
    async with running() as broker, connected(broker, capabilities=UNNOTIFIED) as peer:
        offsets, inspect = tools(broker)
        await send(peer, 2)
        await peer.register()
        await peer.get()
        await peer.commit()
        assert await offsets.remove(["g"], ["demo"]) == 1
        assert (await inspect.position(KEY)).confirmed is None
        assert payloads(await peer.get()) == [b"message 0", b"message 1"]


async def test_what_cannot_be_done_is_refused_before_anything_changes() -> None:
    async with running() as broker, connected(broker, capabilities=UNNOTIFIED) as peer:
        offsets, inspect = tools(broker)
        await send(peer, 2)
        for wrong in (-1, 2 * OFFSET_UNIT + 1):
            with pytest.raises(BadRequestError, match="has 0 to 56"):
                await offsets.set_one(KEY, wrong)
        with pytest.raises(NotFoundError, match="topic 'other' does not exist"):
            await offsets.set_many(["g"], {("demo", 0): 0, ("other", 0): 0})
        with pytest.raises(NotFoundError, match="no partition 7"):
            await offsets.set_one(RegistrationKey("g", "demo", 7), 0)
        with pytest.raises(NotFoundError, match="group g has no offset"):
            await offsets.clone("g", ["h"], [])
        with pytest.raises(NotFoundError, match="it has 0 to 2"):
            await inspect.position(RegistrationKey("g", "demo", 7))
        assert await inspect.groups() == (frozenset(), frozenset())
        assert (await inspect.position(KEY)).confirmed is None
        assert await inspect.positions() == []


async def test_a_change_that_the_disk_refuses_changes_nothing() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker, capabilities=UNNOTIFIED) as peer:
        offsets, inspect = tools(broker)
        await send(peer, 3)
        await peer.register()
        await peer.get(max_messages=1)
        await peer.commit()
        disk.fail(Operation.WRITE, 28)
        with pytest.raises(RefusedError, match="nothing was changed"):
            await offsets.set_one(KEY, 3 * OFFSET_UNIT)
        disk.heal()
        assert (await inspect.position(KEY)).confirmed == OFFSET_UNIT
        assert payloads(await peer.get()) == [b"message 1", b"message 2"]


async def test_nothing_is_left_in_a_topic_that_goes_while_many_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_admin, "_AT_ONCE", 2)
    async with running() as broker:
        offsets, inspect = tools(broker)
        setting = asyncio.create_task(offsets.set_many(["a", "b", "c"], {("demo", 0): 0}))
        await asyncio.sleep(0)  # the first two are on their way
        assert broker._state is not None
        broker._state.topics.replace([])
        with pytest.raises(
            RefusedError, match=r"partition 0 of demo is not here any more; 2 of 3 were changed"
        ) as error:
            await setting
        assert error.value.code == Code.NOT_FOUND
        assert (await inspect.groups())[0] == {"a", "b"}
        assert await offsets.remove([], ["demo"]) == 2, "what is there may go"


async def test_the_bound_on_positions_holds() -> None:
    async with running(max_positions=2) as broker:
        offsets, _ = tools(broker)
        with pytest.raises(BadRequestError, match="3 more positions do not fit"):
            await offsets.to_end(["g"], ["demo"])
        assert await offsets.set_many(["g"], {("demo", 0): 0, ("demo", 1): 0}) == 2
        with pytest.raises(BadRequestError) as refused:
            await offsets.set_many(["h"], {("demo", 0): 0})
        assert refused.value.code == Code.BAD_REQUEST


async def test_messages_and_partitions_are_shown() -> None:
    async with running() as broker, connected(broker, capabilities=UNNOTIFIED) as peer:
        _, inspect = tools(broker)
        for number in range(60):
            await peer.send(b"%d" % number, msg_type="even" if number % 2 == 0 else "odd")
        newest = await inspect.newest("demo", None, count=3)
        assert [(message.offset // OFFSET_UNIT, message.body) for message in newest] == [
            (57, b"57"),
            (58, b"58"),
            (59, b"59"),
        ]
        assert len(await inspect.newest("demo", 0, count=1000)) == 50
        even = await inspect.newest("demo", 0, count=2, filters=["even"])
        assert [message.body for message in even] == [b"56", b"58"]
        assert await inspect.newest("demo", 1, count=3) == []
        first = inspect.partitions(["demo", "other"])[0]
        assert (first.min_offset, first.max_offset) == (0, 60 * OFFSET_UNIT)
        assert first.size_bytes > 60
        await peer.register()
        (consumer,) = inspect.consumers()
        assert (consumer.key, consumer.consumer_id, consumer.in_flight) == (KEY, peer.client_id, 0)
        assert abs(consumer.heard_of_ms - broker._clock.wall_ms()) < 30_000
        assert inspect.consumers(["other"]) == []
