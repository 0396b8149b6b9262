"""The results of a request's messages, read from the Broker's response.

The invariant: a response that does not fit its request settles none of its messages.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final, cast

from pytubemq.client.producer.messages.plain_batch import PlainBatch
from pytubemq.client.producer.messages.record_batch import RecordBatch
from pytubemq.client.producer.messages.send_unit import split_plain_batches
from pytubemq.client.producer.receipts import AcceptedSpan
from pytubemq.client.producer.sequence_numbers import FOREIGN_DUPLICATE
from pytubemq.errors import Code, TubeError, refused
from pytubemq.model.message import Receipt
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.batch.send_batches import decode_send_packs_response
from pytubemq.wire.fast.send_message import decode_send_response
from pytubemq.wire.protocol.messages.extension import SendBatchResponseB2P
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.serialization.message_bytes import decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.producer.in_flight import InFlightRequest, OutgoingBatch
    from pytubemq.client.producer.messages.pending_message import PendingMessage
    from pytubemq.client.producer.messages.send_unit import SendUnit
    from pytubemq.client.producer.sequence_numbers import SequenceNumbers
    from pytubemq.wire.batch.send_batches import PacksResponse, SpanResult
    from pytubemq.wire.rpc.envelope import Response


class SendResults:
    """The results of the messages of one request."""

    __slots__ = ("accepted", "bytes_accepted", "code", "codes", "refused", "text")

    def __init__(self, codes: set[int], code: int, text: str) -> None:
        self.codes = codes
        """Codes of the single messages; empty if `code` is that of all."""
        self.code = code
        self.text = text
        self.accepted = 0
        """Number of messages that were accepted."""
        self.bytes_accepted = 0
        self.refused: list[tuple[SendUnit, TubeError]] = []

    def deliver(
        self,
        units: Sequence[PendingMessage],
        ids: Sequence[int],
        offsets: Sequence[int | None],
        time_ms: int | None,
        *,
        repeated: bool = False,
    ) -> None:
        """Deliver the receipts of messages that were accepted, one for each element of the sequences."""
        size_bytes = 0
        for pending, message_id, offset in zip(units, ids, offsets, strict=True):
            size_bytes += pending.size_bytes
            future = pending.future
            if not future.done():
                future.set_result(Receipt(pending.partition, message_id, offset, time_ms, repeated))
        self.accepted += len(units)
        self.bytes_accepted += size_bytes

    def read_batch(self, units: Sequence[PendingMessage], response: SendBatchResponseB2P) -> None:
        """Read the results of a SEND_BATCH request.

        Raises:
            TubeError: it does not fit them, so what became of them is not known.
        """
        codes, ids, offsets = response.err_codes, response.message_ids, response.offsets
        if not codes and response.err_code != Code.SUCCESS:
            error = refused(response.err_code, response.err_msg)
            self.refused.extend((unit, error) for unit in units)
            return
        if not len(codes or ids) == len(ids) == len(offsets) == len(units):
            raise _mismatch_error("the answer does not fit the batch")
        if codes.count(Code.SUCCESS) == len(codes):
            self.deliver(units, ids, offsets, response.append_time)
            return
        good = [n for n, code in enumerate(codes) if code == Code.SUCCESS]
        self.deliver([units[n] for n in good], [ids[n] for n in good], [offsets[n] for n in good], response.append_time)
        errors = {code: refused(code, response.err_msg) for code in codes if code != Code.SUCCESS}
        self.refused.extend((unit, errors[code]) for unit, code in zip(units, codes, strict=True) if code in errors)


def read_results(request: InFlightRequest, response: Response, numbers: SequenceNumbers) -> SendResults:
    """Return the results of a request, whose messages have these sequence numbers.

    Raises:
        TubeError: it does not fit them, so what became of them is not known.
    """
    if response.method == Method.SEND_PACKS_P2B:
        return _read_packs(request.batches, decode_send_packs_response(response.body), numbers)
    units = cast("Sequence[PendingMessage]", request.units)
    if response.method == Method.SEND_BATCH_P2B:
        many = decode(SendBatchResponseB2P, response.body)
        results = SendResults(set(many.err_codes), many.err_code, many.err_msg)
        results.read_batch(units, many)
        return results
    one = decode_send_response(response.body)
    results = SendResults(set(), one.err_code, one.err_msg)
    if one.err_code != Code.SUCCESS:
        results.refused.append((units[0], refused(one.err_code, one.err_msg)))
    else:
        message_id = one.message_id if one.message_id is not None else _old_style_id(one.err_msg)
        results.deliver(units, (message_id,), (one.append_offset,), one.append_time)
    return results


def _read_packs(batches: Sequence[OutgoingBatch], response: PacksResponse, numbers: SequenceNumbers) -> SendResults:
    """Return the results of a request of record batches.

    Raises:
        TubeError: it does not fit them, so what became of them is not known.
    """
    codes = {span.code for spans in response.results for span in spans}
    results = SendResults(codes, response.err_code, response.err_msg)
    if not response.results:
        if response.err_code == Code.SUCCESS:
            raise _mismatch_error("the response does not contain the offsets of the messages")
        error = refused(response.err_code, response.err_msg)
        results.refused.extend((unit, error) for batch in batches for unit in batch.units)
        return results
    if len(response.results) != len(batches):
        raise _mismatch_error(f"a response about {len(response.results)} batches to a request of {len(batches)}")
    for batch, spans in zip(batches, response.results, strict=True):
        if sum(span.messages for span in spans) != sum(unit.count for unit in batch.units):
            raise _mismatch_error("the answer does not fit the messages of a pack")
    if numbers.is_own and _has_duplicates(response) and (numbers.given_up or _repeats_first_send(batches, response)):
        response = _without_duplicates(response)
    for batch, spans in zip(batches, response.results, strict=True):
        first = batch.units[0]
        if isinstance(first, RecordBatch):
            _read_record_batch(results, first, spans, response)
        elif not isinstance(first, PlainBatch):
            _read_messages(results, cast("list[PendingMessage]", batch.units), spans, response)
        elif len(spans) == 1 and spans[0].code == Code.SUCCESS:
            _read_plain_batches(results, cast("list[PlainBatch]", batch.units), spans[0], response)
        else:
            _read_messages(
                results, cast("list[PendingMessage]", list(split_plain_batches(batch.units))), spans, response
            )
    return results


def _has_duplicates(response: PacksResponse) -> bool:
    return any(span.repeated for spans in response.results for span in spans)


def _repeats_first_send(batches: Sequence[OutgoingBatch], response: PacksResponse) -> bool:
    """True if the response calls a message a duplicate that was sent for the first time."""
    for batch, spans in zip(batches, response.results, strict=True):
        firsts = b"".join((b"\0" if unit.tries else b"\1") * unit.count for unit in batch.units)
        at = 0
        for span in spans:
            if span.repeated and firsts.find(1, at, at + span.messages) >= 0:
                return True
            at += span.messages
    return False


def _without_duplicates(response: PacksResponse) -> PacksResponse:
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


def _read_messages(
    results: SendResults, units: list[PendingMessage], spans: Sequence[SpanResult], response: PacksResponse
) -> None:
    at = 0
    for count, code, offset, message_id, repeated, text in spans:
        part = units if count == len(units) else units[at : at + count]
        at += count
        if code != Code.SUCCESS:
            error = refused(code, text or response.err_msg)
            results.refused.extend((one, error) for one in part)
            continue
        known = offset >= 0
        results.deliver(
            part,
            range(message_id, message_id + count) if known else (0,) * count,
            range(offset, offset + count * OFFSET_UNIT, OFFSET_UNIT) if known else (None,) * count,
            None if repeated else response.append_time,  # a repeat came when it came first, which nobody tells
            repeated=repeated,
        )


def _read_plain_batches(
    results: SendResults, units: list[PlainBatch], span: SpanResult, response: PacksResponse
) -> None:
    """Deliver the receipts of plain batches that were accepted one after the other."""
    _, _, offset, message_id, repeated, _ = span
    known = offset >= 0
    for batch in units:
        count = batch.count
        batch.deliver(
            range(message_id, message_id + count) if known else repeat(0, count),
            range(offset, offset + count * OFFSET_UNIT, OFFSET_UNIT) if known else repeat(None, count),
            None if repeated else response.append_time,
            repeated=repeated,
        )
        message_id += count
        offset += count * OFFSET_UNIT if known else 0
        results.accepted += count
        results.bytes_accepted += batch.size_bytes


def _read_record_batch(
    results: SendResults, batch: RecordBatch, spans: Sequence[SpanResult], response: PacksResponse
) -> None:
    at = 0
    for count, code, offset, message_id, repeated, text in spans:
        whole = count == batch.count
        if code != Code.SUCCESS:
            error = refused(code, text or response.err_msg)
            results.refused.append((batch if whole else batch.part(at, at + count), error))
        else:
            known = offset >= 0
            span = AcceptedSpan(
                batch.at + at,
                count,
                offset if known else None,
                message_id if known else 0,
                None if repeated else response.append_time,
                repeated,
            )
            results.accepted += count
            results.bytes_accepted += batch.size_bytes if whole else batch.bytes_between(at, at + count)
            batch.batch_send.record_accepted(span)
        at += count


def _mismatch_error(text: str) -> TubeError:
    error = TubeError(text)
    error.retriable = True
    return error


def _old_style_id(text: str) -> int:
    """Return the message id from the response's text, as older Brokers send it; 0 if there is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_ID_DIGITS else 0


_MAX_ID_DIGITS: Final = 19
"""Digits of the largest 64-bit number."""
