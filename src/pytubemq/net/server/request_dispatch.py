"""The dispatch of a connection's requests to the handlers of their methods: alike ones together, others one by one.

The invariant: each request is handled or refused once, in the order of arrival; what takes longer than one slice of
the loop's time is returned to the connection, which puts it off.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from pytubemq.errors import EnvelopeError
from pytubemq.model.limits import DEFAULT_REQUEST_TIMEOUT_S, MAX_REQUEST_TIMEOUT_S
from pytubemq.net.server.call import Call, CallServer, Connection
from pytubemq.net.server.call_run import CallRun
from pytubemq.wire.framing.frame import Frame
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.rpc.envelope import Request, decode_request, encode_exception
from pytubemq.wire.rpc.methods import method_for
from pytubemq.wire.rpc.request_run import RequestRun

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from pytubemq.net.server.call import Handler
    from pytubemq.net.server.call_run import RunHandler

Item: TypeAlias = Request | RequestRun | Frame
"""A request, several that are alike, or one that is not decoded yet."""

_LARGE_BODY_BYTES = 4096
_MAX_TIMEOUT_MS = MAX_REQUEST_TIMEOUT_S * 1000


class DispatchServer(CallServer, Protocol):
    """The part of a server that requests are dispatched with: the tables of methods and handlers."""

    handlers: Mapping[int, Handler]
    run_handlers: Mapping[int, RunHandler]
    offered: frozenset[int]
    served: frozenset[tuple[int, int]]
    capabilities: Capability
    is_crowded: bool

    def run(self, call: Call, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a handler's coroutine as a task of the server."""


class DispatchConnection(Connection, Protocol):
    """The part of a connection that its requests are dispatched with."""

    open_calls: int
    announced: int | None
    """The capability field of the peer's newest request that had one."""

    @property
    def server(self) -> DispatchServer:
        """The server that accepted it."""
        ...

    def is_over_share(self) -> bool:
        """True if its open calls take more than its share, while those of all take too much."""
        ...

    def count_buffered(self, more_bytes: int) -> None:
        """Count the bytes that are buffered for this peer, for its host, and for all of them."""


def dispatch(connection: DispatchConnection, items: list[Item], now_s: float, until_s: float) -> list[Item]:
    """Serve alike requests together, if their method has a handler for that; after a while return the rest."""
    server = connection.server
    handlers, count, at = server.run_handlers, len(items), 0
    clock = server.clock
    while at < count and not connection.closed:
        if at and (clock.now_s() > until_s or (server.is_crowded and connection.is_over_share())):
            return items[at:]
        first = items[at]
        end = at + 1
        envelope = _envelope(first)
        if envelope is None:
            _serve(connection, cast("Frame", first), now_s)
            at = end
            continue
        together = envelope[1] in handlers
        while together and end < count and _envelope(items[end]) == envelope:
            end += 1
        parts = cast("Sequence[Request | RequestRun]", items[at:end])
        at = end
        if together and (len(parts) > 1 or isinstance(first, RequestRun)):
            left = _serve_run(connection, parts, now_s, until_s)
        else:
            left = _serve_each(connection, parts, now_s, until_s)
        if left:
            return [*left, *items[at:]]
    return []


def _serve_each(
    connection: DispatchConnection, parts: Sequence[Request | RequestRun], now_s: float, until_s: float
) -> list[Request]:
    """Serve them one by one; return those that are left when the time is over."""
    requests = [request for part in parts for request in (part if isinstance(part, RequestRun) else (part,))]
    server = connection.server
    clock = server.clock
    for at, request in enumerate(requests):
        if connection.closed:
            return []
        if at and (clock.now_s() > until_s or (server.is_crowded and connection.is_over_share())):
            return requests[at:]
        _serve(connection, request, now_s)
    return []


def _serve_run(
    connection: DispatchConnection, parts: Sequence[Request | RequestRun], now_s: float, until_s: float
) -> list[Request]:
    """Serve them together if that is possible, else one by one; return what is left when the time is over."""
    server = connection.server
    run = CallRun(parts, connection, now_s, now_s)
    first = run.first
    announces = first.capabilities is not None and first.capabilities != connection.announced
    if announces or (first.method, first.service) not in server.served:
        return _serve_each(connection, parts, now_s, until_s)
    run.deadline_s += _timeout_s(first.timeout_ms)
    server.stats.calls += len(run.serials)
    connection.open_calls += len(run.serials)
    connection.count_buffered(run.held_bytes)
    try:
        served = server.run_handlers[first.method](run)
    except EnvelopeError:  # of the first; the others are served nevertheless
        served = False
    except Exception as error:  # a handler's fault must not end the connection of a sound peer
        run.answered = True
        for call in run.calls():
            call.crash(error)
        return []
    if served:
        run.keep_serials()
        return []
    connection.count_answered(run.held_bytes, len(run.serials))  # each is counted individually
    server.stats.calls -= len(run.serials)
    return _serve_each(connection, parts, now_s, until_s)


def _serve(connection: DispatchConnection, item: Request | Frame, now_s: float) -> None:
    server = connection.server
    server.stats.calls += 1
    request: Request | None = None
    try:
        request = decode_request(item) if isinstance(item, Frame) else item
        if request.capabilities is not None and request.capabilities != connection.announced:
            connection.announced = request.capabilities
            _agree_on(connection, Capability(request.capabilities) & server.capabilities)
        if (request.method, request.service) not in server.served:
            method_for(request, offered=server.offered)
    except EnvelopeError as error:
        _refuse(connection, item.serial, error, request)
        return
    call = Call(request, connection, now_s, now_s + _timeout_s(request.timeout_ms))
    connection.open_calls += 1
    connection.count_buffered(call.held_bytes)
    _handle(server, call)


def _handle(server: DispatchServer, call: Call) -> None:
    request = call.request
    handler = server.handlers.get(request.method)
    if handler is None:
        call.fail(
            exception_name="java.lang.Exception",
            text=f"method {request.method} is not served by this {server.name}",
        )
        return
    try:
        result = handler(call)
    except Exception as error:  # a handler's fault must not end the connection of a sound peer
        call.crash(error)
    else:
        if result is not None and inspect.iscoroutine(result):
            server.run(call, result)
        elif call.size_bytes > _LARGE_BODY_BYTES and not call.answered:
            # It was read; while the call waits for its response, nobody needs the bytes again.
            call.request = request._replace(body=b"")


def _refuse(connection: DispatchConnection, serial: int, error: EnvelopeError, request: Request | None) -> None:
    connection.server.stats.failed += 1
    connection.send(
        encode_exception(
            serial,
            fatal=error.fatal,
            exception_name=error.exception_name,
            text=error.text,
            capabilities=None if request is None else connection.announce(request),
        )
    )


def _agree_on(connection: DispatchConnection, capabilities: Capability) -> None:
    """Set what both sides can do; a peer that cannot read big blocks gets its responses in the protocol's own size."""
    connection.capabilities = capabilities
    if Capability.BIG_BLOCKS in capabilities:
        connection.block_bytes = None


def _envelope(item: Item) -> tuple[int | None, ...] | None:
    """Return the common envelope of requests that are served together; None for a frame that is not decoded yet."""
    if isinstance(item, Frame):
        return None
    # All fields but the serial number, which comes first, and the body, which comes last.
    return (item[0] if isinstance(item, RequestRun) else item)[1:-1]


def _timeout_s(timeout_ms: int) -> float:
    """Return the time that the caller waits, according to the request."""
    if timeout_ms <= 0:
        return DEFAULT_REQUEST_TIMEOUT_S
    return timeout_ms / 1000 if timeout_ms <= _MAX_TIMEOUT_MS else MAX_REQUEST_TIMEOUT_S
