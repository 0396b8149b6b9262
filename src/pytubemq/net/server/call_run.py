"""Consecutive requests of one method on one connection that are served together.

The invariant: each gets at most one response, and none after its deadline, as an individual `Call`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pytubemq.net.server.call import Call
from pytubemq.net.server.hosts import OPEN_CALL_BYTES, RUN_CALL_BYTES
from pytubemq.wire.rpc.request_run import RequestRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytubemq.net.server.call import Connection
    from pytubemq.wire.rpc.envelope import Request


class CallRun:
    """Requests whose envelopes differ in nothing but the serial number."""

    __slots__ = (
        "answered",
        "connection",
        "deadline_s",
        "first",
        "held_bytes",
        "parts",
        "received_s",
        "serials",
        "size_bytes",
    )

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
        """The common content of the envelopes."""
        self.serials: list[int] = []
        self.size_bytes = 0
        for part in parts:
            if isinstance(part, RequestRun):
                self.serials.extend(range(part.serial, part.serial + len(part)))
                self.size_bytes += part.size_bytes
            else:
                self.serials.append(part.serial)
                self.size_bytes += len(part.body)
        self.held_bytes = self.size_bytes + OPEN_CALL_BYTES + RUN_CALL_BYTES * len(self.serials)
        """Bytes that they count in the server's buffers while they wait for their responses."""
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
        """The capability field of the responses."""
        return None if self.first.capabilities is None else self.connection.announce(self.first)

    def keep_serials(self) -> None:
        """Keep only the serial numbers, since the requests were read."""
        self.parts = ()

    def requests(self) -> Iterator[Request]:
        """Yield each request individually, until `keep_serials`."""
        for part in self.parts:
            if isinstance(part, RequestRun):
                yield from part
            else:
                yield part

    def calls(self) -> list[Call]:
        """Return individual calls, each with its request; the run cannot be used any more."""
        calls = [Call(request, self.connection, self.received_s, self.deadline_s) for request in self.requests()]
        # They are counted with the run, which has less for each.
        for call in calls:
            call.held_bytes = call.size_bytes + RUN_CALL_BYTES
        calls[0].held_bytes += OPEN_CALL_BYTES
        return calls

    def first_call(self) -> Call:
        """Return the first one as an individual call, for checks: it is answered with the others."""
        request = next(self.requests(), self.first)
        return Call(request, self.connection, self.received_s, self.deadline_s)

    def reply(self, frames: Sequence[bytes], *, refused: bool = False) -> None:
        """Respond to all of them with whole frames; with `refused` none of them was served."""
        if self.answered:
            return
        self.answered = True
        connection = self.connection
        connection.count_answered(self.held_bytes, len(self.serials))
        if connection.closed:
            return
        if connection.server.clock.now_s() >= self.deadline_s:
            connection.server.stats.late += len(self.serials)
            return
        if connection.is_unused and not refused:
            connection.mark_used()
        connection.send((b"".join(frames),))

    def drop(self) -> None:
        """Drop them without a response, because their caller has given up."""
        if not self.answered:
            self.answered = True
            self.connection.server.stats.late += len(self.serials)
            self.connection.count_answered(self.held_bytes, len(self.serials))


RunHandler: TypeAlias = "Callable[[CallRun], bool]"
"""Serves several requests at once; returns False without an effect if they must be served one by one."""
