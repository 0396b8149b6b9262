"""Messages that leave each in a request of its own, many at a time.

The invariants: they leave in the order they are in the queue, at most `MAX_PLAIN_FLIGHTS` are on their way, and each is
answered for by itself: the Broker may take one and refuse the next.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

from pytubemq.client.answers import Outcome, read_answer
from pytubemq.client.flight import Flight
from pytubemq.client.pending import unexpected
from pytubemq.errors import Code, TubeError
from pytubemq.model.message import Receipt
from pytubemq.observe.story import MESSAGE
from pytubemq.wire.direct import decode_taken
from pytubemq.wire.methods import Method

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.client.lane_owner import LaneOwner
    from pytubemq.client.pending import Pending, Unit
    from pytubemq.client.request_writer import RequestWriter
    from pytubemq.client.unit_queue import UnitQueue
    from pytubemq.net.connection import RpcConnection
    from pytubemq.wire.rpc import Response

MAX_PLAIN_FLIGHTS: Final = 1_024
"""Single messages on the way to a Broker."""
_LEAST_TIMEOUT_S: Final = 0.05
_deadline_of: Callable[[Pending], float] = attrgetter("deadline_s")


class SinglesOwner(Protocol):
    """What a lane does with what became of them."""

    def took(self, outcome: Outcome) -> None:
        """The Broker has said this of some."""

    def failed(self, units: Sequence[Unit], error: TubeError) -> None:
        """These had no answer, or one that cannot be understood."""

    def go_on(self) -> None:
        """Some have had their answers."""


class Singles:
    """The single messages of one lane that are on their way."""

    __slots__ = ("_lane", "_number", "_owner", "_queue", "_runs", "_writer", "messages")

    def __init__(self, lane: SinglesOwner, owner: LaneOwner, queue: UnitQueue, writer: RequestWriter) -> None:
        self.messages = 0
        """On their way."""
        self._lane = lane
        self._owner = owner
        self._queue = queue
        self._writer = writer
        self._number = 0
        self._runs: dict[int, _Run] = {}

    def send(self, connection: RpcConnection, now_s: float, *, numbered: bool) -> int:
        """Send what is queued, as far as there is room on the way; returns how many left."""
        owner, queue, left = self._owner, self._queue, 0
        while queue and self.messages < MAX_PLAIN_FLIGHTS:
            taken, dropped = queue.take_singles(MAX_PLAIN_FLIGHTS - self.messages)
            for one in dropped:
                owner.settled(1, one.size_bytes)
            if not taken:
                continue
            if numbered:
                owner.numbers.give_each(taken)
            left += len(taken)
            if min(map(_deadline_of, taken)) - now_s >= owner.request_timeout_s:
                self._fly(connection, taken, owner.request_timeout_s, numbered=numbered)
                continue
            for deadline_s, group in groupby(taken, _deadline_of):
                timeout_s = min(owner.request_timeout_s, max(deadline_s - now_s, _LEAST_TIMEOUT_S))
                self._fly(connection, list(group), timeout_s, numbered=numbered)
        return left

    def abandon(self) -> list[Unit]:
        """Forget them; returns those without an answer."""
        left: list[Unit] = [one for run in self._runs.values() for one in run.units if one is not None]
        self._runs = {}
        self.messages = 0
        return left

    def _fly(self, connection: RpcConnection, units: list[Pending], timeout_s: float, *, numbered: bool) -> None:
        self._number = number = self._number + 1
        write = self._writer.run(numbered=numbered, timeout_s=timeout_s, block_bytes=connection.block_bytes)
        self._runs[number] = _Run(units, connection)
        self.messages += len(units)
        connection.ask_run(
            Method.SEND_MESSAGE_P2B,
            len(units),
            partial(write.encode, messages=tuple(units)),
            timeout_s=timeout_s,
            landed=partial(self._landed, number),
            failed=partial(self._failed, number),
        )
        if MESSAGE.on:
            for partition, group in groupby(units, attrgetter("partition")):
                MESSAGE.tell(
                    "sent", topic=partition.topic, partition=partition.partition_id, broker=partition.broker_id,
                    messages=len(list(group)), method=Method.SEND_MESSAGE_P2B.name,
                )  # fmt: skip

    def _landed(self, number: int, first: int, answers: Sequence[Response]) -> None:
        """Some have their answers; the usual ones take a shorter way, and are counted together."""
        run = self._runs.get(number)
        if run is None:
            return
        units, good, others, size_bytes = run.units, [], [], 0
        for answer in answers:
            at = answer[0] - first
            one = units[at]
            if one is None:
                continue
            units[at] = None
            try:
                said = decode_taken(answer.body)
            except TubeError:
                said = None
            if said is None:
                others.append((one, answer))
                continue
            size_bytes += one.size_bytes
            good.append((one, said))
        self._gone(number, run, len(good) + len(others))
        if good:
            outcome = Outcome(set(), Code.SUCCESS, "")
            outcome.taken, outcome.bytes_taken = len(good), size_bytes
            self._lane.took(outcome)  # before anybody hears of a receipt, so that the counts are right
            new = tuple.__new__
            for one, (message_id, offset, time_ms) in good:
                future = one.future
                if not future.done():
                    future.set_result(new(Receipt, (one.partition, message_id, offset, time_ms, False)))
        for one, answer in others:
            try:
                self._lane.took(read_answer(Flight((one,), run.connection, False, False, []), answer))
            except Exception as problem:
                self._lane.failed((one,), problem if isinstance(problem, TubeError) else unexpected(problem))
        self._lane.go_on()

    def _failed(self, number: int, at: int, error: TubeError) -> None:
        run = self._runs.get(number)
        one = None if run is None else run.units[at]
        if run is None or one is None:
            return
        run.units[at] = None
        self._gone(number, run, 1)
        self._lane.failed((one,), error)
        self._lane.go_on()

    def _gone(self, number: int, run: _Run, count: int) -> None:
        self.messages -= count
        run.left -= count
        if not run.left:
            del self._runs[number]


class _Run:
    """Messages that left together; None in the place of those that have their answer."""

    __slots__ = ("connection", "left", "units")

    def __init__(self, units: Sequence[Pending], connection: RpcConnection) -> None:
        self.units: list[Pending | None] = list(units)
        self.connection = connection
        self.left = len(units)
