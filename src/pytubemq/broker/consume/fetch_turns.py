"""Turns of one connection's fetches: no more is read for a peer than it receives.

The invariant: at most `MAX_READS_PER_CONNECTION` reads of a connection are under way, none begins while the peer has
not read its responses, or while the server's budget for all peers is used up, and waiting ones begin in the order they
came.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import MAX_FRAME_BYTES, MAX_READS_PER_CONNECTION

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.net.server.call import Connection
    from pytubemq.net.server.response_budget import ReadSize

_KEY: Final = "broker.fetch_turns"


class FetchTurns:
    """The turns of one connection. Each `start` given to `run` must lead to one call of `finish`."""

    def __init__(self, connection: Connection) -> None:
        """Create the turns of a connection; callers use `of`."""
        self._connection = connection
        self._budget = connection.server.responses
        self._waiting: deque[tuple[Callable[[int], None], ReadSize]] = deque()
        self._reserved: deque[int] = deque()
        """Sizes reserved for the reads under way. Reads end in any order, so reservations are released in the order in
        which the reads began."""
        self._under_way = 0
        self._advancing = False
        self._scheduled = False
        # Called when the peer has read its responses: then the next reads begin.
        connection.on_writable = self._advance

    @classmethod
    def of(cls, connection: Connection) -> FetchTurns:
        """Return the connection's own turns."""
        turns = connection.context.get(_KEY)
        if not isinstance(turns, FetchTurns):
            turns = connection.context[_KEY] = cls(connection)
        return turns

    def run(self, start: Callable[[int], None], size: ReadSize) -> None:
        """Call `start` with the limit in bytes of its read, now or in its turn; never if the connection ends first."""
        # In the queue even if it can begin at once, so that it overtakes none that came before it.
        self._waiting.append((start, size))
        self._advance()

    def finish(self) -> None:
        """Record that a read ended, with or without a response, and begin the next."""
        self._under_way -= 1
        # Before the next one begins, which may need the room that this one had.
        self._budget.release(self._reserved.popleft())
        self._advance()

    def _advance(self) -> None:
        if self._advancing:
            return  # a read that ended at once: the loop below goes on
        self._advancing = True
        try:
            connection, waiting, budget = self._connection, self._waiting, self._budget
            while waiting and self._under_way < MAX_READS_PER_CONNECTION:
                if connection.closed:
                    # Nobody is left to read for.
                    waiting.clear()
                elif connection.backlogged:
                    self._look_again()
                    return
                # With room for everybody no read is limited, and only what it is expected to give is reserved.
                elif not budget.is_tight:
                    start, size = waiting.popleft()
                    self._begin(start, MAX_FRAME_BYTES, size.most_bytes)
                elif self._under_way:
                    return  # one at a time then; the end of that one leads here again
                elif (most_bytes := budget.grant(connection, waiting[0][1])) is None:
                    self._wait_for_room(waiting[0][1])
                    return
                else:
                    start, size = waiting.popleft()
                    self._begin(start, most_bytes, min(size.most_bytes, max(most_bytes, size.message_bytes)))
        finally:
            self._advancing = False

    def _begin(self, start: Callable[[int], None], most_bytes: int, reserved_bytes: int) -> None:
        # Counted before `start`, which may end the read before it returns.
        self._under_way += 1
        self._reserved.append(reserved_bytes)
        self._budget.reserve(reserved_bytes)
        start(most_bytes)

    def _look_again(self) -> None:
        """Advance after the loop's next turn, when queued responses have been written, unless the peer is paused."""
        if not self._connection.paused and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _wait_for_room(self, size: ReadSize) -> None:
        """Wait until the server's budget has room again."""
        if not self._scheduled:
            self._scheduled = True
            self._budget.wait(self._connection, size, self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self._advance()
