"""The client's side of one connection: requests out, answers matched by serial number.

The invariants: every call ends, with its answer, with an error that says what is known, or by its time; a call that
ended so is forgotten, and a late answer to it is dropped; a connection on which calls end by their time while nothing
at all comes is given up, so that the next call gets another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pytubemq.errors import (
    ConnectionLostError,
    EnvelopeError,
    FrameError,
    RemoteError,
    RequestTimeoutError,
    StandbyError,
    TubeError,
    UnreachableError,
)
from pytubemq.model.limits import BLOCK_BYTES, CONNECT_TIMEOUT_S, SILENT_CONNECTION_S, VANISHED_PEER_S
from pytubemq.net.outbox import Outbox
from pytubemq.net.sockets import watch_peer
from pytubemq.net.waiting import CallRun, Waiting
from pytubemq.wire.codec import decode, encode
from pytubemq.wire.extensions import OURS, Capability
from pytubemq.wire.frame import Frame
from pytubemq.wire.response_run import ResponseRun
from pytubemq.wire.rpc import Response, decode_response, encode_request
from pytubemq.wire.schema import Status
from pytubemq.wire.stream import ResponseStream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.model.ids import Address

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SWEEP_S = 0.1
_HELD_UP_S = 0.5
"""A sweep that comes so late shows that the loop was busy with something else."""
_SERIAL_MASK = 0x7FFFFFFF
_FOR_NOW = ("StandbyException", "ServerNotReadyException", "ServiceStoppingException")
"""How the names of exceptions end that speak of the server's state and not of the request. Only the ending counts:
the package in front of it depends on the version of the protocol."""


class RpcConnection(asyncio.Protocol):
    """A connection to a Master or a Broker, shared by everything in this process that talks to it."""

    def __init__(self, peer: Address, *, capabilities: Capability = OURS) -> None:
        """Use `connect`. `capabilities` is what we show; `Capability(0)` speaks as the original does."""
        self.peer = peer
        self.capabilities = Capability(0)
        self.closed = False
        self.answered = False
        """Whether `capabilities` is known: a request that showed ours has had its answer."""
        self.lost: asyncio.Future[TubeError | None] = asyncio.get_running_loop().create_future()
        """Done when the connection has ended, with the reason if there is one."""
        self._offer: int | None = int(capabilities) or None
        self._block_bytes: int | None = BLOCK_BYTES
        self._loop = asyncio.get_running_loop()
        self._stream = ResponseStream()
        self._offered = 0
        """The serial number of the last request that showed our capabilities."""
        self._waiting: dict[int, Waiting] = {}
        self._serial = 0
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._sweep_handle: asyncio.TimerHandle | None = None
        self._sweep_due_s = 0.0
        self._heard_s = 0.0
        """When the last byte came."""
        self._used_s = self._loop.time()
        """When something was asked last."""
        self._asked_s: float | None = None
        """When the first request left after that byte."""

    @classmethod
    async def connect(
        cls, peer: Address, *, timeout_s: float = CONNECT_TIMEOUT_S, capabilities: Capability = OURS
    ) -> RpcConnection:
        """Open a connection.

        Raises:
            UnreachableError: refused, unknown host, or nothing within `timeout_s`.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(
                    lambda: cls(peer, capabilities=capabilities), peer.host, peer.port
                )
        except TimeoutError as error:
            raise UnreachableError(f"nothing answers at {peer} within {timeout_s:g} s") from error
        except OSError as error:
            raise UnreachableError(f"cannot connect to {peer}: {_reason(error)}") from error
        return connection

    # --- calls ----------------------------------------------------------------------------------------------

    def call(
        self, method: int, service: int, body: bytes | Sequence[bytes], *, timeout_s: float
    ) -> asyncio.Future[Response]:
        """Send a request; the future gets its answer.

        Raises (through the future): ConnectionLostError, RequestTimeoutError, RemoteError, StandbyError.
        """
        future: asyncio.Future[Response] = self._loop.create_future()
        self._ask(method, service, body, timeout_s, partial(_settle, future), future)
        return future

    def ask(
        self,
        method: int,
        service: int,
        body: bytes | Sequence[bytes],
        *,
        timeout_s: float,
        done: Callable[[Response | TubeError], None],
    ) -> None:
        """Send a request; `done` is called once with its answer or the error of `call`, from the loop, and not before
        this returns. It costs less than a future, for those who ask a hundred thousand times a second.
        """
        self._ask(method, service, body, timeout_s, done, None)

    def _ask(
        self,
        method: int,
        service: int,
        body: bytes | Sequence[bytes],
        timeout_s: float,
        done: Callable[[Response | TubeError], None],
        future: asyncio.Future[Response] | None,
    ) -> None:
        outbox = self._outbox
        if self.closed or outbox is None:
            closed = ConnectionLostError(f"the connection to {self.peer} is closed")
            if future is not None:
                future.set_exception(closed)
            else:
                self._loop.call_soon(done, closed)
            return
        serial = self._serial = self._serial % _SERIAL_MASK + 1
        offer = None
        if not self.answered:
            # Shown until the peer has answered such a request: the first one may be answered last, or never.
            offer = self._offer
            self._offered = serial
        outbox.put(
            encode_request(
                serial,
                service=service,
                method=method,
                timeout_ms=max(1, int(timeout_s * 1000)),
                body=(body,) if isinstance(body, bytes) else body,
                capabilities=offer,
                block_bytes=self._block_bytes,
            )
        )
        now_s = self._used_s = self._loop.time()
        if self._asked_s is None:
            self._asked_s = now_s
        self._waiting[serial] = tuple.__new__(Waiting, (done, now_s + timeout_s, timeout_s, method, future))
        if self._sweep_handle is None:
            self._sweep_soon(now_s)

    def ask_run(
        self,
        method: int,
        count: int,
        write: Callable[[int], list[bytes]],
        *,
        timeout_s: float,
        landed: Callable[[int, Sequence[Response]], None],
        failed: Callable[[int, TubeError], None],
    ) -> None:
        """Send `count` requests of one method at once, on a connection that has `answered`.

        `write` gives their frames, given the first serial number; the others' follow. `landed` is called with that
        number and answers as they come, `failed` with the number of a request, from 0, and the error of `call`: one or
        the other once for each request, as `ask` does.
        """
        outbox = self._outbox
        if self.closed or outbox is None:
            closed = ConnectionLostError(f"the connection to {self.peer} is closed")
            for number in range(count):
                self._loop.call_soon(failed, number, closed)
            return
        first = self._serial + 1 if self._serial + count <= _SERIAL_MASK else 1
        self._serial = first + count - 1
        outbox.put((b"".join(write(first)),))
        now_s = self._used_s = self._loop.time()
        if self._asked_s is None:
            self._asked_s = now_s
        run = CallRun(first, count, partial(landed, first), failed)
        waiting = Waiting(run, now_s + timeout_s, timeout_s, method, None)
        self._waiting.update(dict.fromkeys(range(first, first + count), waiting))
        if self._sweep_handle is None:
            self._sweep_soon(now_s)

    def flush(self) -> None:
        """Hand over what was asked so far, without waiting for the end of the loop turn."""
        if self._outbox is not None and not self.closed:
            self._outbox.flush()

    async def request(
        self, message: object, response_type: type[T], method: int, service: int, *, timeout_s: float
    ) -> T:
        """Encode, call, decode. The business code inside the answer is the caller's to look at."""
        response = await self.call(method, service, encode(message), timeout_s=timeout_s)
        return decode(response_type, response.body)

    @property
    def block_bytes(self) -> int | None:
        """The most that a block of a frame may hold; None if the peer takes any."""
        return self._block_bytes

    @property
    def local_host(self) -> str:
        """Our own address as this peer sees it (unless something translates addresses in between)."""
        name = self._transport.get_extra_info("sockname") if self._transport is not None else None
        return str(name[0]) if name else "127.0.0.1"

    @property
    def idle_s(self) -> float:
        """How long nothing was asked, and no answer is due."""
        return 0.0 if self._waiting else self._loop.time() - self._used_s

    @property
    def in_flight(self) -> int:
        """Calls without an answer yet."""
        return len(self._waiting)

    async def close(self) -> None:
        """Close; calls without an answer fail with ConnectionLostError. Idempotent."""
        if self._outbox is not None and not self.closed:
            self._outbox.flush()
        self._end(None)
        if self._transport is not None:
            self._transport.close()
        with contextlib.suppress(asyncio.TimeoutError):
            async with asyncio.timeout(1.0):
                await asyncio.shield(self.lost)

    def drop(self) -> None:
        """Close without waiting for the end of it; calls without an answer fail."""
        self._end(None)
        if self._transport is not None:
            self._transport.close()

    # --- asyncio calls these --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        watch_peer(self._transport, gone_after_s=VANISHED_PEER_S)
        self._outbox = Outbox(self._transport, self._loop)

    def data_received(self, data: bytes) -> None:
        self._heard_s = self._loop.time()
        self._asked_s = None
        try:
            self._answer_all(self._stream.feed_responses(data))
        except (FrameError, EnvelopeError) as error:
            logger.warning("closing the connection to %s: %s", self.peer, error)
            self._end(error)
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(ConnectionLostError(f"the connection to {self.peer} broke: {exc}") if exc else None)
        if not self.lost.done():
            self.lost.set_result(None)

    # --- inside ---------------------------------------------------------------------------------------------

    def _answer_all(self, items: Sequence[Response | ResponseRun | Frame]) -> None:
        """Answers to what was asked together are given together."""
        pop = self._waiting.pop
        run: CallRun | None = None
        answers: list[Response] = []
        for item in items:
            if isinstance(item, ResponseRun):
                self._land(run, answers)
                run, answers = None, []
                self._answer_run(item)
                continue
            if isinstance(item, Frame):  # it is still to be decoded
                self._land(run, answers)
                run, answers = None, []
                self._answer(decode_response(item))
                continue
            if not self.answered or item.capabilities is not None or item.status is not Status.SUCCESS:
                self._land(run, answers)
                run, answers = None, []
                self._answer(item)
                continue
            waiting = pop(item[0], None)
            if waiting is None:
                continue
            done = waiting.done
            if done is not run:
                self._land(run, answers)
                run, answers = None, []
                if not isinstance(done, CallRun):
                    self._give(waiting, item.serial, item)
                    continue
                run = done
            answers.append(item)
        self._land(run, answers)

    def _answer_run(self, alike: ResponseRun) -> None:
        """As far as they are to what was asked together, they are given as they are."""
        first = alike[0]
        if not self.answered or first.capabilities is not None or first.status is not Status.SUCCESS:
            for response in alike:
                self._answer(response)
            return
        pop, serial, count, at = self._waiting.pop, alike.serial, len(alike), 0
        while at < count:
            waiting = pop(serial + at, None)
            stop = at + 1
            if waiting is not None and isinstance(waiting.done, CallRun):
                most = min(count, waiting.done.first + waiting.done.asked - serial)
                waits = [waiting, *(pop(number, None) for number in range(serial + stop, serial + most))]
                stop = most
                if waits.count(waiting) == len(waits):
                    self._land(waiting.done, alike.part(at, stop))
                else:  # some of them have ended before
                    for number, one in enumerate(waits, at):
                        if one is not None:
                            self._give(one, serial + number, alike[number])
            elif waiting is not None:
                self._give(waiting, serial + at, alike[at])
            at = stop

    def _land(self, run: CallRun | None, answers: Sequence[Response]) -> None:
        if run is None:
            return
        try:
            run.landed(answers)
        except Exception:
            logger.exception("%d answers of %s could not be handled", len(answers), self.peer)

    def _answer(self, response: Response) -> None:
        waiting = self._waiting.pop(response.serial, None)
        if not self.answered or response.capabilities is not None:
            self._learn(response)
        if waiting is None:
            return
        good = response.status is Status.SUCCESS
        self._give(waiting, response.serial, response if good else remote_error(self.peer, response))

    def _give(self, waiting: Waiting, serial: int, answer: Response | TubeError) -> None:
        try:
            if isinstance(answer, TubeError):
                waiting.fail(serial, answer)
            else:
                waiting.land(answer)
        except Exception:  # whoever asked failed at the answer; the others are still to get theirs
            logger.exception("the answer of %s to method %d could not be handled", self.peer, waiting.method)

    def _learn(self, response: Response) -> None:
        """What the peer understands, which its first answer tells."""
        if response.capabilities is not None:
            self.answered = True
            self.capabilities = Capability(response.capabilities) & OURS
            if Capability.BIG_BLOCKS in self.capabilities:
                self._block_bytes = None
        elif response.serial <= self._offered or self._offer is None:
            self.answered = True

    def _sweep_soon(self, now_s: float) -> None:
        self._sweep_due_s = now_s + _SWEEP_S
        self._sweep_handle = self._loop.call_later(_SWEEP_S, self._sweep)

    def _allow_for(self, late_s: float) -> None:
        """The loop was held up: what was asked has perhaps not even left, so the time does not count."""
        self._waiting = {
            serial: waiting._replace(deadline_s=waiting.deadline_s + late_s)
            for serial, waiting in self._waiting.items()
        }
        if self._asked_s is not None:
            self._asked_s += late_s

    def _sweep(self) -> None:
        self._sweep_handle = None
        now_s = self._loop.time()
        if now_s - self._sweep_due_s > _HELD_UP_S:
            self._allow_for(now_s - self._sweep_due_s)
        expired = [
            serial for serial, waiting in self._waiting.items() if waiting.deadline_s <= now_s or waiting.given_up()
        ]
        silent = False
        for serial in expired:
            waiting = self._waiting.pop(serial)
            if not waiting.given_up():
                silent = silent or self._heard_s < waiting.deadline_s - waiting.timeout_s
                self._give(
                    waiting,
                    serial,
                    RequestTimeoutError(
                        f"{self.peer} did not answer method {waiting.method} within {waiting.timeout_s:g} s",
                        hint="it may be overloaded or gone; whether it did the work is unknown",
                    ),
                )
        silent_s = now_s - self._asked_s if silent and self._asked_s is not None else 0.0
        if silent and silent_s >= SILENT_CONNECTION_S:
            self._give_up(silent_s)
        elif not self._waiting:
            self._asked_s = None
        elif not self.closed:
            self._sweep_soon(now_s)

    def _give_up(self, silent_s: float) -> None:
        """A long wait at the peer ends before its call's time does, so this is no patience: the peer is not there."""
        logger.warning("closing the connection to %s: no answer and no byte for %.1f s", self.peer, silent_s)
        self._end(ConnectionLostError(f"nothing came from {self.peer} for {silent_s:.1f} s"))
        if self._transport is not None:
            self._transport.abort()

    def _end(self, reason: TubeError | None) -> None:
        if self.closed:
            return
        self.closed = True
        if self._sweep_handle is not None:
            self._sweep_handle.cancel()
        waiting, self._waiting = self._waiting, {}
        for serial, item in waiting.items():
            error = ConnectionLostError(f"the connection to {self.peer} broke before the answer came")
            error.__cause__ = reason
            if item.future is not None:
                item.fail(serial, error)
            else:
                self._loop.call_soon(item.fail, serial, error)
        if not self.lost.done():
            self.lost.set_result(reason)


def _settle(future: asyncio.Future[Response], answer: Response | TubeError) -> None:
    if future.done():
        return
    if isinstance(answer, TubeError):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def remote_error(peer: Address, response: Response) -> RemoteError:
    """The error for an exception answer. The class it names is text to us: nothing is looked up by it."""
    kind = StandbyError if response.exception_name.endswith("StandbyException") else RemoteError
    error = kind(
        f"{peer} failed at the request: {response.exception_text or 'no text'} ({response.exception_name})",
        exception_name=response.exception_name,
    )
    error.retriable = response.exception_name.endswith(_FOR_NOW)
    return error


def _reason(error: OSError) -> str:
    inner: Any = error
    return str(inner.strerror or error).removeprefix("Multiple exceptions: ")
