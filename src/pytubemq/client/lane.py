"""One producer's messages for one Broker: grouped, sent, answered, sent again.

The invariants: messages leave in the order they came, and those that have to be sent again leave before newer ones;
each batch says how many refusals have been seen, so that a Broker of ours takes none that left before a refusal was
known (see `docs/design/protocol.md`, the order of batches under way); at
most `MAX_FLIGHTS` requests are unanswered; a message whose future was cancelled is not sent any more; every message
ends with a receipt or an error by its deadline.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from pytubemq.client.events import Connected, Lost
from pytubemq.client.pending import Flight
from pytubemq.client.refusals import Refusals
from pytubemq.core.retry import Backoff
from pytubemq.errors import Code, ConnectionLostError, RequestTimeoutError, TubeError, refused
from pytubemq.model.limits import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES
from pytubemq.model.message import Receipt
from pytubemq.wire.codec import decode
from pytubemq.wire.extensions import COUNTED_REFUSALS, EARLIER_BATCH_REFUSED, Capability
from pytubemq.wire.hot import SendTemplate, encode_send_batch
from pytubemq.wire.messages.broker import SendMessageResponseB2P
from pytubemq.wire.messages.extension import SendBatchResponseB2P
from pytubemq.wire.methods import Method, Service

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.client.lane_owner import LaneOwner
    from pytubemq.client.pending import Pending
    from pytubemq.model.ids import Address
    from pytubemq.net.connection import RpcConnection
    from pytubemq.wire.rpc import Response

MAX_FLIGHTS = 4
"""Batches on the way to one Broker: enough to keep it busy while answers travel."""
MAX_PLAIN_FLIGHTS = 1_024
"""Single messages on the way to a Broker that takes no batches."""
EAGER_MESSAGES = MAX_BATCH_MESSAGES // 4
EAGER_BYTES = MAX_BATCH_BYTES // 4
"""So much is worth a batch of its own while another is on its way; less waits for that one's answer."""
RETRY = Backoff(first_s=0.02, most_s=1.0)
RECONNECT = Backoff(first_s=0.02, most_s=0.5)
_OVERHEAD_BYTES = 32
"""What an entry takes beyond its payload, roughly."""


class Lane:
    """The way to one Broker."""

    def __init__(self, owner: LaneOwner, broker_id: int) -> None:
        self.broker_id = broker_id
        self.queue: deque[Pending] = deque()
        self.queued_bytes = 0
        self.batches = 0
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._token = owner.cluster.visit_token
        self._template = self._new_template()
        self._connection: RpcConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._scheduled = False
        self._failures = 0
        self._again: list[Pending] = []
        self._pause: asyncio.TimerHandle | None = None
        self._lost = False
        self._flying: dict[asyncio.Future[Response], Flight] = {}
        self._refusals = Refusals()
        """Batches of this connection that were not taken for now."""
        self._abandoned = False

    def put(self, pending: Pending) -> None:
        """Queue a message; it leaves at the end of this loop turn, or after the linger time."""
        self.queue.append(pending)
        self.queued_bytes += pending.size_bytes
        if not self._scheduled:
            self._scheduled = True
            linger_s = self._owner.linger_s
            if linger_s > 0:
                self._loop.call_later(linger_s, self._pump)
            else:
                self._loop.call_soon(self._pump)

    def kick(self) -> None:
        """Something has changed for the better: try now what was waiting for a later try."""
        self._wake.set()
        if self._pause is not None and not self._flying:
            self._pause.cancel()
            self._resume()

    def expire(self, now_s: float) -> list[Pending]:
        """Take out of the queue what is past its deadline, and what was cancelled."""
        gone: list[Pending] = []
        kept: deque[Pending] = deque()
        for pending in self.queue:
            (gone if pending.deadline_s <= now_s or pending.future.done() else kept).append(pending)
        if gone:
            self.queue = kept
            self.queued_bytes -= sum(pending.size_bytes for pending in gone)
        return gone

    def take_all(self, wanted: Callable[[Pending], bool]) -> list[Pending]:
        """Take those out of the queue that `wanted` says, in order; what is on its way stays."""
        taken = [pending for pending in self.queue if wanted(pending)]
        if taken:
            self.queue = deque(pending for pending in self.queue if not wanted(pending))
            self.queued_bytes -= sum(pending.size_bytes for pending in taken)
        return taken

    def abandon(self) -> list[Pending]:
        """Stop; returns everything that has no result yet, also what is on its way."""
        self._abandoned = True
        if self._pause is not None:
            self._pause.cancel()
        left = [*self._again, *(one for flight in self._flying.values() for one in flight.messages), *self.queue]
        self._again, self._flying, self.queue, self.queued_bytes = [], {}, deque(), 0
        return left

    # --- sending --------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        self._scheduled = False
        if self._pause is not None or self._again or not self.queue:
            return  # after a failure everything waits, so that what failed goes first
        connection = self._connection
        if connection is None or connection.closed:
            self._connect()
        elif connection.answered and Capability.BATCH_SEND in connection.capabilities and self._owner.batching:
            self._pump_batches(connection)
        else:
            # What a fresh connection understands is only known from its first answer.
            self._pump_plain(connection, MAX_PLAIN_FLIGHTS if connection.answered else 1)

    def _pump_batches(self, connection: RpcConnection) -> None:
        # Unsure what the Broker has counted, only one batch at a time keeps order.
        while self.queue and len(self._flying) < (1 if self._refusals.unsure else MAX_FLIGHTS):
            if self._flying and len(self.queue) < EAGER_MESSAGES and self.queued_bytes < EAGER_BYTES:
                return
            batch = self._next_batch()
            if not batch:
                return
            self._fly(
                connection,
                Method.SEND_BATCH_P2B,
                encode_send_batch(
                    self._owner.client_id,
                    self._owner.topic,
                    self._owner.cluster.sent_addr,
                    [pending.item for pending in batch],
                    token=self._owner.cluster.visit_token,
                    refusals_seen=self._refusals.seen,
                ),
                batch,
                counted=True,
                asked=self._refusals.asks,
            )

    def _new_template(self) -> SendTemplate:
        owner = self._owner
        return SendTemplate(owner.client_id, owner.topic, owner.cluster.sent_addr, token=self._token)

    def _pump_plain(self, connection: RpcConnection, limit: int) -> None:
        if self._token != self._owner.cluster.visit_token:
            self._token = self._owner.cluster.visit_token
            self._template = self._new_template()
        while self.queue and len(self._flying) < limit:
            pending = self.queue.popleft()
            self.queued_bytes -= pending.size_bytes
            if pending.future.done():
                self._owner.settled((pending,))
                continue
            self._fly(connection, Method.SEND_MESSAGE_P2B, self._template.encode(*pending.item), [pending])

    def _next_batch(self) -> list[Pending]:
        queue = self.queue
        batch: list[Pending] = []
        size_bytes = 0
        while queue and len(batch) < MAX_BATCH_MESSAGES:
            pending = queue[0]
            size_bytes += pending.size_bytes + _OVERHEAD_BYTES
            if batch and size_bytes > MAX_BATCH_BYTES:
                break
            queue.popleft()
            self.queued_bytes -= pending.size_bytes
            if pending.future.done():
                self._owner.settled((pending,))
                continue
            batch.append(pending)
        return batch

    def _fly(
        self,
        connection: RpcConnection,
        method: Method,
        body: bytes | Sequence[bytes],
        batch: list[Pending],
        *,
        counted: bool = False,
        asked: bool = False,
    ) -> None:
        self.batches += 1
        left_s = batch[0].deadline_s - self._loop.time()
        answer = connection.call(
            method, Service.BROKER_WRITE, body, timeout_s=min(self._owner.request_timeout_s, max(left_s, 0.05))
        )
        self._flying[answer] = Flight(batch, connection, counted, asked)
        answer.add_done_callback(self._landed)

    # --- answers --------------------------------------------------------------------------------------------

    def _landed(self, answer: asyncio.Future[Response]) -> None:
        flight = self._flying.pop(answer, None)
        if flight is None or self._abandoned:
            answer.cancelled() or answer.exception()  # looked at; its messages have failed already
            return
        batch = flight.messages
        error = ConnectionLostError("the request was cancelled") if answer.cancelled() else answer.exception()
        if error is None:
            try:
                self._read(flight, answer.result())
            except TubeError as unreadable:
                self._failed(batch, unreadable)
        elif isinstance(error, TubeError):
            if isinstance(error, RequestTimeoutError) and self._counts(flight):
                self._refusals.unanswered()
            self._failed(batch, error)
        else:
            self._failed(batch, TubeError(f"sending failed: {type(error).__name__}: {error}"))
        if self._again:
            if not self._flying:
                self._back_off()
        elif self.queue:
            self._pump()

    def _counts(self, flight: Flight) -> bool:
        """Whether the Broker counts this one's refusal for the connection that we send on now."""
        return flight.counted and flight.connection is self._connection

    def _count(self, flight: Flight, answer: SendBatchResponseB2P) -> None:
        if Code.SUCCESS in (answer.err_codes or (answer.err_code,)):
            self._refusals.taken(asked=flight.asked)
        if _refuses_for_now(answer):
            behind = (answer.err_msg or "").startswith(EARLIER_BATCH_REFUSED)
            self._refusals.refused(asked=flight.asked, behind=behind)

    def _read(self, flight: Flight, response: Response) -> None:
        batch = flight.messages
        if response.method == Method.SEND_BATCH_P2B:
            many = decode(SendBatchResponseB2P, response.body)
            if self._counts(flight):
                self._count(flight, many)
            if many.err_codes:
                self._read_each(batch, many)
                return
            code, text = many.err_code, many.err_msg
            ids: Sequence[int] = many.message_ids
            offsets: Sequence[int | None] = many.offsets
            appended_at_ms = many.append_time
        else:
            one = decode(SendMessageResponseB2P, response.body)
            code, text = one.err_code, one.err_msg
            ids = (one.message_id if one.message_id is not None else _old_style_id(text),)
            offsets = (one.append_offset,)
            appended_at_ms = one.append_time
        if code != Code.SUCCESS:
            self._failed(batch, refused(code, text))
        elif len(ids) != len(batch) or len(offsets) != len(batch):
            self._failed(batch, refused(Code.INTERNAL_SERVER_ERROR, "the answer does not fit the batch"))
        else:
            self._deliver(batch, ids, offsets, appended_at_ms)

    def _read_each(self, batch: list[Pending], answer: SendBatchResponseB2P) -> None:
        codes, ids, offsets = answer.err_codes, answer.message_ids, answer.offsets
        if not len(codes) == len(ids) == len(offsets) == len(batch):
            self._failed(batch, refused(Code.INTERNAL_SERVER_ERROR, "the answer does not fit the batch"))
            return
        if codes.count(Code.SUCCESS) == len(codes):
            self._deliver(batch, ids, offsets, answer.append_time)
            return
        good = [n for n, code in enumerate(codes) if code == Code.SUCCESS]
        if good:
            self._deliver(
                [batch[n] for n in good], [ids[n] for n in good], [offsets[n] for n in good], answer.append_time
            )
        for n, code in enumerate(codes):
            if code != Code.SUCCESS:
                self._failed([batch[n]], refused(code, answer.err_msg))

    def _deliver(
        self, batch: list[Pending], ids: Sequence[int], offsets: Sequence[int | None], appended_at_ms: int | None
    ) -> None:
        for pending, message_id, offset in zip(batch, ids, offsets, strict=True):
            future = pending.future
            if not future.done():
                future.set_result(Receipt(pending.partition, message_id, offset, appended_at_ms))
        if not self._again:
            self._failures = 0
        if self._lost:
            self._lost = False
            self._owner.cluster.emit(Connected(self._owner.client_id, self._peer()))
        self._owner.broker_answered(self)
        self._owner.settled(batch, delivered=True)

    # --- failures -------------------------------------------------------------------------------------------

    def _failed(self, batch: Sequence[Pending], error: TubeError) -> None:
        done: list[Pending] = []
        for pending in batch:
            pending.tries += 1
            pending.cause = error
            if pending.future.done() or not self._owner.refused(pending, error):
                done.append(pending)
            else:
                self._again.append(pending)
        if done:
            self._owner.settled(done)
        if len(done) < len(batch) and not self._lost:
            self._lost = True
            self._owner.cluster.emit(Lost(self._owner.client_id, error, self._peer()))

    def _back_off(self) -> None:
        """All flights have landed: put what failed back in front, in order, and wait a little."""
        self._again.sort(key=lambda pending: pending.order)
        self.queue.extendleft(reversed(self._again))
        self.queued_bytes += sum(pending.size_bytes for pending in self._again)
        cause = self._again[0].cause
        self._again = []
        self._failures += 1
        if isinstance(cause, TubeError):
            self._owner.broker_failed(self, cause)
        if not self.queue:
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
        while self.queue:
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
        for pending in self.queue:
            pending.cause = error
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


def _refuses_for_now(answer: SendBatchResponseB2P) -> bool:
    if answer.err_code in COUNTED_REFUSALS:
        return True
    codes = answer.err_codes
    return codes.count(Code.SUCCESS) != len(codes) and not COUNTED_REFUSALS.isdisjoint(codes)


def _old_style_id(text: str) -> int:
    """Older Brokers tell the message id as the answer's text."""
    return int(text) if text.isascii() and text.isdigit() else 0
