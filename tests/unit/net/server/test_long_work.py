"""Turns for requests that take long on the event loop."""

from __future__ import annotations

import asyncio

import pytest

from pytubemq.model.limits import LONG_WORK_SLICE, MAX_LONG_REQUESTS
from pytubemq.net.server.long_work import LongWork, sliced
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


class Connection:
    """A peer that reads its responses, unless told otherwise."""

    def __init__(self, name: str, host: str | None = None) -> None:
        self.name = name
        self.peer = f"{host or name}:1"
        self.backlogged = False
        self.closed = False


A, B, C = (Connection(name) for name in "abc")


async def work(turns: LongWork, peer: Connection, slices: int, done: list[str]) -> None:
    async with turns.request(peer) as turn:
        for number in range(slices):
            if number:
                await turn()
            done.append(peer.name)


async def test_peers_take_turns_whatever_each_has_asked_for() -> None:
    turns, done = LongWork(), list[str]()
    await asyncio.gather(*(work(turns, A, 2, done) for _ in range(20)), work(turns, B, 3, done))
    assert len(done) == 43
    assert "b" not in done[6:]


async def test_one_slice_runs_in_a_round_of_the_loop() -> None:
    turns, done = LongWork(), list[str]()
    tasks = [asyncio.create_task(work(turns, Connection(str(number)), 1, done)) for number in range(10)]
    while len(done) < 10:
        before = len(done)
        await asyncio.sleep(0)
        assert len(done) <= before + 1
    await asyncio.gather(*tasks)


async def test_others_have_as_much_time_between_two_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, loop = LongWork(), asyncio.get_running_loop()
    rounds = 0
    now_s = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now_s)

    async def long() -> None:
        nonlocal now_s
        async with turns.request(A) as turn:
            now_s += 0.05
            await turn()

    task = asyncio.create_task(long())
    while not task.done():
        await asyncio.sleep(0)
        now_s += 0.001
        rounds += 1
    assert 50 <= rounds <= 60


async def test_a_turn_of_a_task_that_was_cancelled_goes_to_the_next() -> None:
    turns, done = LongWork(), list[str]()
    first, second = (asyncio.create_task(work(turns, peer, 1, done)) for peer in (A, B))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert done == ["b"]
    await work(turns, C, 1, done)
    assert done == ["b", "c"]


async def test_requests_that_wait_are_let_go_with_their_connection() -> None:
    turns, done = LongWork(), list[str]()
    others = [Connection(str(number)) for number in range(MAX_LONG_REQUESTS)]
    busy = [asyncio.create_task(work(turns, other, 100, done)) for other in others]
    lost, late = Connection("lost"), Connection("late")
    waiting = [asyncio.create_task(work(turns, lost, 1, done)) for _ in range(3)]
    await until(lambda: done)
    lost.closed = late.closed = True
    turns.let_go(lost)
    waiting.append(asyncio.create_task(work(turns, late, 1, done)))
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * 4
    assert len(done) < 100 * len(busy), "they did not wait for the others"
    await asyncio.gather(*busy)
    assert done.count("lost") == done.count("late") == 0
    await work(turns, A, 1, done)
    assert done[-1] == "a"


async def test_few_requests_are_begun_and_none_for_who_does_not_read() -> None:
    turns, done = LongWork(), list[str]()
    peers = [Connection(str(number)) for number in range(2 * MAX_LONG_REQUESTS)]
    peers[0].backlogged = True
    go_on = asyncio.Event()
    begun: list[Connection] = []

    async def long(peer: Connection) -> None:
        async with turns.request(peer):
            begun.append(peer)
            await go_on.wait()

    tasks = [asyncio.create_task(long(peer)) for peer in peers]
    await until(lambda: len(begun) == MAX_LONG_REQUESTS)
    go_on.set()
    await asyncio.gather(*tasks[1:])
    assert begun == peers[1:]
    peers[0].backlogged = False
    await tasks[0]
    await work(turns, A, 1, done)
    assert done == ["a"]


async def test_a_host_with_many_connections_leaves_places_to_others() -> None:
    turns, go_on = LongWork(), asyncio.Event()
    begun: list[str] = []

    async def long(peer: Connection) -> None:
        async with turns.request(peer):
            begun.append(peer.name)
            await go_on.wait()

    many = [Connection("many", "1.1.1.1") for _ in range(4 * MAX_LONG_REQUESTS)]
    tasks = [asyncio.create_task(long(peer)) for peer in many]
    await until(lambda: len(begun) == MAX_LONG_REQUESTS // 2)
    for host in ("other", "third", "fourth"):
        tasks.append(asyncio.create_task(long(Connection(host))))
        await until(lambda host: host in begun, host)
    go_on.set()
    await asyncio.gather(*tasks)
    assert len(begun) == len(tasks)


async def test_of_those_that_wait_the_host_with_fewest_under_way_comes_first() -> None:
    turns, begun, ends = LongWork(most=2), list[str](), dict[str, asyncio.Event]()

    async def long(peer: Connection) -> None:
        async with turns.request(peer):
            begun.append(peer.name)
            await ends.setdefault(peer.name, asyncio.Event()).wait()

    peers = [Connection("a1", "a"), Connection("b1", "b"), Connection("a2", "a"), Connection("c1", "c")]
    tasks = [asyncio.create_task(long(peer)) for peer in peers]
    await until(lambda: len(begun) == 2)
    ends["b1"].set()
    await until(lambda: len(begun) == 3)
    assert begun == ["a1", "b1", "c1"]
    for name in ("a1", "a2", "c1"):
        ends.setdefault(name, asyncio.Event()).set()
    await asyncio.gather(*tasks)


def test_slices_are_all_items_in_order() -> None:
    items = list(range(2 * LONG_WORK_SLICE + 1))
    assert [item for part in sliced(items) for item in part] == items
    assert max(map(len, sliced(items))) == LONG_WORK_SLICE
