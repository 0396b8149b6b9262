"""Messages that leave each in a request of its own, many at a time.

The invariants: they leave in the order they are in the queue, at most `MAX_PLAIN_FLIGHTS` are on their way, and each is
answered for by itself: the Broker may take one and refuse the next.
"""

from __future__ import annotations

from functools import partial
from itertools import compress, groupby, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, cast

from pytubemq.client.answers import Outcome, read_answer
from pytubemq.client.bunch import Bunch
from pytubemq.client.flight import Flight
from pytubemq.client.pending import unexpected
from pytubemq.errors import Code, TubeError
from pytubemq.model.message import Receipt
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.observe.story import MESSAGE
from pytubemq.wire.direct import decode_taken
from pytubemq.wire.methods import Method
from pytubemq.wire.response_run import ResponseRun
from pytubemq.wire.taken_run import Taken, read_taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytubemq.client.lane_owner import LaneOwner
    from pytubemq.client.pending import Pending, Unit
    from pytubemq.client.request_writer import RequestWriter
    from pytubemq.client.unit_queue import UnitQueue
    from pytubemq.model.ids import Partition
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
        self._runs: dict[int, _Run | _BunchRun] = {}

    def send(self, connection: RpcConnection, now_s: float, *, numbered: bool) -> int:
        """Send what is queued, as far as there is room on the way; returns how many left."""
        owner, queue, left = self._owner, self._queue, 0
        while queue and self.messages < MAX_PLAIN_FLIGHTS:
            taken, dropped = queue.take_singles(MAX_PLAIN_FLIGHTS - self.messages)
            for one in dropped:
                owner.settled(1, one.size_bytes)
            for kind, group in groupby(taken, type):
                if kind is Bunch:
                    for bunch in cast("Iterator[Bunch]", group):
                        left += bunch.count
                        self._send_bunch(connection, bunch, now_s, numbered=numbered)
                else:
                    messages = cast("list[Pending]", list(group))
                    left += len(messages)
                    self._send_messages(connection, messages, now_s, numbered=numbered)
        return left

    def abandon(self) -> list[Unit]:
        """Forget them; returns those without an answer."""
        left: list[Unit] = [one for run in self._runs.values() for one in run.unanswered()]
        self._runs = {}
        self.messages = 0
        return left

    def _send_bunch(self, connection: RpcConnection, bunch: Bunch, now_s: float, *, numbered: bool) -> None:
        if numbered:
            self._owner.numbers.give(bunch.partition, (bunch,))
        timeout_s = self._timeout_s(bunch.deadline_s, now_s)
        writer = self._writer.run(numbered=numbered, timeout_s=timeout_s, block_bytes=connection.block_bytes)
        write = partial(
            writer.encode_plain,
            partition_id=bunch.partition.partition_id,
            payloads=bunch.payloads,
            sequence=bunch.sequence if numbered else None,
        )
        self._fly(connection, _BunchRun(bunch, connection), write, timeout_s)

    def _send_messages(
        self, connection: RpcConnection, messages: list[Pending], now_s: float, *, numbered: bool
    ) -> None:
        if numbered:
            self._owner.numbers.give_each(messages)
        soonest_s = min(map(_deadline_of, messages))
        alike = soonest_s - now_s >= self._owner.request_timeout_s
        groups = [(soonest_s, iter(messages))] if alike else groupby(messages, _deadline_of)
        for deadline_s, group in groups:
            timeout_s = self._timeout_s(deadline_s, now_s)
            units = list(group)
            writer = self._writer.run(numbered=numbered, timeout_s=timeout_s, block_bytes=connection.block_bytes)
            self._fly(connection, _Run(units, connection), partial(writer.encode, messages=tuple(units)), timeout_s)

    def _timeout_s(self, deadline_s: float, now_s: float) -> float:
        return min(self._owner.request_timeout_s, max(deadline_s - now_s, _LEAST_TIMEOUT_S))

    def _fly(
        self, connection: RpcConnection, run: _Run | _BunchRun, write: Callable[[int], list[bytes]], timeout_s: float
    ) -> None:
        self._number = number = self._number + 1
        self._runs[number] = run
        self.messages += run.left
        connection.ask_run(
            Method.SEND_MESSAGE_P2B,
            run.left,
            write,
            timeout_s=timeout_s,
            landed=partial(self._landed, number),
            failed=partial(self._failed, number),
        )
        if MESSAGE.on:
            for partition, group in groupby(run.partitions()):
                MESSAGE.tell(
                    "sent", topic=partition.topic, partition=partition.partition_id, broker=partition.broker_id,
                    messages=len(list(group)), method=Method.SEND_MESSAGE_P2B.name,
                )  # fmt: skip

    def _landed(self, number: int, first: int, answers: Sequence[Response]) -> None:
        """Some have their answers; the usual ones take a shorter way, and are counted together."""
        run = self._runs.get(number)
        if run is None:
            return
        good: list[tuple[int, Taken]] = []
        others: list[tuple[Pending, Response]] = []
        before = run.left
        outcome = Outcome(set(), Code.SUCCESS, "")
        if isinstance(answers, ResponseRun) and isinstance(run, _BunchRun):
            at = answers.serial - first
            for taken in read_taken(answers):
                if not run.holds(at, taken.messages):
                    break
                good.append((at, taken))
                at += taken.messages
                outcome.bytes_taken += run.take(at - taken.messages, taken.messages)
                outcome.taken += taken.messages
            answers = answers.part(at - answers.serial + first, len(answers))
        for answer in answers:
            at = answer[0] - first
            if not run.holds(at, 1):
                continue
            try:
                said = decode_taken(answer.body)
            except TubeError:
                said = None
            if said is None:
                others.append((run.message(at), answer))
                run.take(at, 1)
                continue
            outcome.bytes_taken += run.take(at, 1)
            outcome.taken += 1
            good.append((at, tuple.__new__(Taken, (1, *said))))
        self._gone(number, run, before - run.left)
        if good:
            self._lane.took(outcome)  # before anybody hears of a receipt, so that the counts are right
            for at, taken in good:
                run.tell(at, taken)
        for one, answer in others:
            try:
                self._lane.took(read_answer(Flight((one,), run.connection, False, False, []), answer))
            except Exception as problem:
                self._lane.failed((one,), problem if isinstance(problem, TubeError) else unexpected(problem))
        self._lane.go_on()

    def _failed(self, number: int, at: int, error: TubeError) -> None:
        run = self._runs.get(number)
        if run is None or not run.holds(at, 1):
            return
        one = run.message(at)
        run.take(at, 1)
        self._gone(number, run, 1)
        self._lane.failed((one,), error)
        self._lane.go_on()

    def _gone(self, number: int, run: _Run | _BunchRun, count: int) -> None:
        self.messages -= count
        if not run.left:
            del self._runs[number]


class _Run:
    """Messages that left together."""

    __slots__ = ("_here", "_units", "connection", "left")

    def __init__(self, units: list[Pending], connection: RpcConnection) -> None:
        self._units = units
        self._here = bytearray(b"\1" * len(units))
        """Those without an answer yet."""
        self.connection = connection
        self.left = len(units)

    def holds(self, at: int, count: int) -> bool:
        """Whether none of these messages has its answer."""
        return self._here.count(1, at, at + count) == count

    def take(self, at: int, count: int) -> int:
        """These have theirs; how many bytes they are."""
        self._here[at : at + count] = bytes(count)
        self.left -= count
        return sum(one.size_bytes for one in self._units[at : at + count])

    def message(self, at: int) -> Pending:
        """One of them."""
        return self._units[at]

    def tell(self, at: int, taken: Taken) -> None:
        """It has been taken."""
        _, message_id, offset, time_ms = taken
        one = self._units[at]
        if not one.future.done():
            one.future.set_result(tuple.__new__(Receipt, (one.partition, message_id, offset, time_ms, False)))

    def partitions(self) -> Iterator[Partition]:
        """Where they go."""
        return (one.partition for one in self._units)

    def unanswered(self) -> Iterator[Pending]:
        """Those without an answer."""
        return compress(self._units, self._here)


class _BunchRun:
    """The same for a bunch."""

    __slots__ = ("_bunch", "_here", "connection", "left")

    def __init__(self, bunch: Bunch, connection: RpcConnection) -> None:
        self._bunch = bunch
        self.left = bunch.count
        self._here = bytearray(b"\1" * self.left)
        self.connection = connection

    def holds(self, at: int, count: int) -> bool:
        """Whether none of these messages has its answer."""
        return self._here.count(1, at, at + count) == count

    def take(self, at: int, count: int) -> int:
        """These have theirs; how many bytes they are."""
        self._here[at : at + count] = bytes(count)
        self.left -= count
        return self._bunch.bytes_between(at, at + count)

    def message(self, at: int) -> Pending:
        """One of them."""
        return self._bunch.message(at)

    def tell(self, at: int, taken: Taken) -> None:
        """They have been taken, one after the other."""
        count, message_id, offset, time_ms = taken
        self._bunch.took(
            range(message_id, message_id + count),
            range(offset, offset + count * OFFSET_UNIT, OFFSET_UNIT),
            time_ms,
            start=at,
            stop=at + count,
        )

    def partitions(self) -> Iterator[Partition]:
        """Where they go."""
        return repeat(self._bunch.partition, self._bunch.count)

    def unanswered(self) -> Iterator[Pending]:
        """Those without an answer."""
        return (self._bunch.message(at) for at, here in enumerate(self._here) if here)
