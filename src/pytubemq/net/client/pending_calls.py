"""The calls of one connection that have no response yet.

The invariants: each call ends once, with its response or an error; a callback that fails disturbs no other call.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.errors import ConnectionLostError, RemoteError, RequestTimeoutError, StandbyError, TlsError, TubeError
from pytubemq.wire.framing.frame import Frame
from pytubemq.wire.protobuf.schema import Status
from pytubemq.wire.rpc.envelope import Response, decode_response
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.rpc.response_run import ResponseRun

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from pytubemq.model.ids import Address

logger = logging.getLogger(__name__)

_NO_BROKER_YET = tuple(f"No service {int(service)} found" for service in (Service.BROKER_READ, Service.BROKER_WRITE))
"""Beginnings of a Java Broker's errors between opening its port and serving."""
_FOR_NOW = ("StandbyException", "ServerNotReadyException", "ServiceStoppingException")
"""Endings of exception names that concern the server's state and not the request. Only the ending counts:
the package before it depends on the version of the protocol."""


_WORDS: Final[dict[int, str]] = {
    Method.PRODUCER_REGISTER_P2M: "the registration of a producer",
    Method.PRODUCER_HEARTBEAT_P2M: "the heartbeat of a producer",
    Method.PRODUCER_CLOSE_P2M: "the closing of a producer",
    Method.CONSUMER_REGISTER_C2M: "the registration of a consumer",
    Method.CONSUMER_HEARTBEAT_C2M: "the heartbeat of a consumer",
    Method.CONSUMER_CLOSE_C2M: "the closing of a consumer",
    Method.BROKER_REGISTER_B2M: "the registration of a Broker",
    Method.BROKER_HEARTBEAT_B2M: "the heartbeat of a Broker",
    Method.BROKER_CLOSE_B2M: "the closing of a Broker",
    Method.SEND_MESSAGE_P2B: "a send",
    Method.CONSUMER_REGISTER_C2B: "the registration of a consumer for a partition",
    Method.CONSUMER_HEARTBEAT_C2B: "the heartbeat of a consumer",
    Method.GET_MESSAGE_C2B: "a fetch",
    Method.CONSUMER_COMMIT_C2B: "a confirm",
    Method.CONSUMER_REGISTER_C2M_V2: "the registration of a consumer",
    Method.CONSUMER_HEARTBEAT_C2M_V2: "the heartbeat of a consumer",
    Method.GET_PART_META_C2M: "a request for metadata",
    Method.READ_RANGE_C2B: "a read",
    Method.PARTITION_OFFSETS: "a request for offsets",
    Method.SEND_PACKS_P2B: "a send",
    Method.RESET_OFFSETS: "a reset of offsets",
    Method.RESET_HISTORY: "a request for past resets",
}
"""Each request in words, for errors."""


def _named(method: int) -> str:
    return _WORDS.get(method, f"method {method}")


class PendingRun(NamedTuple):
    """Calls that were sent together; the serial numbers of the others follow the first one's."""

    first: int
    calls: int
    on_responses: Callable[[Sequence[Response]], None]
    """Called with responses as they arrive, several at a time."""
    on_error: Callable[[int, TubeError], None]
    """Called with the number of a call in the run, from 0, and its error."""


class PendingCall(NamedTuple):
    """A call without a response yet; all calls of a run share one."""

    done: Callable[[Response | TubeError], None] | PendingRun
    deadline_s: float
    timeout_s: float
    method: int
    future: asyncio.Future[Response] | None
    """The future that gets the response, if somebody awaits it; a cancelled one needs none any more."""

    def is_abandoned(self) -> bool:
        """True if nobody wants the response any more."""
        return self.future is not None and self.future.done()

    def fail(self, serial: int, error: TubeError) -> None:
        """End the call with an error."""
        if isinstance(self.done, PendingRun):
            self.done.on_error(serial - self.done.first, error)
        else:
            self.done(error)

    def complete(self, response: Response) -> None:
        """Complete the call with its response."""
        if isinstance(self.done, PendingRun):
            self.done.on_responses((response,))
        else:
            self.done(response)


class PendingCalls:
    """Calls without a response, by serial number.

    `learn` is called with every response until `known`, and later with those that have capabilities.
    """

    __slots__ = ("_calls", "_learn", "_peer", "known")

    def __init__(self, peer: Address, learn: Callable[[Response], None]) -> None:
        self.known = False
        """True once the peer's capabilities are known."""
        self._peer = peer
        self._learn = learn
        self._calls: dict[int, PendingCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def method_of(self, serial: int) -> int | None:
        """Return the method of a call that waits for its response; None if there is no such call."""
        call = self._calls.get(serial)
        return None if call is None else call.method

    def add(self, serial: int, call: PendingCall) -> None:
        """Add a call."""
        self._calls[serial] = call

    def add_run(self, run: PendingRun, call: PendingCall) -> None:
        """Add the calls of a run."""
        self._calls.update(dict.fromkeys(range(run.first, run.first + run.calls), call))

    # --- responses --------------------------------------------------------------------------------------------

    def complete_all(self, items: Sequence[Response | ResponseRun | Frame]) -> None:
        """Complete calls with these responses; those of a run that came together are given together."""
        pop = self._calls.pop
        run: PendingRun | None = None
        responses: list[Response] = []
        for item in items:
            if isinstance(item, ResponseRun):
                self._complete_run(run, responses)
                run, responses = None, []
                self._complete_alike(item)
                continue
            if isinstance(item, Frame):  # it is still to be decoded
                self._complete_run(run, responses)
                run, responses = None, []
                self._complete(decode_response(item))
                continue
            if not self.known or item.capabilities is not None or item.status is not Status.SUCCESS:
                self._complete_run(run, responses)
                run, responses = None, []
                self._complete(item)
                continue
            call = pop(item[0], None)
            if call is None:
                continue
            done = call.done
            if done is not run:
                self._complete_run(run, responses)
                run, responses = None, []
                if not isinstance(done, PendingRun):
                    self._complete_call(call, item.serial, item)
                    continue
                run = done
            responses.append(item)
        self._complete_run(run, responses)

    def _complete_alike(self, alike: ResponseRun) -> None:
        """Complete calls with alike responses, as a whole where they belong to one run."""
        first = alike[0]
        if not self.known or first.capabilities is not None or first.status is not Status.SUCCESS:
            for response in alike:
                self._complete(response)
            return
        pop, serial, count, at = self._calls.pop, alike.serial, len(alike), 0
        while at < count:
            call = pop(serial + at, None)
            stop = at + 1
            if call is not None and isinstance(call.done, PendingRun):
                most = min(count, call.done.first + call.done.calls - serial)
                waits = [call, *(pop(number, None) for number in range(serial + stop, serial + most))]
                stop = most
                if waits.count(call) == len(waits):
                    self._complete_run(call.done, alike.part(at, stop))
                else:  # some of them have ended before
                    for number, one in enumerate(waits, at):
                        if one is not None:
                            self._complete_call(one, serial + number, alike[number])
            elif call is not None:
                self._complete_call(call, serial + at, alike[at])
            at = stop

    def _complete_run(self, run: PendingRun | None, responses: Sequence[Response]) -> None:
        if run is None:
            return
        try:
            run.on_responses(responses)
        except Exception:
            logger.exception("%d responses of %s could not be handled", len(responses), self._peer)

    def _complete(self, response: Response) -> None:
        call = self._calls.pop(response.serial, None)
        if not self.known or response.capabilities is not None:
            self._learn(response)
        if call is None:
            return
        good = response.status is Status.SUCCESS
        self._complete_call(call, response.serial, response if good else remote_error(self._peer, response))

    def _complete_call(self, call: PendingCall, serial: int, result: Response | TubeError) -> None:
        try:
            if isinstance(result, TubeError):
                call.fail(serial, result)
            else:
                call.complete(result)
        except Exception:  # the caller failed at the response; the others still get theirs
            logger.exception("the response of %s to method %d could not be handled", self._peer, call.method)

    # --- no responses -----------------------------------------------------------------------------------------

    def allow_for(self, late_s: float) -> None:
        """Extend all deadlines by a time in which the loop was held up, as requests may not even have left."""
        for serial, call in self._calls.items():
            self._calls[serial] = call._replace(deadline_s=call.deadline_s + late_s)

    def expire(self, now_s: float, *, heard_s: float) -> bool:
        """End the calls whose time is over; return True if nothing at all came since one of them was sent.

        Args:
            now_s: the loop's time.
            heard_s: when the last byte came.
        """
        silent = False
        for serial in [
            serial for serial, call in self._calls.items() if call.deadline_s <= now_s or call.is_abandoned()
        ]:
            call = self._calls.pop(serial)
            if call.is_abandoned():
                continue
            silent = silent or heard_s < call.deadline_s - call.timeout_s
            self._complete_call(
                call,
                serial,
                RequestTimeoutError(
                    f"{self._peer} did not respond to {_named(call.method)} within {call.timeout_s:g} s",
                    hint="it may be overloaded or gone; whether it did the work is unknown",
                ),
            )
        return silent

    def end(self, reason: TubeError | None, loop: asyncio.AbstractEventLoop) -> None:
        """End all calls with an error, from the loop, because no response comes any more."""
        calls, self._calls = self._calls, {}
        for serial, call in calls.items():
            error: TubeError
            if isinstance(reason, TlsError):  # the server never took the request
                error = TlsError(reason.message, hint=reason.hint)
            else:
                error = ConnectionLostError(f"the connection to {self._peer} broke before the response arrived")
            error.__cause__ = reason
            if call.future is not None:
                call.fail(serial, error)
            else:
                loop.call_soon(call.fail, serial, error)


def remote_error(peer: Address, response: Response) -> RemoteError:
    """Return the error for an exception response. The class it names is text to us: nothing is looked up by it."""
    kind = StandbyError if response.exception_name.endswith("StandbyException") else RemoteError
    error = kind(
        f"{peer} failed at the request: {response.exception_text or 'no text'} ({response.exception_name})",
        exception_name=response.exception_name,
    )
    error.retriable = response.exception_name.endswith(_FOR_NOW) or response.exception_text.startswith(_NO_BROKER_YET)
    return error
