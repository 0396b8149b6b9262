"""The results of a request's messages, read from the Broker's response.

The invariant: a response that does not fit its request settles none of its messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.client.producer.sequence_numbers import FOREIGN_DUPLICATE
from pytubemq.errors import Code, TubeError, refused
from pytubemq.wire.batch.send_batches import decode_send_packs_response
from pytubemq.wire.fast.send_message import decode_send_response
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.producer.messages.record_batch import RecordBatch
    from pytubemq.client.producer.sequence_numbers import SequenceNumbers
    from pytubemq.wire.batch.send_batches import SendPacksResponse, SpanResult
    from pytubemq.wire.rpc.envelope import Response


class SendResults:
    """The results of the messages of one request, or of several that were answered together."""

    __slots__ = ("accepted", "accepted_bytes", "code", "codes", "failed", "responded", "text")

    def __init__(self, codes: set[int], code: int, text: str) -> None:
        self.codes = codes
        """Codes of the single messages; empty if `code` is that of all."""
        self.code = code
        self.text = text
        self.accepted = 0
        """Number of messages that were accepted; they have their receipts."""
        self.accepted_bytes = 0
        self.failed: list[tuple[RecordBatch, TubeError]] = []
        """Messages that were refused or have no response, with their error."""
        self.responded = True
        """False if there is no response, or one that cannot be read."""

    @classmethod
    def without_response(cls, batches: Sequence[RecordBatch], error: TubeError) -> SendResults:
        """Return the results of messages whose response did not come or cannot be read."""
        results = cls(set(), Code.UNSPECIFIED_ABNORMAL, "")
        results.failed = [(batch, error) for batch in batches]
        results.responded = False
        return results

    def record_accepted(
        self,
        batch: RecordBatch,
        at: int,
        count: int,
        message_id: int,
        offset: int | None,
        time_ms: int | None,
        *,
        repeated: bool = False,
    ) -> None:
        """Deliver the receipts of messages of a batch that were accepted one after the other, and count them."""
        self.accepted += count
        self.accepted_bytes += batch.bytes_between(at, at + count)
        batch.deliver(at, count, message_id, offset, time_ms, repeated=repeated)


def read_results(batches: Sequence[RecordBatch], response: Response, numbers: SequenceNumbers) -> SendResults:
    """Return the results of a request's batches, whose messages have these sequence numbers.

    Raises:
        TubeError: the response does not fit them, so what became of them is not known.
    """
    if response.method == Method.SEND_PACKS_P2B:
        return _read_batches(batches, decode_send_packs_response(response.body), numbers)
    (single,) = batches
    one = decode_send_response(response.body)
    results = SendResults(set(), one.err_code, one.err_msg)
    if one.err_code != Code.SUCCESS:
        results.failed.append((single, refused(one.err_code, one.err_msg)))
    else:
        message_id = one.message_id if one.message_id is not None else _old_style_id(one.err_msg)
        results.record_accepted(single, 0, 1, message_id, one.append_offset, one.append_time)
    return results


def _read_batches(batches: Sequence[RecordBatch], response: SendPacksResponse, numbers: SequenceNumbers) -> SendResults:
    codes = {span.code for spans in response.results for span in spans}
    results = SendResults(codes, response.err_code, response.err_msg)
    if not response.results:
        if response.err_code == Code.SUCCESS:
            raise _mismatch_error("the response does not contain the offsets of the messages")
        error = refused(response.err_code, response.err_msg)
        results.failed.extend((batch, error) for batch in batches)
        return results
    # Results go by place, so with another number of them none can be believed.
    if len(response.results) != len(batches):
        raise _mismatch_error(f"a response about {len(response.results)} batches to a request of {len(batches)}")
    for batch, spans in zip(batches, response.results, strict=True):
        if sum(span.messages for span in spans) != batch.count:
            raise _mismatch_error("the response does not fit the messages of a record batch")
    if numbers.is_own and _has_duplicates(response) and (numbers.given_up or _repeats_first_send(batches, response)):
        response = _without_duplicates(response)
    # Only now, after all checks, so that a response that does not fit settles nothing.
    for batch, spans in zip(batches, response.results, strict=True):
        _read_spans(results, batch, spans, response)
    return results


def _read_spans(
    results: SendResults, batch: RecordBatch, spans: Sequence[SpanResult], response: SendPacksResponse
) -> None:
    at = 0
    for count, code, offset, message_id, repeated, text in spans:
        # Part of a batch may be refused, such as what its window has forgotten; the rest is delivered.
        if code != Code.SUCCESS:
            error = refused(code, text or response.err_msg)
            results.failed.append((batch if count == batch.count else batch.part(at, at + count), error))
        else:
            known = offset >= 0
            results.record_accepted(
                batch,
                at,
                count,
                message_id if known else 0,
                offset if known else None,
                None if repeated else response.append_time,  # when a duplicate was first appended is not reported
                repeated=repeated,
            )
        at += count


def _has_duplicates(response: SendPacksResponse) -> bool:
    return any(span.repeated for spans in response.results for span in spans)


def _repeats_first_send(batches: Sequence[RecordBatch], response: SendPacksResponse) -> bool:
    """True if the response calls a message a duplicate that was sent for the first time."""
    return any(
        span.repeated
        for batch, spans in zip(batches, response.results, strict=True)
        if not batch.tries
        for span in spans
    )


def _without_duplicates(response: SendPacksResponse) -> SendPacksResponse:
    """Return the response with duplicates as refused: if one of them is another client's message, so may the others
    be."""
    return response._replace(
        results=[
            [
                span._replace(code=Code.FORBIDDEN, repeated=False, text=FOREIGN_DUPLICATE) if span.repeated else span
                for span in spans
            ]
            for spans in response.results
        ]
    )


def _mismatch_error(text: str) -> TubeError:
    error = TubeError(text)
    # What became of them is unknown; a Broker that detects duplicates stores nothing twice.
    error.retriable = True
    return error


def _old_style_id(text: str) -> int:
    """Return the message id from the response's text, as older Brokers send it; 0 if there is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_ID_DIGITS else 0


_MAX_ID_DIGITS: Final = 19
"""Digits of the largest 64-bit number."""
