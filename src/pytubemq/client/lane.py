"""One producer's messages for one Broker: grouped, sent, answered, sent again.

The invariants: messages leave in the order they came, and those that have to be sent again leave before newer ones;
each batch says how many refusals have been seen, so that a Broker of ours takes none that left before a refusal was
known (see `docs/design/protocol.md`, the order of batches under way); a message whose future was cancelled is not sent
any more; every message ends with a receipt or an error by its deadline.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from pytubemq.client.answers import Outcome, read_answer
from pytubemq.client.bunch import one_by_one
from pytubemq.client.departure import may_fly
from pytubemq.client.events import Connected, Lost
from pytubemq.client.flight import Flight, Pack, make_packs
from pytubemq.client.pending import is_uncertain, unexpected
from pytubemq.client.refusals import Refusals
from pytubemq.client.request_writer import RequestWriter
from pytubemq.client.singles import Singles
from pytubemq.client.unit_queue import UnitQueue
from pytubemq.core.retry import Backoff
from pytubemq.errors import (
    Code,
    RequestTimeoutError,
    TubeError,
)
from pytubemq.model.limits import MAX_PACKS
from pytubemq.observe.story import MESSAGE
from pytubemq.wire.extensions import COUNTED_REFUSALS, EARLIER_BATCH_REFUSED, Capability
from pytubemq.wire.methods import Method, Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytubemq.client.lane_owner import LaneOwner
    from pytubemq.client.pending import Unit
    from pytubemq.model.ids import Address
    from pytubemq.net.connection import RpcConnection
    from pytubemq.wire.rpc import Response

EAGER_SINGLES = 128
"""So many single messages leave at once instead of at the end of the loop turn: the Broker starts on them meanwhile."""
RETRY = Backoff(first_s=0.02, most_s=1.0)
RECONNECT = Backoff(first_s=0.02, most_s=0.5)


class Lane:
    """The way to one Broker."""

    def __init__(self, owner: LaneOwner, broker_id: int) -> None:
        self.broker_id = broker_id
        self.batches = 0
        """Requests so far."""
        self.packs = False
        """Whether the Broker takes packs, as far as it has told."""
        self.drops_repeats: bool | None = None
        """Whether the Broker knows a repeat by its number; None until it has told."""
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._queue = UnitQueue(self._loop)
        self._writer = RequestWriter(owner)
        self._connection: RpcConnection | None = None
        self._learned: RpcConnection | None = None
        """Whose answers have told what the Broker understands."""
        self._connecting: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._scheduled = False
        self._failures = 0
        self._again: list[Unit] = []
        self._pause: asyncio.TimerHandle | None = None
        self._lost = False
        self._flying: dict[int, Flight] = {}
        """By the number they left with."""
        self._refusals = Refusals()
        """Batches of this connection that were not taken for now."""
        self._awaited_s: float | None = None
        """Since when nothing came from the Broker though a response is due, or a connection."""
        self._abandoned = False
        self._singles = Singles(self, owner, self._queue, self._writer)
        self._alone = False
        """Whether each message leaves in a request of its own, as far as the Broker has told."""
        self.gathers = False
        """Whether messages that may go anywhere go to one partition for a while: it is known that the Broker is one to
        which this matters."""

    def put(self, unit: Unit) -> None:
        """Queue a message; it leaves at the end of this loop turn, or after the linger time."""
        queue = self._queue
        if not self._scheduled:
            self.expect()
            queue.append(unit)
            return
        queue.append(unit)
        if self._alone and queue.messages >= EAGER_SINGLES:
            self._send_eagerly()

    def expect(self) -> None:
        """See to what is queued, and to what its producer hands over until then, when it is time for it to leave."""
        if self._scheduled:
            return
        self._scheduled = True
        if self._awaited_s is not None and not self._owes:
            self._awaited_s = None  # the Broker never responded to messages that have ended since
        linger_s = self._owner.linger_s
        if linger_s > 0:
            self._loop.call_later(linger_s, self._pump)
        else:
            self._loop.call_soon(self._pump)

    def take_in(self, unit: Unit) -> None:
        """Queue a message that was expected; it leaves with what is queued."""
        self._queue.append(unit)

    @property
    def awaited_since_s(self) -> float | None:
        """Since when the Broker has owed a response, or a connection; None if it owes nothing.

        Messages that are sent again after a time-out do not begin a new wait: the Broker has still not responded.
        """
        return self._awaited_s if self._owes else None

    def kick(self) -> None:
        """Something has changed for the better: try now what was waiting for a later try."""
        self._wake.set()
        if self._pause is not None and not self._in_air:
            self._pause.cancel()
            self._resume()

    def expire(self, now_s: float) -> list[Unit]:
        """Take out of the queue what is past its deadline, and what was cancelled."""
        return self.take_all(lambda unit: unit.deadline_s <= now_s or unit.unwanted)

    def take_movable(self, wanted: Callable[[Unit], bool] = lambda _: True) -> list[Unit]:
        """Take those out of the queue that may go elsewhere, as far as `wanted`: of the others this Broker may have a
        part."""
        return self.take_all(lambda unit: unit.may_move and not self.keeps(unit) and wanted(unit))

    def keeps(self, unit: Unit) -> bool:
        """Whether only its partition knows whether this is a repeat."""
        return unit.uncertain and unit.sequence is not None and self.drops_repeats is not False

    def take_all(self, wanted: Callable[[Unit], bool]) -> list[Unit]:
        """Take those out of the queue that `wanted` says, in order; what is on its way stays."""
        return self._queue.take_all(wanted)

    def abandon(self) -> list[Unit]:
        """Stop; returns everything that has no result yet, also what is on its way."""
        self._abandoned = True
        if self._pause is not None:
            self._pause.cancel()
        flying = [one for flight in self._flying.values() for one in flight.units]
        left = [*self._again, *flying, *self._singles.abandon(), *self._queue.clear()]
        self._again, self._flying = [], {}
        return left

    # --- sending --------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        self._owner.hand_over()
        self._scheduled = False
        if self._pause is not None or self._again or not self._queue:
            return  # after a failure everything waits, so that what failed goes first
        connection = self._connection
        if connection is None or connection.closed:
            self._connect()
        elif not connection.answered:
            # What a fresh connection understands is only known from its first answer.
            self._pump_first(connection)
        else:
            self._learn(connection)
            if self.packs:
                self._pump_packs(connection)
            elif self._owner.batching and Capability.BATCH_SEND in connection.capabilities:
                self._pump_batches(connection)
            else:
                self._pump_singles(connection)
        self._await_response()

    def _await_response(self) -> None:
        """Begin to wait, unless that is so already."""
        if self._awaited_s is None:
            self._awaited_s = self._loop.time()

    def _send_eagerly(self) -> None:
        """Not later than at the end of the loop turn."""
        connection = self._connection
        waits = self._pause is not None or self._again or self._owner.linger_s > 0
        if not waits and connection is not None and not connection.closed and connection is self._learned:
            self._pump_singles(connection)
            connection.flush()
            self._await_response()

    def _learn(self, connection: RpcConnection) -> None:
        """What the Broker understands is known."""
        if connection is self._learned:
            return
        self._learned = connection
        can = connection.capabilities
        self.packs = self._owner.batching and Capability.PACKS in can
        self.drops_repeats = Capability.IDEMPOTENT in can
        self._alone = not self.packs and not (self._owner.batching and Capability.BATCH_SEND in can)
        self.gathers = self.packs or (self._alone and self.drops_repeats)

    @property
    def _in_air(self) -> bool:
        """Whether anything is on its way."""
        return bool(self._flying) or self._singles.messages > 0

    @property
    def _owes(self) -> bool:
        """True if the Broker has anything to respond to, now or when it can be reached."""
        return self._in_air or bool(self._queue) or bool(self._again)

    def _may_fly(self) -> bool:
        """Whether another request with many messages may leave now."""
        return may_fly(self._flying.values(), self._queue, unsure=self._refusals.unsure)

    def _pump_packs(self, connection: RpcConnection) -> None:
        while self._queue and self._may_fly():
            units, dropped = self._queue.take_for_packs()
            self._drop(dropped)
            packs = make_packs(units, self._owner.numbers)
            for start in range(0, len(packs), MAX_PACKS):
                self._fly_packs(connection, packs[start : start + MAX_PACKS])
        if not self._queue:
            self._owner.drained()

    def _fly_packs(self, connection: RpcConnection, packs: list[Pack]) -> None:
        asked = self._refusals.asks
        body = self._writer.packs(packs, numbered=bool(self.drops_repeats), refusals_seen=self._refusals.seen)
        units: Sequence[Unit] = packs[0].units if len(packs) == 1 else [one for pack in packs for one in pack.units]
        self._fly(Method.SEND_PACKS_P2B, body, Flight(units, connection, counted=True, asked=asked, packs=packs))

    def _pump_batches(self, connection: RpcConnection) -> None:
        owner = self._owner
        while self._queue and self._may_fly():
            batch, dropped = self._queue.take_for_batch()
            self._drop(dropped)
            if not batch:
                return
            if self.drops_repeats:
                for one in batch:
                    owner.numbers.give(one.partition, (one,))
            body = self._writer.batch(batch, numbered=bool(self.drops_repeats), refusals_seen=self._refusals.seen)
            flight = Flight(batch, connection, counted=True, asked=self._refusals.asks, packs=[])
            self._fly(Method.SEND_BATCH_P2B, body, flight)

    def _pump_singles(self, connection: RpcConnection) -> None:
        numbered = self._owner.numbers.producer_id is not None and self.drops_repeats is not False
        self.batches += self._singles.send(connection, self._loop.time(), numbered=numbered)

    def _pump_first(self, connection: RpcConnection) -> None:
        """One message, by whose answer the Broker tells what it understands. It is numbered: a Broker may be one that
        drops repeats, and to others the number means nothing."""
        numbers, queue = self._owner.numbers, self._queue
        while queue and not self._in_air:
            one = queue.take_one()
            if one.future.done():
                self._owner.settled(1, one.size_bytes)
                continue
            numbers.give(one.partition, (one,))
            body = self._writer.single(one, numbered=numbers.producer_id is not None)
            self._fly(Method.SEND_MESSAGE_P2B, body, Flight((one,), connection, False, False, []))

    def _drop(self, units: Iterable[Unit]) -> None:
        """Nobody waits for these any more, and they have not left."""
        for unit in units:
            self._owner.settled(unit.count, unit.size_bytes)

    def _fly(self, method: Method, body: bytes | Sequence[bytes], flight: Flight) -> None:
        self.batches += 1
        left_s = flight.units[0].deadline_s - self._loop.time()
        number = self.batches
        flight.connection.ask(
            method,
            Service.BROKER_WRITE,
            body,
            timeout_s=min(self._owner.request_timeout_s, max(left_s, 0.05)),
            done=partial(self._landed, number),
        )
        self._flying[number] = flight
        if MESSAGE.on:
            _tell(method, flight.units)

    # --- answers --------------------------------------------------------------------------------------------

    def _landed(self, number: int, answer: Response | TubeError) -> None:
        flight = self._flying.pop(number, None)
        if flight is None or self._abandoned:
            return
        if isinstance(answer, TubeError):
            if isinstance(answer, RequestTimeoutError) and self._counts(flight):
                self._refusals.unanswered()
            self.failed(flight.units, answer)
        else:
            if flight.connection is not self._learned and flight.connection.answered:
                self._learn(flight.connection)
            try:
                outcome = read_answer(flight, answer)
                self._count(flight, outcome)
                self.took(outcome)
            except Exception as problem:
                unreadable = problem if isinstance(problem, TubeError) else unexpected(problem)
                self.failed(flight.units, unreadable)
        self.go_on()

    def go_on(self) -> None:
        """An answer was seen to: what has failed waits for all others, then goes before what is queued."""
        if self._abandoned:
            return
        if self._again:
            if not self._in_air:
                self._back_off()
        elif self._queue:
            self._pump()

    def _counts(self, flight: Flight) -> bool:
        """Whether the Broker counts this one's refusal for the connection that we send on now."""
        return flight.counted and flight.connection is self._connection

    def _count(self, flight: Flight, outcome: Outcome) -> None:
        if not self._counts(flight):
            return
        codes, code = outcome.codes, outcome.code
        if Code.SUCCESS in (codes or (code,)):
            self._refusals.taken(asked=flight.asked)
        if code in COUNTED_REFUSALS or not COUNTED_REFUSALS.isdisjoint(codes):
            self._refusals.refused(asked=flight.asked, behind=outcome.text.startswith(EARLIER_BATCH_REFUSED))

    def took(self, outcome: Outcome) -> None:
        """The Broker has said this of some messages."""
        self._awaited_s = self._loop.time() if self._in_air else None
        if outcome.taken:
            if not self._again:
                self._failures = 0
            if self._lost:
                self._lost = False
                self._owner.cluster.emit(Connected(self._owner.client_id, self._peer()))
            self._owner.broker_answered(self)
            self._owner.settled(outcome.taken, outcome.bytes_taken, delivered=True)
        if outcome.refused:
            for error, group in groupby(outcome.refused, itemgetter(1)):
                self.failed([unit for unit, _ in group], error)

    # --- failures -------------------------------------------------------------------------------------------

    def failed(self, units: Sequence[Unit], error: TubeError) -> None:
        """These had no answer, or one that cannot be understood."""
        uncertain = is_uncertain(error)
        again = False
        for unit in one_by_one(units):
            unit.tries += 1
            unit.cause = error
            unit.uncertain = unit.uncertain or uncertain
            if unit.unwanted or not self._owner.refused(unit, error):
                self._owner.settled(unit.count, unit.size_bytes)
            else:
                again = True
                self._again.append(unit)
        if again and not self._lost:
            self._lost = True
            self._owner.cluster.emit(Lost(self._owner.client_id, error, self._peer()))

    def _back_off(self) -> None:
        """All flights have landed: put what failed back in front, in order, and wait a little."""
        self._again.sort(key=lambda unit: unit.order)
        self._queue.put_back(self._again)
        cause = self._again[0].cause
        self._again = []
        self._failures += 1
        if isinstance(cause, TubeError):
            self._owner.broker_failed(self, cause)
        if not self._queue:
            return
        if self._connection is not None and self._connection.closed:
            self._connect()  # which has its own pauses
        elif self._pause is None:
            self._pause = self._loop.call_later(RETRY.delay_s(self._failures, self._owner.cluster.rng), self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._pump()

    def _connect(self) -> None:
        if self._connecting is None or self._connecting.done():
            self._connecting = self._owner.tasks.spawn(self._reconnect(), name=f"lane-{self.broker_id}")

    async def _reconnect(self) -> None:
        attempt = 0
        while self._queue:
            try:
                address = self._owner.cluster.address_of(self.broker_id)
                connection = await self._owner.cluster.pool.get(address)
                if connection is not self._connection:
                    self._connection, self._refusals = connection, Refusals()
                break
            except TubeError as error:
                attempt += 1
                self._note_unreachable(error)
                self._wake.clear()
                await self._sleep(RECONNECT.delay_s(attempt, self._owner.cluster.rng))
        self._connecting = None
        self._pump()

    def _note_unreachable(self, error: TubeError) -> None:
        for unit in self._queue:
            unit.cause = error
        if not self._lost:
            self._lost = True
            self._owner.cluster.emit(Lost(self._owner.client_id, error, self._peer()))
        self._owner.broker_failed(self, error)

    async def _sleep(self, pause_s: float) -> None:
        timer = self._loop.call_later(pause_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _peer(self) -> Address | None:
        return self._owner.cluster.brokers.get(self.broker_id)


def _tell(method: Method, units: Sequence[Unit]) -> None:
    for partition, group in groupby(units, attrgetter("partition")):
        MESSAGE.tell(
            "sent", topic=partition.topic, partition=partition.partition_id, broker=partition.broker_id,
            messages=sum(unit.count for unit in group), method=method.name,
        )  # fmt: skip
