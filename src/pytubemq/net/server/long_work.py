"""Turns for requests that take long on the event loop: their handlers work in slices, one at a time.

The invariants: between two slices, whoever they belong to, other work of the loop gets as much time as the first one
took, unless there is none to do; so nobody waits for more than a slice, and long requests together get no more than
half of the time that others want. Connections take turns, and requests of one connection are worked on one after the
other, so many of one peer delay only that peer. Few are begun at a time, none for a peer that does not read its
responses, and waiting ones are dropped with their connection, so their memory is bounded. A host begins
another one only while it has fewer under way than slots are free, and hosts with fewer come first: however many
connections it has, some slots stay free for other hosts.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from pytubemq.model.limits import LONG_WORK_SLICE, MAX_LONG_REQUESTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

T = TypeVar("T")
Turn: TypeAlias = "Callable[[], Awaitable[None]]"
"""Waits until the next slice of a request may run. It runs to the handler's next wait."""
_Queues: TypeAlias = "OrderedDict[Peer, deque[asyncio.Future[None]]]"

_BACKLOGGED_S: Final = 0.05
"""The time between two checks that a peer reads its responses."""
_IDLE_S: Final = 0.0003
"""The duration of a round of the loop that only polled the operating system."""


def sliced(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in slices, each of them small enough for one turn."""
    for at in range(0, len(items), LONG_WORK_SLICE):
        yield items[at : at + LONG_WORK_SLICE]


class Peer(Protocol):
    """The part of a connection that is used here."""

    @property
    def peer(self) -> str: ...
    @property
    def backlogged(self) -> bool: ...
    @property
    def closed(self) -> bool: ...


class LongWork:
    """The turns of one server. Event loop only."""

    def __init__(self, *, most: int = MAX_LONG_REQUESTS) -> None:
        """Create the turns; `most` requests are worked on at a time."""
        self._most = most
        self._entering: OrderedDict[str, _Queues] = OrderedDict()
        """Requests of hosts that are not begun yet."""
        self._inside: set[Peer] = set()
        """The peers whose requests are worked on."""
        self._begun: Counter[str] = Counter()
        """The number of them by host."""
        self._looks_again: asyncio.TimerHandle | None = None
        self._waiting: _Queues = OrderedDict()
        """Requests that wait for their next turn."""
        self._under_way = False
        """True if a turn was given, or one is to be given after a pause."""
        self._began_s = 0.0
        self._owed_s = 0.0
        """The time that others get before the next turn."""

    @asynccontextmanager
    async def request(self, peer: Peer) -> AsyncIterator[Turn]:
        """Begin a request of this peer in its turn; the yielded function waits until its next slice may run.

        Raises:
            CancelledError: the connection was lost before that.
        """
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if peer.closed:  # before the task of its request ran for the first time
            begun.cancel()
        else:
            self._entering.setdefault(_host(peer), OrderedDict()).setdefault(peer, deque()).append(begun)
            self._begin_some()
        try:
            await begun
            await self._turn(peer)
            yield partial(self._turn, peer)
        finally:
            if begun.done() and not begun.cancelled():
                self._end(peer)
                self._begin_some()

    def has_any_of(self, peer: Peer) -> bool:
        """True if requests of this peer wait or are worked on."""
        return peer in self._inside or peer in self._entering.get(_host(peer), ())

    def let_go(self, peer: Peer) -> None:
        """End the tasks of requests that were not begun when their connection was lost, since their memory is no longer
        counted."""
        if queues := self._entering.get(host := _host(peer)):
            for begun in queues.pop(peer, ()):
                begun.cancel()
            if not queues:
                del self._entering[host]

    def _begin_some(self) -> None:
        """Begin as many requests as may be worked on."""
        while (peer := self._next_to_begin()) is not None:
            self._begin_one(peer)
        if self._entering and len(self._inside) < self._most and self._looks_again is None:
            self._looks_again = asyncio.get_running_loop().call_later(_BACKLOGGED_S, self._look_again)

    def _next_to_begin(self) -> Peer | None:
        """Return the peer whose request may be begun next; None if there is none."""
        free = self._most - len(self._inside)
        if not free:
            return None
        for host in sorted(self._entering, key=self._begun.__getitem__):
            if self._begun[host] >= free:
                return None
            for peer in self._entering[host]:
                if peer not in self._inside and (peer.closed or not peer.backlogged):
                    return peer
        return None

    def _begin_one(self, peer: Peer) -> None:
        """Begin the first request of a peer; it moves behind its host's others, and its host behind the others."""
        host = _host(peer)
        queues = self._entering.pop(host)
        queue = queues.pop(peer)
        begun = queue.popleft()
        if queue:
            queues[peer] = queue
        if queues:
            self._entering[host] = queues
        if not begun.done():  # its task was not cancelled
            self._inside.add(peer)
            self._begun[host] += 1
            begun.set_result(None)

    def _end(self, peer: Peer) -> None:
        """Record that a peer's request has ended."""
        if peer in self._inside:
            self._inside.remove(peer)
            host = _host(peer)
            self._begun[host] -= 1
            if not self._begun[host]:
                del self._begun[host]

    def _look_again(self) -> None:
        self._looks_again = None
        self._begin_some()

    async def _turn(self, peer: Peer) -> None:
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(peer, deque()).append(mine)
        if not self._under_way:
            self._under_way = True
            loop.call_soon(self._give)
        await mine

    def _give(self) -> None:
        """Let the next peer's slice run, and measure its time."""
        next_one = self._next()
        if next_one is None:
            self._under_way = False
            return
        loop = asyncio.get_running_loop()
        loop.call_soon(self._begin)
        next_one.set_result(None)  # so the slice runs in the loop's next turn, behind `_begin`
        loop.call_soon(self._ended)

    def _begin(self) -> None:
        self._began_s = asyncio.get_running_loop().time()

    def _ended(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        self._owed_s = now_s - self._began_s
        # What has come in meanwhile is served in the loop's next round, behind a callback that is scheduled now.
        loop.call_soon(loop.call_soon, self._look, now_s)

    def _look(self, since_s: float) -> None:
        """Give the next turn if others had their time since the last one, or did not need it."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        round_s = now_s - since_s
        self._owed_s -= round_s
        if self._owed_s <= 0 or round_s < _IDLE_S:
            self._give()
        else:
            loop.call_soon(self._look, now_s)

    def _next(self) -> asyncio.Future[None] | None:
        while self._waiting:
            peer, queue = self._waiting.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._waiting[peer] = queue  # behind the other peers
            if not turn.done():  # its task was not cancelled
                return turn
        return None


def _host(peer: Peer) -> str:
    return peer.peer.rpartition(":")[0]
