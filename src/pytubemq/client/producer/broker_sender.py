"""The sender of one producer's messages to one Broker: it batches them, sends them and retries.

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

from pytubemq.client.producer.in_flight import InFlightRequest, OutgoingBatch, make_batches
from pytubemq.client.producer.in_flight_window import RefusalCount, may_send
from pytubemq.client.producer.messages.delivery_errors import is_uncertain, unexpected_error
from pytubemq.client.producer.messages.send_unit import split_plain_batches
from pytubemq.client.producer.request_writer import RequestWriter
from pytubemq.client.producer.send_queue import SendQueue
from pytubemq.client.producer.send_results import SendResults, read_results
from pytubemq.client.producer.sequence_numbers import SequenceNumbers
from pytubemq.client.producer.single_sender import SingleSender
from pytubemq.client.session.events import Connected, Lost
from pytubemq.core.retry import Backoff
from pytubemq.errors import (
    Code,
    RequestTimeoutError,
    TubeError,
)
from pytubemq.model.limits import MAX_PACKS
from pytubemq.observe.story import MESSAGE
from pytubemq.wire.protocol.extensions import COUNTED_REFUSALS, EARLIER_BATCH_REFUSED, Capability
from pytubemq.wire.rpc.methods import Method, Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytubemq.client.producer.messages.send_unit import SendUnit
    from pytubemq.client.producer.sender_owner import SenderOwner
    from pytubemq.model.ids import Address
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.wire.rpc.envelope import Response

EAGER_SINGLES = 128
"""Number of single messages that are sent at once, not at the end of the loop turn, so the Broker starts on them
sooner."""
RETRY = Backoff(first_s=0.02, most_s=1.0)
RECONNECT = Backoff(first_s=0.02, most_s=0.5)


class BrokerSender:
    """A producer's sender to one Broker."""

    def __init__(self, owner: SenderOwner, broker_id: int) -> None:
        self.broker_id = broker_id
        self.requests = 0
        """Number of requests sent."""
        self.takes_batches = False
        """True if the Broker takes record batches, according to its last response."""
        self.drops_duplicates: bool | None = None
        """True if the Broker detects duplicates by their sequence numbers; None until its first response."""
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._queue = SendQueue(self._loop)
        self._numbers = SequenceNumbers(owner.producer_ids)
        self._writer = RequestWriter(owner, self._numbers)
        self._connection: RpcConnection | None = None
        self._learned: RpcConnection | None = None
        """The connection whose capabilities are in use."""
        self._connecting: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._scheduled = False
        self._failures = 0
        self._retries: list[SendUnit] = []
        self._pause: asyncio.TimerHandle | None = None
        self._lost = False
        self._in_flight: dict[int, InFlightRequest] = {}
        """Requests without a response, by the number each was sent as."""
        self._refusals = RefusalCount()
        """Batches on this connection that the Broker refused for now."""
        self._awaited_s: float | None = None
        """Since when a response or a connection has been due without anything from the Broker."""
        self._abandoned = False
        self._singles = SingleSender(self, owner, self._queue, self._writer, self._numbers)
        self._sends_singly = False
        """True if each message is sent in a request of its own."""
        self.gathers = False
        """True if messages that may go to any partition are gathered for one partition at a time, because this Broker
        profits from it."""

    def put(self, unit: SendUnit) -> None:
        """Queue a unit. It is sent at the end of this loop turn, or after the linger time."""
        queue = self._queue
        if not self._scheduled:
            self.schedule()
            queue.append(unit)
            return
        queue.append(unit)
        if self._sends_singly and queue.messages >= EAGER_SINGLES:
            self._send_eagerly()

    def schedule(self) -> None:
        """Schedule a flush of the queue, with what its producer adds until then."""
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

    def append(self, unit: SendUnit) -> None:
        """Queue a unit for a flush that is already scheduled."""
        self._queue.append(unit)

    @property
    def awaited_since_s(self) -> float | None:
        """Return since when the Broker has owed a response or a connection; None if it owes nothing.

        Messages that are retried after a timeout do not begin a new wait: the Broker has still not responded.
        """
        return self._awaited_s if self._owes else None

    def retry_now(self) -> None:
        """End the backoff and retry now, because something has changed for the better."""
        self._wake.set()
        if self._pause is not None and not self._has_in_flight:
            self._pause.cancel()
            self._resume()

    def expire(self, now_s: float) -> list[SendUnit]:
        """Remove and return the queued units that are past their deadline or cancelled."""
        return self.take_all(lambda unit: unit.deadline_s <= now_s or unit.unwanted)

    def take_movable(self, wanted: Callable[[SendUnit], bool] = lambda _: True) -> list[SendUnit]:
        """Remove and return the queued units that `wanted` selects and that may go elsewhere: this Broker may have part
        of the others."""
        return self.take_all(lambda unit: unit.may_move and not self.keeps(unit) and wanted(unit))

    def keeps(self, unit: SendUnit) -> bool:
        """True if only its partition can tell whether this is a duplicate."""
        return unit.uncertain and unit.sequence is not None and self.drops_duplicates is not False

    def take_all(self, wanted: Callable[[SendUnit], bool]) -> list[SendUnit]:
        """Remove and return the queued units that `wanted` selects, in order; those in flight stay."""
        return self._queue.take_all(wanted)

    def abandon(self) -> list[SendUnit]:
        """Stop, and return every unit without a result, in flight or not."""
        self._abandoned = True
        if self._pause is not None:
            self._pause.cancel()
        in_flight = [one for request in self._in_flight.values() for one in request.units]
        left = [*self._retries, *in_flight, *self._singles.abandon(), *self._queue.clear()]
        self._retries, self._in_flight = [], {}
        return left

    # --- sending --------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        self._owner.queue_gathered()
        self._scheduled = False
        if self._pause is not None or self._retries or not self._queue:
            return  # after a failure everything waits, so that what failed goes first
        if self._numbers.given_up:
            if self._has_in_flight:
                return  # each of these is answered for on its own, before the others get other numbers
            self._numbers.renew(self._queue)
        connection = self._connection
        if connection is None or connection.closed:
            self._connect()
        elif not connection.answered:
            # What a fresh connection understands is only known from its first answer.
            self._pump_first(connection)
        else:
            self._learn(connection)
            if self.takes_batches:
                self._pump_batches(connection)
            elif self._owner.batching and Capability.BATCH_SEND in connection.capabilities:
                self._pump_send_batches(connection)
            else:
                self._pump_singles(connection)
        self._await_response()

    def _await_response(self) -> None:
        """Begin to wait for a response, unless one is awaited already."""
        if self._awaited_s is None:
            self._awaited_s = self._loop.time()

    def _send_eagerly(self) -> None:
        """Send single messages now instead of at the end of the loop turn."""
        connection = self._connection
        waits = self._pause is not None or self._retries or self._numbers.given_up or self._owner.linger_s > 0
        if not waits and connection is not None and not connection.closed and connection is self._learned:
            self._pump_singles(connection)
            connection.flush()
            self._await_response()

    def _learn(self, connection: RpcConnection) -> None:
        """Learn the Broker's capabilities from a connection that has received a response."""
        if connection is self._learned:
            return
        self._learned = connection
        can = connection.capabilities
        self.takes_batches = self._owner.batching and Capability.PACKS in can
        self.drops_duplicates = Capability.IDEMPOTENT in can
        self._sends_singly = not self.takes_batches and not (self._owner.batching and Capability.BATCH_SEND in can)
        self.gathers = self.takes_batches or (self._sends_singly and self.drops_duplicates)

    @property
    def _has_in_flight(self) -> bool:
        """True if anything is in flight."""
        return bool(self._in_flight) or self._singles.messages > 0

    @property
    def _owes(self) -> bool:
        """True if the Broker has anything to respond to, now or when it can be reached."""
        return self._has_in_flight or bool(self._queue) or bool(self._retries)

    def _may_send(self) -> bool:
        """True if another request with many messages may be sent now."""
        return may_send(self._in_flight.values(), self._queue, unsure=self._refusals.unsure)

    def _pump_batches(self, connection: RpcConnection) -> None:
        while self._queue and self._may_send():
            units, dropped = self._queue.take_for_batches()
            self._drop(dropped)
            batches = make_batches(units, self._numbers)
            for start in range(0, len(batches), MAX_PACKS):
                self._send_batches(connection, batches[start : start + MAX_PACKS])
        if not self._queue:
            self._owner.end_gathering()

    def _send_batches(self, connection: RpcConnection, batches: list[OutgoingBatch]) -> None:
        is_probe = self._refusals.probes
        body = self._writer.write_batches(
            batches, numbered=bool(self.drops_duplicates), refusals_seen=self._refusals.seen
        )
        units: Sequence[SendUnit] = (
            batches[0].units if len(batches) == 1 else [one for batch in batches for one in batch.units]
        )
        self._send(
            Method.SEND_PACKS_P2B,
            body,
            InFlightRequest(units, connection, counts_refusal=True, is_probe=is_probe, batches=batches),
        )

    def _pump_send_batches(self, connection: RpcConnection) -> None:
        while self._queue and self._may_send():
            batch, dropped = self._queue.take_for_send_batch()
            self._drop(dropped)
            if not batch:
                return
            if self.drops_duplicates:
                for one in batch:
                    self._numbers.assign(one.partition, (one,))
            body = self._writer.write_send_batch(
                batch, numbered=bool(self.drops_duplicates), refusals_seen=self._refusals.seen
            )
            request = InFlightRequest(
                batch, connection, counts_refusal=True, is_probe=self._refusals.probes, batches=[]
            )
            self._send(Method.SEND_BATCH_P2B, body, request)

    def _pump_singles(self, connection: RpcConnection) -> None:
        numbered = self._numbers.producer_id is not None and self.drops_duplicates is not False
        self.requests += self._singles.send(connection, self._loop.time(), numbered=numbered)

    def _pump_first(self, connection: RpcConnection) -> None:
        """Send one message; the response tells the Broker's capabilities.

        The message has a sequence number, since the Broker may be one that drops duplicates; to others the number means
        nothing. Such a response does not report a duplicate, so a message that was never sent before is sent under a
        new producer id.
        """
        numbers, queue = self._numbers, self._queue
        while queue and not self._has_in_flight:
            one = queue.take_one()
            if one.future.done():
                self._owner.record_settled(1, one.size_bytes)
                continue
            if one.sequence is None and all(unit.sequence is None for unit in queue):
                numbers.renew()
            numbers.assign(one.partition, (one,))
            body = self._writer.write_single(one, numbered=numbers.producer_id is not None)
            self._send(Method.SEND_MESSAGE_P2B, body, InFlightRequest((one,), connection, False, False, []))

    def _drop(self, units: Iterable[SendUnit]) -> None:
        """Drop units that nobody waits for and that were not sent."""
        for unit in units:
            self._owner.record_settled(unit.count, unit.size_bytes)

    def _send(self, method: Method, body: bytes | Sequence[bytes], request: InFlightRequest) -> None:
        self.requests += 1
        left_s = request.units[0].deadline_s - self._loop.time()
        number = self.requests
        request.connection.ask(
            method,
            Service.BROKER_WRITE,
            body,
            timeout_s=min(self._owner.request_timeout_s, max(left_s, 0.05)),
            done=partial(self._handle_response, number),
        )
        self._in_flight[number] = request
        if MESSAGE.on:
            _trace_sent(method, request.units)

    # --- answers --------------------------------------------------------------------------------------------

    def _handle_response(self, number: int, result: Response | TubeError) -> None:
        request = self._in_flight.pop(number, None)
        if request is None or self._abandoned:
            return
        if isinstance(result, TubeError):
            if isinstance(result, RequestTimeoutError) and self._counts_refusal(request):
                self._refusals.record_timeout()
            self.handle_failure(request.units, result)
        else:
            if request.connection is not self._learned and request.connection.answered:
                self._learn(request.connection)
            try:
                results = read_results(request, result, self._numbers)
                self._count_refusals(request, results)
                self.handle_results(results)
            except Exception as problem:
                unreadable = problem if isinstance(problem, TubeError) else unexpected_error(problem)
                self.handle_failure(request.units, unreadable)
        self.continue_sending()

    def continue_sending(self) -> None:
        """Go on after a response: what failed waits until nothing is in flight, then goes before what is queued."""
        if self._abandoned:
            return
        if self._retries:
            if not self._has_in_flight:
                self._back_off()
        elif self._queue:
            self._pump()

    def _counts_refusal(self, request: InFlightRequest) -> bool:
        """True if the Broker counts this request's refusal for the current connection."""
        return request.counts_refusal and request.connection is self._connection

    def _count_refusals(self, request: InFlightRequest, results: SendResults) -> None:
        if not self._counts_refusal(request):
            return
        codes, code = results.codes, results.code
        if Code.SUCCESS in (codes or (code,)):
            self._refusals.record_accepted(is_probe=request.is_probe)
        if code in COUNTED_REFUSALS or not COUNTED_REFUSALS.isdisjoint(codes):
            self._refusals.record_refused(
                is_probe=request.is_probe, behind=results.text.startswith(EARLIER_BATCH_REFUSED)
            )

    def handle_results(self, results: SendResults) -> None:
        """Settle messages according to a response of the Broker."""
        self._awaited_s = self._loop.time() if self._has_in_flight else None
        if results.accepted:
            if not self._retries:
                self._failures = 0
            if self._lost:
                self._lost = False
                self._owner.cluster.emit(Connected(self._owner.client_id, self._peer()))
            self._owner.record_broker_response(self.broker_id)
            self._owner.record_settled(results.accepted, results.bytes_accepted, delivered=True)
        if results.refused:
            for error, group in groupby(results.refused, itemgetter(1)):
                units = [unit for unit, _ in group]
                first = any(not unit.tries for unit in units)
                self.handle_failure(units, self._numbers.judge(error, first=first))

    # --- failures -------------------------------------------------------------------------------------------

    def handle_failure(self, units: Sequence[SendUnit], error: TubeError) -> None:
        """Retry or fail units that have no response, or one that cannot be read."""
        uncertain = is_uncertain(error)
        again = False
        for unit in split_plain_batches(units):
            unit.tries += 1
            unit.cause = error
            unit.uncertain = unit.uncertain or uncertain
            if unit.unwanted or not self._owner.decide_retry(unit, error):
                self._owner.record_settled(unit.count, unit.size_bytes)
            else:
                again = True
                self._retries.append(unit)
        if again and not self._lost:
            self._lost = True
            self._owner.cluster.emit(Lost(self._owner.client_id, error, self._peer()))

    def _back_off(self) -> None:
        """Put what failed back in front of the queue, in order, and pause. Nothing is in flight."""
        self._retries.sort(key=lambda unit: unit.order)
        self._queue.put_back(self._retries)
        cause = self._retries[0].cause
        self._retries = []
        self._failures += 1
        if isinstance(cause, TubeError):
            self._owner.record_broker_failure(self.broker_id, cause)
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
            self._connecting = self._owner.tasks.spawn(self._reconnect(), name=f"sender-{self.broker_id}")

    async def _reconnect(self) -> None:
        attempt = 0
        while self._queue:
            try:
                address = self._owner.cluster.address_of(self.broker_id)
                connection = await self._owner.cluster.pool.get(address)
                if connection is not self._connection:
                    self._connection, self._refusals = connection, RefusalCount()
                break
            except TubeError as error:
                attempt += 1
                self._record_unreachable(error)
                self._wake.clear()
                await self._sleep(RECONNECT.delay_s(attempt, self._owner.cluster.rng))
        self._connecting = None
        self._pump()

    def _record_unreachable(self, error: TubeError) -> None:
        for unit in self._queue:
            unit.cause = error
        if not self._lost:
            self._lost = True
            self._owner.cluster.emit(Lost(self._owner.client_id, error, self._peer()))
        self._owner.record_broker_failure(self.broker_id, error)

    async def _sleep(self, pause_s: float) -> None:
        timer = self._loop.call_later(pause_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _peer(self) -> Address | None:
        return self._owner.cluster.brokers.get(self.broker_id)


def _trace_sent(method: Method, units: Sequence[SendUnit]) -> None:
    for partition, group in groupby(units, attrgetter("partition")):
        MESSAGE.record(
            "sent", topic=partition.topic, partition=partition.partition_id, broker=partition.broker_id,
            messages=sum(unit.count for unit in group), method=method.name,
        )  # fmt: skip
