"""The sender of one producer's messages to one Broker: it sends record batches, in order, and keeps what has to be sent
again.

The invariants: messages leave in the order they came, and those that have to be sent again leave before newer ones;
each batch says how many refusals have been seen, so that a Broker of ours takes none that left before a refusal was
known (see `docs/design/protocol.md`, the order of batches under way); a message whose future was cancelled is not sent
any more. A sender does not decide how a message ends or where else it goes: it reports results, its producer decides.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from pytubemq.client.producer.broker_link import BrokerLink
from pytubemq.client.producer.in_flight_window import InFlightRequest, may_send
from pytubemq.client.producer.messages.delivery_errors import is_uncertain, unexpected_error
from pytubemq.client.producer.request_writer import RequestWriter
from pytubemq.client.producer.send_queue import SendQueue
from pytubemq.client.producer.send_results import SendResults, read_results
from pytubemq.client.producer.sequence_numbers import SequenceNumbers
from pytubemq.client.producer.single_sender import SingleSender
from pytubemq.core.retry import Backoff
from pytubemq.errors import Code, RequestTimeoutError, TubeError
from pytubemq.model.limits import MAX_RECORD_BATCHES
from pytubemq.observe.trace_events import MESSAGE
from pytubemq.wire.protocol.extensions import COUNTED_REFUSALS, EARLIER_BATCH_REFUSED
from pytubemq.wire.rpc.methods import Method, Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytubemq.client.producer.messages.record_batch import RecordBatch
    from pytubemq.client.producer.send_queue import DueBatches
    from pytubemq.client.producer.sender_context import SenderContext
    from pytubemq.model.ids import Partition
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.wire.rpc.envelope import Response

EAGER_SINGLES = 128
"""Number of single messages that are sent at once, not at the end of the loop turn, so the Broker starts on them
sooner."""
LEAST_TIMEOUT_S = 0.05
"""Timeout of a request whose messages are nearly past their deadline."""
RETRY = Backoff(first_s=0.02, most_s=1.0)
RECONNECT = Backoff(first_s=0.02, most_s=0.5)


class BrokerSender:
    """A producer's sender to one Broker."""

    def __init__(
        self,
        broker_id: int,
        context: SenderContext,
        on_results: Callable[[BrokerSender, SendResults | TubeError], None],
    ) -> None:
        """`on_results` gets the results of messages, or the error of a connection that cannot be made."""
        self.broker_id = broker_id
        self.requests = 0
        """Number of requests sent."""
        self.link = BrokerLink(broker_id, context.cluster, batching=context.batching)
        self._context = context
        self._on_results = on_results
        self._loop = asyncio.get_running_loop()
        self._queue = SendQueue()
        self._numbers = SequenceNumbers(context.producer_ids)
        self._writer = RequestWriter(context, self._numbers)
        self._singles = SingleSender(self._writer, self._numbers, self._report)
        self._in_flight: dict[int, InFlightRequest] = {}
        """Requests without a response, by the number each was sent as."""
        self._retries: list[RecordBatch] = []
        """Batches to send again when nothing is in flight."""
        self._failures = 0
        self._pause: asyncio.TimerHandle | None = None
        self._connecting: asyncio.Task[None] | None = None
        # Ends the pause before the next attempt to connect.
        self._wake = asyncio.Event()
        self._awaited_s: float | None = None
        """Since when a response or a connection has been due without anything from the Broker."""
        self._abandoned = False

    # --- the queue ------------------------------------------------------------------------------------------------

    def put(self, batch: RecordBatch) -> None:
        """Queue a batch for the next `flush`. Many single messages are sent at once."""
        if self._awaited_s is not None and not self._owes:
            self._awaited_s = None  # the Broker never responded to messages that have ended since
        self._queue.append(batch)
        # Batches gain by waiting for the end of the turn, single messages by leaving.
        if self.link.sends_singly and self._queue.messages >= EAGER_SINGLES:
            self._send_eagerly()

    @property
    def queued(self) -> int:
        """Number of messages that wait to be sent."""
        return self._queue.messages

    @property
    def awaited_since_s(self) -> float | None:
        """Return since when the Broker has owed a response or a connection; None if it owes nothing.

        Messages that are retried after a timeout do not begin a new wait: the Broker has still not responded.
        """
        return self._awaited_s if self._owes else None

    def expire(self, now_s: float) -> list[RecordBatch]:
        """Remove and return the queued batches that are past their deadline or cancelled."""
        return self._queue.take_all(lambda batch: batch.deadline_s <= now_s or batch.is_unwanted)

    def take_movable(self, wanted: Callable[[RecordBatch], bool] = lambda _: True) -> list[RecordBatch]:
        """Remove and return the queued batches that `wanted` selects and that may go to any partition; this Broker may
        have part of the others."""
        return self._queue.take_all(lambda batch: batch.may_move and not self._keeps(batch) and wanted(batch))

    def take_homeless(self, gone: frozenset[Partition]) -> list[RecordBatch]:
        """Remove and return the queued batches for partitions that are `gone`, but for those that must go there."""
        return self._queue.take_all(
            lambda batch: batch.partition in gone and batch.may_leave_topic_partition and not self._keeps(batch)
        )

    def _keeps(self, batch: RecordBatch) -> bool:
        """True if only its partition can decide if this is a duplicate."""
        # Unknown counts as yes: to send elsewhere what that Broker may have makes a duplicate.
        return batch.uncertain and batch.sequence is not None and self.link.drops_duplicates is not False

    def abandon(self) -> list[RecordBatch]:
        """Stop, and return every batch without a result, in flight or not."""
        self._abandoned = True
        if self._pause is not None:
            self._pause.cancel()
        in_flight = [batch for request in self._in_flight.values() for batch in request.batches]
        left = [*self._retries, *in_flight, *self._singles.abandon(), *self._queue.clear()]
        self._retries, self._in_flight = [], {}
        return left

    # --- retries --------------------------------------------------------------------------------------------------

    def retry(self, batches: Iterable[RecordBatch]) -> None:
        """Send batches again, when nothing is in flight and before what is queued."""
        self._retries += batches

    def requeue_failed(self) -> TubeError | None:
        """Put what failed back in front of the queue, in order, once nothing is in flight.

        Returns:
            The cause, after which `back_off` is to be called; None if there is nothing to put back now.
        """
        if self._abandoned or not self._retries or self._has_in_flight:
            return None
        # Requests fail in any order; what was submitted first has to leave first.
        self._retries.sort(key=attrgetter("order"))
        self._queue.put_back(self._retries)
        cause = self._retries[0].cause
        self._retries = []
        self._failures += 1
        return cause if isinstance(cause, TubeError) else unexpected_error(cause or RuntimeError("no cause"))

    def back_off(self) -> None:
        """Pause before what is queued is sent again."""
        if not self._queue:
            return
        if self.link.is_lost:
            self._connect()  # which has its own pauses
        elif self._pause is None:
            self._pause = self._loop.call_later(RETRY.delay_s(self._failures, self._context.cluster.rng), self._resume)

    def retry_now(self) -> None:
        """End the pause and retry now, because something has changed for the better."""
        self._wake.set()
        # Not while requests are in flight: what failed with them has to go first.
        if self._pause is not None and not self._has_in_flight:
            self._pause.cancel()
            self._resume()

    def _resume(self) -> None:
        self._pause = None
        self.flush()

    # --- the connection -------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if self._connecting is None or self._connecting.done():
            self._connecting = self._context.tasks.spawn(self._reconnect(), name=f"sender-{self.broker_id}")

    async def _reconnect(self) -> None:
        attempt = 0
        # An idle producer does not reconnect; its next message does.
        while self._queue:
            try:
                await self.link.open()
                break
            except TubeError as error:
                attempt += 1
                # One that expires meanwhile can say what it waited for.
                for batch in self._queue:
                    batch.cause = error
                self._on_results(self, error)
                self._wake.clear()
                await self._sleep(RECONNECT.delay_s(attempt, self._context.cluster.rng))
        # Before the flush, which may have to connect again.
        self._connecting = None
        self.flush()

    async def _sleep(self, pause_s: float) -> None:
        timer = self._loop.call_later(pause_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    # --- sending --------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what is queued, as far as the in-flight window allows."""
        if self._abandoned or self._pause is not None or self._retries or not self._queue:
            return  # after a failure everything waits, so that what failed goes first
        if self._numbers.given_up:
            if self._has_in_flight:
                return  # each of these is answered for on its own, before the others get other numbers
            # Nothing is in flight, so no response can be about the old numbers any more.
            self._numbers.renew(self._queue)
        connection = self.link.connection
        if connection is None or connection.closed:
            self._connect()
        elif not connection.knows_capabilities:
            # What a fresh connection understands is only known from its first answer.
            self._send_first(connection)
        else:
            self.link.learn(connection)
            if self.link.takes_batches:
                self._send_batches(connection)
            else:
                self._send_singles(connection)
        if self._awaited_s is None:
            self._awaited_s = self._loop.time()

    def _send_eagerly(self) -> None:
        """Send single messages now instead of at the end of the loop turn."""
        connection = self.link.connection
        if connection is not None and self.link.knows(connection):
            self.flush()
            # The connection would write only at the end of the loop turn.
            connection.flush()

    @property
    def _has_in_flight(self) -> bool:
        """True if anything is in flight."""
        return bool(self._in_flight) or self._singles.messages > 0

    @property
    def _owes(self) -> bool:
        """True if the Broker has anything to respond to, now or when it can be reached."""
        return self._has_in_flight or bool(self._queue) or bool(self._retries)

    def _send_batches(self, connection: RpcConnection) -> None:
        refusals = self.link.refusals
        while self._queue and may_send(self._in_flight.values(), self._queue, unsure=refusals.unsure):
            batches = self._without_unwanted(self._queue.take_request())
            for batch in batches:
                batch.mark_sent()
                # Numbered when they leave, so that what never left is missing from no sequence.
                self._numbers.assign(batch)
            # A request holds so many batches; what was taken may be of more partitions.
            for start in range(0, len(batches), MAX_RECORD_BATCHES):
                some = batches[start : start + MAX_RECORD_BATCHES]
                body = self._writer.write_batches(
                    some, numbered=bool(self.link.drops_duplicates), refusals_seen=refusals.seen
                )
                request = InFlightRequest(some, connection, counts_refusal=True, is_probe=refusals.probes)
                self._send(Method.SEND_PACKS_P2B, body, request)

    def _send_singles(self, connection: RpcConnection) -> None:
        # Unknown counts as yes, as the numbers mean nothing to other Brokers.
        numbered = self._numbers.producer_id is not None and self.link.drops_duplicates is not False
        while self._queue and self._singles.room > 0:
            for batch in self._without_unwanted(self._queue.take_messages(self._singles.room)):
                self.requests += batch.count
                self._singles.send(connection, batch, self._timeout_s(batch), numbered=numbered)
                if MESSAGE.on:
                    _trace_sent(Method.SEND_MESSAGE_P2B, (batch,))

    def _send_first(self, connection: RpcConnection) -> None:
        """Send one message; the response lists the Broker's capabilities.

        The message has a sequence number, since the Broker may be one that drops duplicates; to others the number means
        nothing. Such a response does not report a duplicate, so a message that was never sent before is sent under a
        new producer id.
        """
        # One message goes, and its response is waited for; cancelled ones are passed over.
        while self._queue and not self._has_in_flight:
            for one in self._without_unwanted(self._queue.take_messages(1)):
                if one.sequence is None and all(batch.sequence is None for batch in self._queue):
                    self._numbers.renew()
                one.mark_sent()
                self._numbers.assign(one)
                request = InFlightRequest([one], connection, counts_refusal=False, is_probe=False)
                self._send(Method.SEND_MESSAGE_P2B, self._writer.write_single(one), request)

    def _without_unwanted(self, due: DueBatches) -> list[RecordBatch]:
        """Drop the batches that nobody waits for, and return the others."""
        for batch in due.unwanted:
            self._context.buffer.remove(batch.count, batch.size_bytes)
        return due.ready

    def _timeout_s(self, batch: RecordBatch) -> float:
        # Nobody waits for a response behind the deadline.
        return min(self._context.request_timeout_s, max(batch.deadline_s - self._loop.time(), LEAST_TIMEOUT_S))

    def _send(self, method: Method, body: bytes | Sequence[bytes], request: InFlightRequest) -> None:
        self.requests += 1
        number = self.requests
        # The connection writes at the end of the loop turn, so requests of one turn share a write.
        request.connection.send_request(
            method,
            Service.BROKER_WRITE,
            body,
            timeout_s=self._timeout_s(request.batches[0]),
            done=partial(self._handle_response, number),
        )
        self._in_flight[number] = request
        if MESSAGE.on:
            _trace_sent(method, request.batches)

    # --- responses ------------------------------------------------------------------------------------------------

    def _handle_response(self, number: int, response: Response | TubeError) -> None:
        # None after `abandon`: the messages have their error already.
        request = self._in_flight.pop(number, None)
        if request is not None and not self._abandoned:
            self._report(self._read(request, response))

    def _read(self, request: InFlightRequest, response: Response | TubeError) -> SendResults:
        # The Broker counts by connection, so a response on an older one says nothing about this one's count.
        counts = request.counts_refusal and request.connection is self.link.connection
        error: TubeError
        if isinstance(response, TubeError):
            if counts and isinstance(response, RequestTimeoutError):
                self.link.refusals.record_timeout()
            error = response
        else:
            if request.connection.knows_capabilities:
                self.link.learn(request.connection)
            try:
                results = read_results(request.batches, response, self._numbers)
            except Exception as problem:
                error = problem if isinstance(problem, TubeError) else unexpected_error(problem)
            else:
                if counts:
                    self._count_refusals(request, results)
                return results
        return SendResults.without_response(request.batches, error)

    def _count_refusals(self, request: InFlightRequest, results: SendResults) -> None:
        codes = results.codes or {results.code}
        refusals = self.link.refusals
        if Code.SUCCESS in codes:
            refusals.record_accepted(is_probe=request.is_probe)
        if not COUNTED_REFUSALS.isdisjoint({*results.codes, results.code}):
            refusals.record_refused(is_probe=request.is_probe, behind=results.text.startswith(EARLIER_BATCH_REFUSED))

    def _report(self, results: SendResults) -> None:
        """Report the results of some messages, with the errors that count for those that failed."""
        # Whatever the Broker responds shows that it lives; what is still due begins a new wait.
        if results.responded:
            self._awaited_s = self._loop.time() if self._has_in_flight else None
        # While others wait to be sent again the pauses go on growing.
        if results.accepted and not self._retries:
            self._failures = 0
        judged: list[tuple[RecordBatch, TubeError]] = []
        # Batches of one request have one error, which is judged once.
        for error, group in groupby(results.failed, itemgetter(1)):
            batches = [batch for batch, _ in group]
            found = self._numbers.judge(error, first=any(not batch.tries for batch in batches))
            uncertain = is_uncertain(found)
            for batch in batches:
                batch.tries += 1
                batch.cause = found
                # It stays so whatever later tries bring: the first may have got there.
                batch.uncertain = batch.uncertain or uncertain
                judged.append((batch, found))
        results.failed = judged
        self._on_results(self, results)


def _trace_sent(method: Method, batches: Sequence[RecordBatch]) -> None:
    for batch in batches:
        partition = batch.partition
        MESSAGE.record(
            "sent", topic=partition.topic, partition=partition.partition_id, broker=partition.broker_id,
            messages=batch.count, method=method.name,
        )  # fmt: skip
