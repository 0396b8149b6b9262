"""Requests of one method that came one behind the other on one connection, and are served together.

The invariant: each is answered at most once, and none after the time of its caller is over, as a `Call` by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.net.call import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.net.server_connection import ServerConnection
    from pytubemq.wire.rpc import Request


class CallRun:
    """Requests whose envelopes differ in nothing but the serial number."""

    __slots__ = ("answered", "connection", "deadline_s", "first", "received_s", "requests", "serials", "size_bytes")

    def __init__(
        self, requests: Sequence[Request], connection: ServerConnection, received_s: float, deadline_s: float
    ) -> None:
        self.requests = requests
        """Until `keep_serials`."""
        self.first = requests[0]._replace(body=b"")
        """What the envelopes say."""
        self.serials = [request[0] for request in requests]
        self.connection = connection
        self.received_s = received_s
        self.deadline_s = deadline_s
        self.answered = False
        self.size_bytes = sum(len(request.body) for request in requests)

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
        self.requests = ()

    def calls(self) -> list[Call]:
        """As calls by themselves, each with its request; the run is no more."""
        return [Call(request, self.connection, self.received_s, self.deadline_s) for request in self.requests]

    def first_call(self) -> Call:
        """The first one as a call by itself, to look at: it is answered with the others."""
        request = self.requests[0] if self.requests else self.first
        return Call(request, self.connection, self.received_s, self.deadline_s)

    def reply(self, frames: Sequence[bytes]) -> None:
        """Answer all of them with whole frames."""
        if self.answered:
            return
        self.answered = True
        connection = self.connection
        connection.finished(self.size_bytes, len(self.serials))
        if connection.closed:
            return
        if connection.server.clock.now_s() >= self.deadline_s:
            connection.server.stats.late += len(self.serials)
            return
        connection.send((b"".join(frames),))

    def drop(self) -> None:
        """Let them go unanswered, because their caller has given up."""
        if not self.answered:
            self.answered = True
            self.connection.server.stats.late += len(self.serials)
            self.connection.finished(self.size_bytes, len(self.serials))
