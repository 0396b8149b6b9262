"""The sender of messages that each have a request of their own, written many at a time.

The invariants: they are sent in the order of the queue, at most `MAX_SINGLES_IN_FLIGHT` are in flight, and each has its
own result: the Broker may accept one and refuse the next.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pytubemq.client.producer.messages.delivery_errors import unexpected_error
from pytubemq.client.producer.send_results import SendResults, read_results
from pytubemq.errors import Code, TubeError
from pytubemq.wire.fast.response_reading import read_accepted
from pytubemq.wire.fast.send_message import decode_accepted
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.rpc.response_run import ResponseRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.client.producer.messages.record_batch import RecordBatch
    from pytubemq.client.producer.request_writer import RequestWriter
    from pytubemq.client.producer.sequence_numbers import SequenceNumbers
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.wire.rpc.envelope import Response

MAX_SINGLES_IN_FLIGHT: Final = 1_024
"""Single messages in flight to one Broker."""


class SingleSender:
    """The single messages of one sender that are in flight."""

    __slots__ = ("_in_flight", "_number", "_numbers", "_on_results", "_writer", "messages")

    def __init__(
        self, writer: RequestWriter, numbers: SequenceNumbers, on_results: Callable[[SendResults], None]
    ) -> None:
        """`on_results` gets the results of some of the messages."""
        self.messages = 0
        """Number of messages in flight."""
        self._writer = writer
        self._numbers = numbers
        self._on_results = on_results
        self._number = 0
        self._in_flight: dict[int, _SinglesInFlight] = {}

    @property
    def room(self) -> int:
        """Number of messages that may be sent now."""
        return MAX_SINGLES_IN_FLIGHT - self.messages

    def send(self, connection: RpcConnection, batch: RecordBatch, timeout_s: float, *, numbered: bool) -> None:
        """Send the messages of a batch, of which there is `room` for as many."""
        # A Broker that drops no duplicates gets requests without numbers.
        if numbered:
            self._numbers.assign(batch)
        # Before any byte leaves: from now on the Broker may have it.
        batch.mark_sent()
        writer = self._writer.run_writer(numbered=numbered, timeout_s=timeout_s, block_bytes=connection.block_bytes)
        payloads, headers = batch.payloads_and_headers()
        self._number = number = self._number + 1
        self._in_flight[number] = _SinglesInFlight(batch)
        self.messages += batch.count
        connection.send_requests(
            Method.SEND_MESSAGE_P2B,
            batch.count,
            partial(
                writer.encode,
                partition_id=batch.partition.partition_id,
                payloads=payloads,
                headers=headers,
                sequence=batch.sequence if numbered else None,
            ),
            timeout_s=timeout_s,
            on_responses=partial(self._handle_responses, number),
            on_error=partial(self._handle_failure, number),
        )

    def abandon(self) -> list[RecordBatch]:
        """Forget all messages in flight, and return those without a response."""
        left = [one for sent in self._in_flight.values() for one in sent.unanswered_messages()]
        self._in_flight = {}
        self.messages = 0
        return left

    def _handle_responses(self, number: int, first: int, responses: Sequence[Response]) -> None:
        """Settle messages that have responses; those that report success are read by a fast path and counted
        together."""
        sent = self._in_flight.get(number)
        if sent is None:
            return
        results = SendResults(set(), Code.SUCCESS, "")
        # Responses that came together, in the form in which our Brokers send them: read without an object for each.
        if isinstance(responses, ResponseRun):
            at = responses.serial - first
            for accepted in read_accepted(responses):
                # One has its result already, as after its timeout, and a result is given once.
                if not sent.awaits(at, accepted.messages):
                    break
                self._settle(number, sent, at, accepted.messages)
                results.record_accepted(sent.batch, at, *accepted)
                at += accepted.messages
            responses = responses.part(at - responses.serial + first, len(responses))
        for response in responses:
            at = response[0] - first
            if sent.awaits(at, 1):
                self._settle(number, sent, at, 1)
                self._read_one(results, sent.batch, at, response)
        self._on_results(results)

    def _read_one(self, results: SendResults, batch: RecordBatch, at: int, response: Response) -> None:
        try:
            # The usual response first, by a reader that takes nothing else.
            accepted = decode_accepted(response.body)
        except TubeError:
            accepted = None
        if accepted is not None:
            results.record_accepted(batch, at, 1, *accepted)
            return
        one = batch.part(at, at + 1)
        try:
            found = read_results((one,), response, self._numbers)
        except Exception as problem:
            error = problem if isinstance(problem, TubeError) else unexpected_error(problem)
            results.failed.append((one, error))
        else:
            results.accepted += found.accepted
            results.accepted_bytes += found.accepted_bytes
            results.failed += found.failed

    def _handle_failure(self, number: int, at: int, error: TubeError) -> None:
        sent = self._in_flight.get(number)
        if sent is None or not sent.awaits(at, 1):
            return
        self._settle(number, sent, at, 1)
        self._on_results(SendResults.without_response((sent.batch.part(at, at + 1),), error))

    def _settle(self, number: int, sent: _SinglesInFlight, at: int, count: int) -> None:
        sent.settle(at, count)
        self.messages -= count
        if not sent.left:
            del self._in_flight[number]


class _SinglesInFlight:
    """A batch whose messages were sent in requests of their own."""

    __slots__ = ("_unanswered", "batch", "left")

    def __init__(self, batch: RecordBatch) -> None:
        self.batch = batch
        self.left = batch.count
        # A byte a message, so that many are counted and cleared with one slice.
        self._unanswered = bytearray(b"\1" * batch.count)
        """1 for each message without a response."""

    def awaits(self, at: int, count: int) -> bool:
        """True if none of these messages has its response."""
        return self._unanswered.count(1, at, at + count) == count

    def settle(self, at: int, count: int) -> None:
        """Note that these messages have their response."""
        self._unanswered[at : at + count] = bytes(count)
        self.left -= count

    def unanswered_messages(self) -> list[RecordBatch]:
        """Return the messages without a response, each on its own."""
        return [self.batch.part(at, at + 1) for at, here in enumerate(self._unanswered) if here]
