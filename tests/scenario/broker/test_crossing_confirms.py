"""Confirms that come while a fetch of the same consumer is being read from the disk."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.model.limits import DISK_READERS
from pytubemq.wire.protocol.extensions import OURS, Capability
from tests.scenario.broker.packs import pack, send_packs
from tests.scenario.broker.support import connected, running
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pytubemq.broker.state import BrokerState
    from tests.scenario.broker.support import Peer

pytestmark = pytest.mark.anyio
OLD = OURS & ~Capability.PACKS
MESSAGES = 20


@contextlib.asynccontextmanager
async def scene() -> AsyncIterator[tuple[BrokerState, Peer]]:
    """A consumer for whom packs are taken apart, which is done on a reader's thread, as reading from the disk is."""
    async with running() as broker, connected(broker) as peer, connected(broker, capabilities=OLD) as old:
        await send_packs(peer, pack(*(b"%d" % n for n in range(MESSAGES))))
        await old.register()
        assert broker._state is not None
        yield broker._state, old


@contextlib.contextmanager
def busy_readers(state: BrokerState) -> Iterator[None]:
    """What is asked of them waits until the end."""
    go_on = threading.Event()
    for _ in range(DISK_READERS):
        state.readers.submit(go_on.wait)
    try:
        yield
    finally:
        go_on.set()


async def under_way(state: BrokerState, peer: Peer, **fields: Any) -> asyncio.Task[list[int]]:
    """A fetch that waits for a reader; it ends with the numbers of its messages."""

    async def get() -> list[int]:
        _, messages = await peer.get(**fields)
        return [message.offset // 28 for message in messages if message.offset is not None]

    before = state.pending_reads
    task = asyncio.create_task(get())
    await until(lambda: state.pending_reads > before)
    return task


async def test_a_confirm_that_crosses_a_fetch_is_not_undone_by_the_next_one() -> None:
    async with scene() as (state, peer):
        await peer.get(max_messages=10)
        with busy_readers(state):
            fetch = await under_way(state, peer, max_messages=3)
            assert (await peer.commit(up_to=280)).curr_offset == 280
        assert await fetch == [10, 11, 12], "it goes on behind what is confirmed"
        assert (await peer.commit()).curr_offset == 13 * 28
        assert [message.payload for message in (await peer.get(max_messages=1))[1]] == [b"13"]


async def test_a_rejection_that_crosses_a_fetch_brings_everything_again() -> None:
    async with scene() as (state, peer):
        await peer.get(max_messages=5, manual_commit_offset=True)
        with busy_readers(state):
            fetch = await under_way(state, peer, max_messages=5, manual_commit_offset=True)
            assert (await peer.commit(last_pack_consumed=False)).curr_offset == 0
        assert await fetch == [0, 1, 2, 3, 4]
        assert (await peer.commit()).curr_offset == 5 * 28


async def test_fetches_under_way_together_hand_out_each_message_once() -> None:
    async with scene() as (state, peer):
        with busy_readers(state):
            fetches = [await under_way(state, peer, max_messages=5, manual_commit_offset=True) for _ in range(3)]
        assert sorted(await asyncio.gather(*fetches)) == [[5 * n + at for at in range(5)] for n in range(3)]
