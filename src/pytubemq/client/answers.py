"""What a Broker's answer says of each message of a request.

The invariant: an answer that does not fit its request says nothing of any message.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final, cast

from pytubemq.client.bunch import Bunch, one_by_one
from pytubemq.client.parcel import Parcel
from pytubemq.client.receipts import Stretch
from pytubemq.errors import Code, TubeError, refused
from pytubemq.model.message import Receipt
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.codec import decode
from pytubemq.wire.direct import decode_send_answer
from pytubemq.wire.messages.extension import SendBatchResponseB2P
from pytubemq.wire.methods import Method
from pytubemq.wire.pack_send import decode_send_packs_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.flight import Flight, Pack
    from pytubemq.client.pending import Pending, Unit
    from pytubemq.wire.pack_send import PacksAnswer, SpanAnswer
    from pytubemq.wire.rpc import Response


class Outcome:
    """What an answer says of the messages of a request."""

    __slots__ = ("bytes_taken", "code", "codes", "refused", "taken", "text")

    def __init__(self, codes: set[int], code: int, text: str) -> None:
        self.codes = codes
        """Of the single messages; none when `code` speaks for all."""
        self.code = code
        self.text = text
        self.taken = 0
        """Messages."""
        self.bytes_taken = 0
        self.refused: list[tuple[Unit, TubeError]] = []

    def deliver(
        self,
        units: Sequence[Pending],
        ids: Sequence[int],
        offsets: Sequence[int | None],
        time_ms: int | None,
        *,
        repeated: bool = False,
    ) -> None:
        """These have been taken, one after the other as the sequences say."""
        size_bytes = 0
        for pending, message_id, offset in zip(units, ids, offsets, strict=True):
            size_bytes += pending.size_bytes
            future = pending.future
            if not future.done():
                future.set_result(Receipt(pending.partition, message_id, offset, time_ms, repeated))
        self.taken += len(units)
        self.bytes_taken += size_bytes

    def read_batch(self, units: Sequence[Pending], answer: SendBatchResponseB2P) -> None:
        """What an answer says of the messages of a batch.

        Raises:
            TubeError: it does not fit them, so what became of them is not known.
        """
        codes, ids, offsets = answer.err_codes, answer.message_ids, answer.offsets
        if not codes and answer.err_code != Code.SUCCESS:
            error = refused(answer.err_code, answer.err_msg)
            self.refused.extend((unit, error) for unit in units)
            return
        if not len(codes or ids) == len(ids) == len(offsets) == len(units):
            raise _unfit("the answer does not fit the batch")
        if codes.count(Code.SUCCESS) == len(codes):
            self.deliver(units, ids, offsets, answer.append_time)
            return
        good = [n for n, code in enumerate(codes) if code == Code.SUCCESS]
        self.deliver([units[n] for n in good], [ids[n] for n in good], [offsets[n] for n in good], answer.append_time)
        errors = {code: refused(code, answer.err_msg) for code in codes if code != Code.SUCCESS}
        self.refused.extend((unit, errors[code]) for unit, code in zip(units, codes, strict=True) if code in errors)


def read_answer(flight: Flight, response: Response) -> Outcome:
    """What the answer to a request says of its messages.

    Raises:
        TubeError: it does not fit them, so what became of them is not known.
    """
    if response.method == Method.SEND_PACKS_P2B:
        return _read_packs(flight.packs, decode_send_packs_answer(response.body))
    units = cast("Sequence[Pending]", flight.units)
    if response.method == Method.SEND_BATCH_P2B:
        many = decode(SendBatchResponseB2P, response.body)
        outcome = Outcome(set(many.err_codes), many.err_code, many.err_msg)
        outcome.read_batch(units, many)
        return outcome
    one = decode_send_answer(response.body)
    outcome = Outcome(set(), one.err_code, one.err_msg)
    if one.err_code != Code.SUCCESS:
        outcome.refused.append((units[0], refused(one.err_code, one.err_msg)))
    else:
        message_id = one.message_id if one.message_id is not None else _old_style_id(one.err_msg)
        outcome.deliver(units, (message_id,), (one.append_offset,), one.append_time)
    return outcome


def _read_packs(packs: Sequence[Pack], answer: PacksAnswer) -> Outcome:
    """What an answer says of the messages of its packs.

    Raises:
        TubeError: it does not fit them, so what became of them is not known.
    """
    codes = {span.code for spans in answer.results for span in spans}
    outcome = Outcome(codes, answer.err_code, answer.err_msg)
    if not answer.results:
        if answer.err_code == Code.SUCCESS:
            raise _unfit("the answer does not tell where the messages are")
        error = refused(answer.err_code, answer.err_msg)
        outcome.refused.extend((unit, error) for pack in packs for unit in pack.units)
        return outcome
    if len(answer.results) != len(packs):
        raise _unfit(f"an answer about {len(answer.results)} packs to a request of {len(packs)}")
    for pack, spans in zip(packs, answer.results, strict=True):
        if sum(span.messages for span in spans) != sum(unit.count for unit in pack.units):
            raise _unfit("the answer does not fit the messages of a pack")
    for pack, spans in zip(packs, answer.results, strict=True):
        first = pack.units[0]
        if isinstance(first, Parcel):
            _read_parcel(outcome, first, spans, answer)
        elif not isinstance(first, Bunch):
            _read_messages(outcome, cast("list[Pending]", pack.units), spans, answer)
        elif len(spans) == 1 and spans[0].code == Code.SUCCESS:
            _read_bunches(outcome, cast("list[Bunch]", pack.units), spans[0], answer)
        else:
            _read_messages(outcome, cast("list[Pending]", list(one_by_one(pack.units))), spans, answer)
    return outcome


def _read_messages(outcome: Outcome, units: list[Pending], spans: Sequence[SpanAnswer], answer: PacksAnswer) -> None:
    at = 0
    for count, code, offset, message_id, repeated, text in spans:
        part = units if count == len(units) else units[at : at + count]
        at += count
        if code != Code.SUCCESS:
            error = refused(code, text or answer.err_msg)
            outcome.refused.extend((one, error) for one in part)
            continue
        known = offset >= 0
        outcome.deliver(
            part,
            range(message_id, message_id + count) if known else (0,) * count,
            range(offset, offset + count * OFFSET_UNIT, OFFSET_UNIT) if known else (None,) * count,
            None if repeated else answer.append_time,  # a repeat came when it came first, which nobody tells
            repeated=repeated,
        )


def _read_bunches(outcome: Outcome, units: list[Bunch], span: SpanAnswer, answer: PacksAnswer) -> None:
    """All of them have been taken, one after the other."""
    _, _, offset, message_id, repeated, _ = span
    known = offset >= 0
    for bunch in units:
        count = bunch.count
        bunch.took(
            range(message_id, message_id + count) if known else repeat(0, count),
            range(offset, offset + count * OFFSET_UNIT, OFFSET_UNIT) if known else repeat(None, count),
            None if repeated else answer.append_time,
            repeated=repeated,
        )
        message_id += count
        offset += count * OFFSET_UNIT if known else 0
        outcome.taken += count
        outcome.bytes_taken += bunch.size_bytes


def _read_parcel(outcome: Outcome, parcel: Parcel, spans: Sequence[SpanAnswer], answer: PacksAnswer) -> None:
    at = 0
    for count, code, offset, message_id, repeated, text in spans:
        whole = count == parcel.count
        if code != Code.SUCCESS:
            error = refused(code, text or answer.err_msg)
            outcome.refused.append((parcel if whole else parcel.part(at, at + count), error))
        else:
            known = offset >= 0
            stretch = Stretch(
                parcel.at + at,
                count,
                offset if known else None,
                message_id if known else 0,
                None if repeated else answer.append_time,
                repeated,
            )
            outcome.taken += count
            outcome.bytes_taken += parcel.size_bytes if whole else parcel.bytes_between(at, at + count)
            parcel.lot.took(stretch)
        at += count


def _unfit(text: str) -> TubeError:
    error = TubeError(text)
    error.retriable = True
    return error


def _old_style_id(text: str) -> int:
    """Older Brokers tell the message id as the answer's text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_ID_DIGITS else 0


_MAX_ID_DIGITS: Final = 19
"""Digits of the largest number of 64 bits."""
