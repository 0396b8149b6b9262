"""A fetch that a consumer sends behind a confirm, without waiting for the confirm's answer."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import Code
from pytubemq.testing.disk import FaultyDisk
from tests.scenario.broker.support import connected, item, running
from tests.support.waiting import until

if TYPE_CHECKING:
    from pytubemq.broker.service import BrokerService

pytestmark = pytest.mark.anyio
FIRST = [b"0", b"1", b"2"]


class Held:
    """Holds up the Broker's next write of its journal, until it is let go, or ends without space."""

    def __init__(self, broker: BrokerService, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch) -> None:
        self._entered, self._go = threading.Event(), threading.Event()
        self._disk, self._full = disk, False
        store = broker._store
        assert store is not None
        self._write = store.write
        monkeypatch.setattr(store, "write", self._held)

    async def entered(self) -> None:
        """The write is under way."""
        await until(self._entered.is_set)

    def let_go(self, *, full: bool = False) -> None:
        """`full`: it finds no space; later ones do."""
        self._full = full
        self._go.set()

    def _held(self, prepared: Any) -> None:
        self._entered.set()
        assert self._go.wait(30)
        if self._full:
            self._full, self._disk.capacity_bytes = False, 0
        try:
            self._write(prepared)
        finally:
            self._disk.capacity_bytes = None


def payloads(answer: Any) -> list[bytes]:
    return [message.payload for message in answer[1]]


async def confirmed(peer: Any) -> int | None:
    """What anybody who asks is told."""
    groups = (await peer.offsets(all_groups=True)).groups
    return groups[0].confirmed_offset if groups else None


async def test_a_fetch_behind_a_confirm_is_served_before_that_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(5)])
        await peer.register()
        assert payloads(await peer.get(max_messages=3)) == FIRST
        held = Held(broker, disk, monkeypatch)
        commit = asyncio.create_task(peer.commit(up_to=84))
        await held.entered()
        assert payloads(await peer.get()) == [b"3", b"4"]
        assert not commit.done()
        assert await confirmed(peer) == 0, "nobody is told before it is so"
        held.let_go()
        assert (await commit).curr_offset == 84
        assert await confirmed(peer) == 84


async def test_a_confirm_and_the_fetch_behind_it_may_come_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(5)])
        await peer.register()
        await peer.get(max_messages=3)
        commit, fetch = await asyncio.gather(peer.commit(up_to=84), peer.get(max_messages=1))
        assert (commit.curr_offset, payloads(fetch)) == (84, [b"3"])


async def test_a_refused_confirm_is_told_before_its_batch_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send_each([item(message) for message in FIRST])
        await peer.register()
        await peer.get()
        held = Held(broker, disk, monkeypatch)
        order: list[str] = []
        commit = asyncio.create_task(peer.commit(up_to=84))
        await held.entered()
        fetch = asyncio.create_task(peer.get(max_wait_ms=15_000))
        commit.add_done_callback(lambda _: order.append("refused"))
        fetch.add_done_callback(lambda _: order.append("again"))
        state = broker._state
        assert state is not None
        await until(lambda: len(state.waiters) == 1)
        held.let_go(full=True)
        assert payloads(await fetch) == FIRST
        assert (await commit).err_code == Code.SERVER_RECEIVE_OVERFLOW
        assert order == ["refused", "again"]
        assert await confirmed(peer) == 0


@pytest.mark.parametrize("full", [False, True], ids=["taken", "refused"])
async def test_what_the_filter_passes_over_behind_a_confirm_shares_its_outcome(
    monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send_each([item(b"0", msg_type="a"), item(b"1", msg_type="b"), item(b"2", msg_type="b")])
        await peer.register(filter_cond_str=("a",))
        assert payloads(await peer.get(max_messages=1)) == [b"0"]
        held = Held(broker, disk, monkeypatch)
        commit = asyncio.create_task(peer.commit(up_to=28))
        await held.entered()
        head, _ = await peer.get()
        assert head.next_offset == 84, "it was skipped"
        held.let_go(full=full)
        assert (await commit).success is not full
        assert (await peer.send(b"3", msg_type="a")).success  # so whatever was to be written is
        if full:
            assert await confirmed(peer) == 0, "not even what lies behind a refused confirm counts"
            assert payloads(await peer.get(max_messages=1)) == [b"0"]
        else:
            store = broker._store
            assert store is not None
            await until(lambda: store.confirmed("g", "demo", 0) == 84)
            assert payloads(await peer.get()) == [b"3"]


async def test_what_was_passed_over_is_not_written_for_a_holder_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer, connected(broker) as other:
        other.client_id = "g_127.0.0.1-2-2-2-Pull-1.0"
        await peer.send_each([item(b"0", msg_type="a"), *[item(b"%d" % n, msg_type="b") for n in (1, 2, 3)]])
        await peer.register(filter_cond_str=("a",))
        await peer.get(max_messages=1)
        held = Held(broker, disk, monkeypatch)
        commit = asyncio.create_task(peer.commit(up_to=28))
        await held.entered()
        await peer.get()
        state = broker._state
        assert state is not None
        state.registry.drop(next(iter(state.registry.registrations())))
        held.let_go()
        assert (await commit).curr_offset == 28
        assert (await peer.send(b"4")).success
        assert await confirmed(peer) == 28
        assert (await other.register()).curr_offset == 28
