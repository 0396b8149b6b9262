"""Requests of one method that came one behind the other on one connection, and are served together.

The invariant: each is answered at most once, and none after the time of its caller is over, as a `Call` by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pytubemq.net.server.call import Call
from pytubemq.wire.rpc.request_run import RequestRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytubemq.net.server.call import Connection
    from pytubemq.wire.rpc.envelope import Request


class CallRun:
    """Requests whose envelopes differ in nothing but the serial number."""

    __slots__ = ("answered", "connection", "deadline_s", "first", "parts", "received_s", "serials", "size_bytes")

    def __init__(
        self,
        parts: Sequence[Request | RequestRun],
        connection: Connection,
        received_s: float,
        deadline_s: float,
    ) -> None:
        self.parts = parts
        """The requests, some of them in runs; until `keep_serials`."""
        first = parts[0]
        self.first = (first[0] if isinstance(first, RequestRun) else first)._replace(body=b"")
        """What the envelopes say."""
        self.serials: list[int] = []
        self.size_bytes = 0
        for part in parts:
            if isinstance(part, RequestRun):
                self.serials.extend(range(part.serial, part.serial + len(part)))
                self.size_bytes += part.size_bytes
            else:
                self.serials.append(part.serial)
                self.size_bytes += len(part.body)
        self.connection = connection
        self.received_s = received_s
        self.deadline_s = deadline_s
        self.answered = False

    @property
    def peer(self) -> str:
        """`host:port` of the caller."""
        return self.connection.peer

    @property
    def capabilities(self) -> int | None:
        """The capability field of the answers."""
        return None if self.first.capabilities is None else self.connection.announce(self.first)

    def keep_serials(self) -> None:
        """The requests were read: let go of their bytes."""
        self.parts = ()

    def requests(self) -> Iterator[Request]:
        """Each request by itself, until `keep_serials`."""
        for part in self.parts:
            if isinstance(part, RequestRun):
                yield from part
            else:
                yield part

    def calls(self) -> list[Call]:
        """As calls by themselves, each with its request; the run is no more."""
        return [Call(request, self.connection, self.received_s, self.deadline_s) for request in self.requests()]

    def first_call(self) -> Call:
        """The first one as a call by itself, to look at: it is answered with the others."""
        request = next(self.requests(), self.first)
        return Call(request, self.connection, self.received_s, self.deadline_s)

    def reply(self, frames: Sequence[bytes], *, refused: bool = False) -> None:
        """Answer all of them with whole frames; `refused` says that none of them was served."""
        if self.answered:
            return
        self.answered = True
        connection = self.connection
        connection.count_answered(self.size_bytes, len(self.serials))
        if connection.closed:
            return
        if connection.server.clock.now_s() >= self.deadline_s:
            connection.server.stats.late += len(self.serials)
            return
        if connection.is_unused and not refused:
            connection.mark_used()
        connection.send((b"".join(frames),))

    def drop(self) -> None:
        """Let them go unanswered, because their caller has given up."""
        if not self.answered:
            self.answered = True
            self.connection.server.stats.late += len(self.serials)
            self.connection.count_answered(self.size_bytes, len(self.serials))


RunHandler: TypeAlias = "Callable[[CallRun], bool]"
"""Takes several requests at once; False, and nothing done, where they have to be served one by one."""
