"""One request being served.

The invariant: a call is answered at most once, and never after its caller's time is over.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from pytubemq.errors import Code, EnvelopeError, FrameError, TubeError
from pytubemq.net.server.hosts import OPEN_CALL_BYTES
from pytubemq.net.server.response_budget import Reader, ResponseBudget
from pytubemq.wire.protobuf.varint import encode_varint
from pytubemq.wire.rpc.envelope import Request, encode_exception, encode_response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pytubemq.net.clock import Clock
    from pytubemq.net.server.stats import ServerStats
    from pytubemq.wire.protocol.extensions import Capability

logger = logging.getLogger(__name__)


_SUCCESS: Final = b"\x08\x01"
_NOTHING_THERE: Final = b"\x08\x00\x10" + encode_varint(Code.NOT_FOUND)
"""The beginnings of such responses: `success` is field 1 of each, the code is field 2."""


def _is_served(body: bytes) -> bool:
    """True if a response does not refuse its request; a read at the end of its partition is served too."""
    return body.startswith((_SUCCESS, _NOTHING_THERE))


class CallServer(Protocol):
    """The part of a server that a call and its handler use."""

    @property
    def name(self) -> str:
        """The server's name in log lines and error texts."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock that deadlines are measured with."""
        ...

    @property
    def stats(self) -> ServerStats:
        """The server's counters."""
        ...

    @property
    def responses(self) -> ResponseBudget:
        """The budget of all connections for responses."""
        ...


class Connection(Reader, Protocol):
    """The part of a connection that a call and its handler use."""

    peer: str
    """`host:port` of the caller."""
    capabilities: Capability
    """The capabilities of both sides."""
    block_bytes: int | None
    context: dict[str, Any]
    """A place for the service to store the caller's identity; gone with the connection."""
    on_writable: Callable[[], None] | None
    """Called when `paused` has ended."""
    closed: bool
    is_tls: bool
    """True if it came to the TLS port."""
    is_unused: bool
    """True until a request of it was served."""

    @property
    def server(self) -> CallServer:
        """The server that accepted it."""
        ...

    @property
    def paused(self) -> bool:
        """True if the peer reads more slowly than it is answered."""
        ...

    @property
    def backlogged(self) -> bool:
        """True if a handler that makes large responses should wait before the next one."""
        ...

    def send(self, buffers: Sequence[bytes]) -> None:
        """Queue a response's buffers."""

    def announce(self, request: Request) -> int | None:
        """Return the capability field of the response to a request."""
        ...

    def count_answered(self, held_bytes: int, calls: int = 1) -> None:
        """Count calls as answered that held this many bytes."""

    def mark_used(self) -> None:
        """Mark the connection as used."""

    def close(self) -> None:
        """Close the connection once what is queued has gone out."""

    def abort(self) -> None:
        """Close the connection now."""


class Call:
    """A request with its origin, its arrival and its deadline."""

    __slots__ = ("answered", "connection", "deadline_s", "held_bytes", "received_s", "request", "size_bytes")

    def __init__(self, request: Request, connection: Connection, received_s: float, deadline_s: float) -> None:
        self.request = request
        self.connection = connection
        self.received_s = received_s
        self.deadline_s = deadline_s
        self.answered = False
        self.size_bytes = len(request.body)
        """The size of its frame, also after the body was released."""
        self.held_bytes = self.size_bytes + OPEN_CALL_BYTES
        """Bytes that it counts in the server's buffers while it waits for its response."""

    @property
    def peer(self) -> str:
        """`host:port` of the caller."""
        return self.connection.peer

    @property
    def expired(self) -> bool:
        """True if the caller has given up by now."""
        return self.connection.server.clock.now_s() >= self.deadline_s

    def reply(self, body: bytes | Sequence[bytes]) -> None:
        """Respond with an encoded business message, whole or in parts."""
        if self.answered:
            return
        connection, request = self.connection, self.request
        try:
            buffers = encode_response(
                request.serial,
                method=request.method,
                body=(body,) if isinstance(body, bytes) else body,
                capabilities=None if request.capabilities is None else connection.announce(request),
                block_bytes=connection.block_bytes,
            )
        except FrameError as error:  # more than fits into a frame: the caller gets an error instead of nothing
            self.crash(error)
            return
        if self._take():
            if connection.is_unused and _is_served(body if isinstance(body, bytes) else body[0]):
                connection.mark_used()
            connection.send(buffers)

    def fail(self, *, exception_name: str, text: str, fatal: bool = False) -> None:
        """Respond with an exception in the envelope; `text` must not be empty, or Java does not see the class."""
        if not self._take():
            return
        self.connection.server.stats.failed += 1
        self.connection.send(
            encode_exception(
                self.request.serial,
                fatal=fatal,
                exception_name=exception_name,
                text=text or "no further information",
                capabilities=self.connection.announce(self.request),
                protocol_version=self.request.protocol_version,
            )
        )

    def refuse(self, error: EnvelopeError) -> None:
        """Respond that the request cannot be read or served."""
        self.fail(exception_name=error.exception_name, text=error.text, fatal=error.fatal)

    def drop(self) -> None:
        """Drop it without a response, because its caller has given up before its turn came; counted as late."""
        if not self.answered:
            self.answered = True
            self.connection.server.stats.late += 1
            self.connection.count_answered(self.held_bytes)

    def crash(self, error: BaseException) -> None:
        """Respond for a handler that raised: the caller learns that it failed, the log has the reason."""
        if isinstance(error, EnvelopeError):  # the peer's fault, wherever in the handler it shows
            self.refuse(error)
            return
        server = self.connection.server
        if isinstance(error, TubeError):
            logger.warning("%s: method %d from %s failed: %s", server.name, self.request.method, self.peer, error)
        else:
            logger.error("%s: method %d from %s failed", server.name, self.request.method, self.peer, exc_info=error)
        self.fail(
            exception_name="java.lang.Exception",
            text=f"the {server.name} failed at this request: {type(error).__name__}",
        )

    def _take(self) -> bool:
        """True if this response may be sent; counts it as the one."""
        if self.answered:
            return False
        self.answered = True
        connection = self.connection
        connection.count_answered(self.held_bytes)
        if connection.closed:
            return False
        if connection.server.clock.now_s() >= self.deadline_s:
            connection.server.stats.late += 1
            return False
        return True


Handler: TypeAlias = "Callable[[Call], Awaitable[None] | None]"
"""A plain function responds at once or keeps the call and responds later; a coroutine function runs as a task."""
