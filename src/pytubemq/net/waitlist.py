"""The calls of one connection that have no answer yet, and who gets which answer.

The invariants: each call is told once, by its answer or by an error; one who fails at its answer troubles no other.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytubemq.errors import ConnectionLostError, RemoteError, RequestTimeoutError, StandbyError, TubeError
from pytubemq.net.waiting import AskedRun, Waiting
from pytubemq.wire.frame import Frame
from pytubemq.wire.response_run import ResponseRun
from pytubemq.wire.rpc import Response, decode_response
from pytubemq.wire.schema import Status

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from pytubemq.model.ids import Address

logger = logging.getLogger(__name__)

_FOR_NOW = ("StandbyException", "ServerNotReadyException", "ServiceStoppingException")
"""How the names of exceptions end that speak of the server's state and not of the request. Only the ending counts:
the package in front of it depends on the version of the protocol."""


class Waitlist:
    """Who waits, by serial number. `learn` hears every answer until `known`, and later those that tell capabilities."""

    __slots__ = ("_calls", "_learn", "_peer", "known")

    def __init__(self, peer: Address, learn: Callable[[Response], None]) -> None:
        self.known = False
        """Whether what the peer understands is known."""
        self._peer = peer
        self._learn = learn
        self._calls: dict[int, Waiting] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def method_of(self, serial: int) -> int | None:
        """Return the method of a call that waits for its response; None if there is no such call."""
        waiting = self._calls.get(serial)
        return None if waiting is None else waiting.method

    def add(self, serial: int, waiting: Waiting) -> None:
        """One more call."""
        self._calls[serial] = waiting

    def add_run(self, run: AskedRun, waiting: Waiting) -> None:
        """So many more."""
        self._calls.update(dict.fromkeys(range(run.first, run.first + run.asked), waiting))

    # --- answers --------------------------------------------------------------------------------------------

    def answer_all(self, items: Sequence[Response | ResponseRun | Frame]) -> None:
        """Answers to what was asked together are given together."""
        pop = self._calls.pop
        run: AskedRun | None = None
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
            if not self.known or item.capabilities is not None or item.status is not Status.SUCCESS:
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
                if not isinstance(done, AskedRun):
                    self._give(waiting, item.serial, item)
                    continue
                run = done
            answers.append(item)
        self._land(run, answers)

    def _answer_run(self, alike: ResponseRun) -> None:
        """As far as they are to what was asked together, they are given as they are."""
        first = alike[0]
        if not self.known or first.capabilities is not None or first.status is not Status.SUCCESS:
            for response in alike:
                self._answer(response)
            return
        pop, serial, count, at = self._calls.pop, alike.serial, len(alike), 0
        while at < count:
            waiting = pop(serial + at, None)
            stop = at + 1
            if waiting is not None and isinstance(waiting.done, AskedRun):
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

    def _land(self, run: AskedRun | None, answers: Sequence[Response]) -> None:
        if run is None:
            return
        try:
            run.landed(answers)
        except Exception:
            logger.exception("%d answers of %s could not be handled", len(answers), self._peer)

    def _answer(self, response: Response) -> None:
        waiting = self._calls.pop(response.serial, None)
        if not self.known or response.capabilities is not None:
            self._learn(response)
        if waiting is None:
            return
        good = response.status is Status.SUCCESS
        self._give(waiting, response.serial, response if good else remote_error(self._peer, response))

    def _give(self, waiting: Waiting, serial: int, answer: Response | TubeError) -> None:
        try:
            if isinstance(answer, TubeError):
                waiting.fail(serial, answer)
            else:
                waiting.land(answer)
        except Exception:  # whoever asked failed at the answer; the others are still to get theirs
            logger.exception("the answer of %s to method %d could not be handled", self._peer, waiting.method)

    # --- no answers -----------------------------------------------------------------------------------------

    def allow_for(self, late_s: float) -> None:
        """The loop was held up: what was asked has perhaps not even left, so the time does not count."""
        for serial, waiting in self._calls.items():
            self._calls[serial] = waiting._replace(deadline_s=waiting.deadline_s + late_s)

    def expire(self, now_s: float, *, heard_s: float) -> bool:
        """End the calls whose time is over; whether nothing at all came since one of them was asked.

        Args:
            now_s: the loop's time.
            heard_s: when the last byte came.
        """
        silent = False
        for serial in [
            serial for serial, waiting in self._calls.items() if waiting.deadline_s <= now_s or waiting.given_up()
        ]:
            waiting = self._calls.pop(serial)
            if waiting.given_up():
                continue
            silent = silent or heard_s < waiting.deadline_s - waiting.timeout_s
            self._give(
                waiting,
                serial,
                RequestTimeoutError(
                    f"{self._peer} did not answer method {waiting.method} within {waiting.timeout_s:g} s",
                    hint="it may be overloaded or gone; whether it did the work is unknown",
                ),
            )
        return silent

    def end(self, reason: TubeError | None, loop: asyncio.AbstractEventLoop) -> None:
        """There will be no more answers: all who wait are told, from the loop."""
        calls, self._calls = self._calls, {}
        for serial, waiting in calls.items():
            error = ConnectionLostError(f"the connection to {self._peer} broke before the answer came")
            error.__cause__ = reason
            if waiting.future is not None:
                waiting.fail(serial, error)
            else:
                loop.call_soon(waiting.fail, serial, error)


def remote_error(peer: Address, response: Response) -> RemoteError:
    """The error for an exception answer. The class it names is text to us: nothing is looked up by it."""
    kind = StandbyError if response.exception_name.endswith("StandbyException") else RemoteError
    error = kind(
        f"{peer} failed at the request: {response.exception_text or 'no text'} ({response.exception_name})",
        exception_name=response.exception_name,
    )
    error.retriable = response.exception_name.endswith(_FOR_NOW)
    return error
