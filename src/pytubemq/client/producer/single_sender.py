"""The sender of messages that each have a request of their own, written many at a time.

The invariants: they are sent in the order of the queue, at most `MAX_SINGLES_IN_FLIGHT` are in flight, and each has its
own result: the Broker may accept one and refuse the next.
"""

from __future__ import annotations

from functools import partial
from itertools import compress, groupby, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, cast

from pytubemq.client.producer.in_flight import InFlightRequest
from pytubemq.client.producer.messages.delivery_errors import unexpected_error
from pytubemq.client.producer.messages.plain_batch import PlainBatch
from pytubemq.client.producer.send_results import SendResults, read_results
from pytubemq.errors import Code, TubeError
from pytubemq.model.message import Receipt
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.observe.story import MESSAGE
from pytubemq.wire.fast.response_reading import AcceptedSends, read_accepted
from pytubemq.wire.fast.send_message import decode_accepted
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.rpc.response_run import ResponseRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytubemq.client.producer.messages.pending_message import PendingMessage
    from pytubemq.client.producer.messages.send_unit import SendUnit
    from pytubemq.client.producer.request_writer import RequestWriter
    from pytubemq.client.producer.send_queue import SendQueue
    from pytubemq.client.producer.sender_owner import SenderOwner
    from pytubemq.client.producer.sequence_numbers import SequenceNumbers
    from pytubemq.model.ids import Partition
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.wire.rpc.envelope import Response

MAX_SINGLES_IN_FLIGHT: Final = 1_024
"""Single messages in flight to one Broker."""
_LEAST_TIMEOUT_S: Final = 0.05
_deadline_of: Callable[[PendingMessage], float] = attrgetter("deadline_s")


class SingleSenderOwner(Protocol):
    """What a `SingleSender` needs of its sender."""

    def handle_results(self, results: SendResults) -> None:
        """Settle messages according to a response of the Broker."""

    def handle_failure(self, units: Sequence[SendUnit], error: TubeError) -> None:
        """Retry or fail messages that have no response, or one that cannot be read."""

    def continue_sending(self) -> None:
        """Go on after some responses."""


class SingleSender:
    """The single messages of one sender that are in flight."""

    __slots__ = ("_in_flight", "_number", "_numbers", "_owner", "_queue", "_sender", "_writer", "messages")

    def __init__(
        self,
        sender: SingleSenderOwner,
        owner: SenderOwner,
        queue: SendQueue,
        writer: RequestWriter,
        numbers: SequenceNumbers,
    ) -> None:
        self.messages = 0
        """Number of messages in flight."""
        self._sender = sender
        self._owner = owner
        self._queue = queue
        self._writer = writer
        self._number = 0
        self._numbers = numbers
        self._in_flight: dict[int, _MessagesInFlight | _PlainBatchInFlight] = {}

    def send(self, connection: RpcConnection, now_s: float, *, numbered: bool) -> int:
        """Send queued messages up to the limit in flight; return how many were sent."""
        owner, queue, left = self._owner, self._queue, 0
        while queue and self.messages < MAX_SINGLES_IN_FLIGHT:
            taken, dropped = queue.take_singles(MAX_SINGLES_IN_FLIGHT - self.messages)
            for one in dropped:
                owner.record_settled(1, one.size_bytes)
            for kind, group in groupby(taken, type):
                if kind is PlainBatch:
                    for batch in cast("Iterator[PlainBatch]", group):
                        left += batch.count
                        self._send_plain_batch(connection, batch, now_s, numbered=numbered)
                else:
                    messages = cast("list[PendingMessage]", list(group))
                    left += len(messages)
                    self._send_messages(connection, messages, now_s, numbered=numbered)
        return left

    def abandon(self) -> list[SendUnit]:
        """Forget all messages in flight, and return those without a response."""
        left: list[SendUnit] = [one for sent in self._in_flight.values() for one in sent.unanswered_messages()]
        self._in_flight = {}
        self.messages = 0
        return left

    def _send_plain_batch(self, connection: RpcConnection, batch: PlainBatch, now_s: float, *, numbered: bool) -> None:
        if numbered:
            self._numbers.assign(batch.partition, (batch,))
        timeout_s = self._timeout_s(batch.deadline_s, now_s)
        writer = self._writer.run_writer(numbered=numbered, timeout_s=timeout_s, block_bytes=connection.block_bytes)
        write = partial(
            writer.encode_plain,
            partition_id=batch.partition.partition_id,
            payloads=batch.payloads,
            sequence=batch.sequence if numbered else None,
        )
        self._send(connection, _PlainBatchInFlight(batch, connection), write, timeout_s)

    def _send_messages(
        self, connection: RpcConnection, messages: list[PendingMessage], now_s: float, *, numbered: bool
    ) -> None:
        if numbered:
            self._numbers.assign_each(messages)
        soonest_s = min(map(_deadline_of, messages))
        alike = soonest_s - now_s >= self._owner.request_timeout_s
        groups = [(soonest_s, iter(messages))] if alike else groupby(messages, _deadline_of)
        for deadline_s, group in groups:
            timeout_s = self._timeout_s(deadline_s, now_s)
            units = list(group)
            writer = self._writer.run_writer(numbered=numbered, timeout_s=timeout_s, block_bytes=connection.block_bytes)
            self._send(
                connection,
                _MessagesInFlight(units, connection),
                partial(writer.encode, messages=tuple(units)),
                timeout_s,
            )

    def _timeout_s(self, deadline_s: float, now_s: float) -> float:
        return min(self._owner.request_timeout_s, max(deadline_s - now_s, _LEAST_TIMEOUT_S))

    def _send(
        self,
        connection: RpcConnection,
        sent: _MessagesInFlight | _PlainBatchInFlight,
        write: Callable[[int], list[bytes]],
        timeout_s: float,
    ) -> None:
        self._number = number = self._number + 1
        self._in_flight[number] = sent
        self.messages += sent.left
        connection.ask_run(
            Method.SEND_MESSAGE_P2B,
            sent.left,
            write,
            timeout_s=timeout_s,
            on_responses=partial(self._handle_responses, number),
            on_error=partial(self._handle_failure, number),
        )
        if MESSAGE.on:
            for partition, group in groupby(sent.partitions()):
                MESSAGE.record(
                    "sent", topic=partition.topic, partition=partition.partition_id, broker=partition.broker_id,
                    messages=len(list(group)), method=Method.SEND_MESSAGE_P2B.name,
                )  # fmt: skip

    def _handle_responses(self, number: int, first: int, answers: Sequence[Response]) -> None:
        """Settle messages that have responses; those that report success are read by a fast path and counted
        together."""
        sent = self._in_flight.get(number)
        if sent is None:
            return
        good: list[tuple[int, AcceptedSends]] = []
        others: list[tuple[PendingMessage, Response]] = []
        before = sent.left
        results = SendResults(set(), Code.SUCCESS, "")
        if isinstance(answers, ResponseRun) and isinstance(sent, _PlainBatchInFlight):
            at = answers.serial - first
            for taken in read_accepted(answers):
                if not sent.awaits(at, taken.messages):
                    break
                good.append((at, taken))
                at += taken.messages
                results.bytes_accepted += sent.acknowledge(at - taken.messages, taken.messages)
                results.accepted += taken.messages
            answers = answers.part(at - answers.serial + first, len(answers))
        for answer in answers:
            at = answer[0] - first
            if not sent.awaits(at, 1):
                continue
            try:
                said = decode_accepted(answer.body)
            except TubeError:
                said = None
            if said is None:
                others.append((sent.message(at), answer))
                sent.acknowledge(at, 1)
                continue
            results.bytes_accepted += sent.acknowledge(at, 1)
            results.accepted += 1
            good.append((at, tuple.__new__(AcceptedSends, (1, *said))))
        self._remove(number, sent, before - sent.left)
        if good:
            self._sender.handle_results(results)  # before anybody hears of a receipt, so that the counts are right
            for at, taken in good:
                sent.deliver(at, taken)
        for one, answer in others:
            try:
                self._sender.handle_results(
                    read_results(InFlightRequest((one,), sent.connection, False, False, []), answer, self._numbers)
                )
            except Exception as problem:
                self._sender.handle_failure(
                    (one,), problem if isinstance(problem, TubeError) else unexpected_error(problem)
                )
        self._sender.continue_sending()

    def _handle_failure(self, number: int, at: int, error: TubeError) -> None:
        sent = self._in_flight.get(number)
        if sent is None or not sent.awaits(at, 1):
            return
        one = sent.message(at)
        sent.acknowledge(at, 1)
        self._remove(number, sent, 1)
        self._sender.handle_failure((one,), error)
        self._sender.continue_sending()

    def _remove(self, number: int, sent: _MessagesInFlight | _PlainBatchInFlight, count: int) -> None:
        self.messages -= count
        if not sent.left:
            del self._in_flight[number]


class _MessagesInFlight:
    """Single messages that were sent together."""

    __slots__ = ("_unanswered", "_units", "connection", "left")

    def __init__(self, units: list[PendingMessage], connection: RpcConnection) -> None:
        self._units = units
        self._unanswered = bytearray(b"\1" * len(units))
        """1 for each message without a response."""
        self.connection = connection
        self.left = len(units)

    def awaits(self, at: int, count: int) -> bool:
        """True if none of these messages has its response."""
        return self._unanswered.count(1, at, at + count) == count

    def acknowledge(self, at: int, count: int) -> int:
        """Acknowledge these messages and return their size in bytes."""
        self._unanswered[at : at + count] = bytes(count)
        self.left -= count
        return sum(one.size_bytes for one in self._units[at : at + count])

    def message(self, at: int) -> PendingMessage:
        """Return one of the messages."""
        return self._units[at]

    def deliver(self, at: int, taken: AcceptedSends) -> None:
        """Deliver the receipt of one message."""
        _, message_id, offset, time_ms = taken
        one = self._units[at]
        if not one.future.done():
            one.future.set_result(tuple.__new__(Receipt, (one.partition, message_id, offset, time_ms, False)))

    def partitions(self) -> Iterator[Partition]:
        """Return the partition of each message."""
        return (one.partition for one in self._units)

    def unanswered_messages(self) -> Iterator[PendingMessage]:
        """Return the messages without a response."""
        return compress(self._units, self._unanswered)


class _PlainBatchInFlight:
    """A plain batch whose messages were sent in requests of their own."""

    __slots__ = ("_batch", "_unanswered", "connection", "left")

    def __init__(self, batch: PlainBatch, connection: RpcConnection) -> None:
        self._batch = batch
        self.left = batch.count
        self._unanswered = bytearray(b"\1" * self.left)
        self.connection = connection

    def awaits(self, at: int, count: int) -> bool:
        """True if none of these messages has its response."""
        return self._unanswered.count(1, at, at + count) == count

    def acknowledge(self, at: int, count: int) -> int:
        """Acknowledge these messages and return their size in bytes."""
        self._unanswered[at : at + count] = bytes(count)
        self.left -= count
        return self._batch.bytes_between(at, at + count)

    def message(self, at: int) -> PendingMessage:
        """Return one of the messages."""
        return self._batch.message(at)

    def deliver(self, at: int, taken: AcceptedSends) -> None:
        """Deliver the receipts of messages that were accepted one after the other."""
        count, message_id, offset, time_ms = taken
        self._batch.deliver(
            range(message_id, message_id + count),
            range(offset, offset + count * OFFSET_UNIT, OFFSET_UNIT),
            time_ms,
            start=at,
            stop=at + count,
        )

    def partitions(self) -> Iterator[Partition]:
        """Return the partition of each message."""
        return repeat(self._batch.partition, self._batch.count)

    def unanswered_messages(self) -> Iterator[PendingMessage]:
        """Return the messages without a response."""
        return (self._batch.message(at) for at, here in enumerate(self._unanswered) if here)
