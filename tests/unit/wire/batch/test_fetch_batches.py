"""Fetch answers with packs and single messages in any mixture, and packs taken apart for those that know none."""

from __future__ import annotations

import dataclasses
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import EnvelopeError, FormatError
from pytubemq.model.limits import MAX_FETCH_MESSAGES
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.batch import fetch_batches, stored
from pytubemq.wire.batch.checksum import check_sum
from pytubemq.wire.batch.record_batch import RecordBatchHead, encode_columns, stored_batch_head
from pytubemq.wire.protocol.messages.broker import GetMessageResponseB2C
from pytubemq.wire.protocol.messages.extension import ReadRangeResponseB2C
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.unit.wire.strategies import fault, messages

PAYLOADS = st.lists(st.binary(max_size=40), min_size=1, max_size=6)
CODES = st.integers(-3, 3)
WANTED = st.none() | st.frozensets(CODES)
HEAD = GetMessageResponseB2C(success=True, err_code=200, err_msg="OK", next_offset=1, max_offset=2)
RANGE_HEAD = ReadRangeResponseB2C(success=True, err_code=200, next_offset=1, min_offset=0, max_offset=2)


@st.composite
def packs(draw: st.DrawFn) -> tuple[RecordBatchHead, bytes, list[bytes], list[int], list[int]]:
    """A pack: its head, its columns, and the payloads, flags and codes in it."""
    payloads = draw(PAYLOADS)
    count = len(payloads)
    flags = draw(CODES | st.lists(CODES, min_size=count, max_size=count))
    codes = draw(CODES | st.lists(CODES, min_size=count, max_size=count))
    number = st.integers(0, 2**40)
    producer = draw(st.just((0, 0, 0)) | st.tuples(st.integers(1, 2**62), number, st.integers(0, 2**31 - 1)))
    head = RecordBatchHead(OFFSET_UNIT * draw(number), draw(st.integers(0, 2**62)), draw(number), *producer)
    many = [value if isinstance(value, list) else [value] * count for value in (flags, codes)]
    return head, encode_columns(payloads, flags, codes), payloads, *many  # type: ignore[return-value]


def record(head: RecordBatchHead, columns: bytes) -> bytes:
    return stored_batch_head(head, len(columns)) + columns


SINGLES = st.builds(
    stored.stored_entry, st.integers(0, 99), st.binary(max_size=200), CODES, st.integers(0, 99), CODES, CODES
)


@given(st.lists(SINGLES | packs(), max_size=6), st.booleans())
def test_records_come_out_in_the_order_of_the_log(items: list[Any], range_read: bool) -> None:
    slices = [item if isinstance(item, bytes) else record(*item[:2]) for item in items]
    if range_read:
        fetched: Any = fetch_batches.decode_read_range(b"".join(stored.encode_read_range_response(RANGE_HEAD, slices)))
    else:
        fetched = fetch_batches.decode_get_message(b"".join(stored.encode_get_message_response(HEAD, slices)))
    assert fetched.head == (RANGE_HEAD if range_read else HEAD)
    assert fetched.damaged == []
    assert len(fetched.records) == len(items)
    for item, found in zip(items, fetched.records, strict=True):
        if isinstance(item, bytes):
            assert [found] == stored.decode_stored(item)
        else:
            assert (found.head, found.columns.payloads()) == (item[0], item[2])


@given(messages(GetMessageResponseB2C))
def test_any_answer_is_read_as_the_codec_reads_it(answer: GetMessageResponseB2C) -> None:
    fetched = fetch_batches.decode_get_message(encode(answer))
    head, singles = stored.decode_get_message(encode(answer))
    assert fetched.records == singles
    assert fetched.head == dataclasses.replace(head, packs=())
    assert len(fetched.damaged) == len(answer.packs), "bytes that are no pack are told as damaged"


def outcome(read: Any, body: bytes) -> Any:
    try:
        return read(body)
    except EnvelopeError:
        return "refused"


@given(st.lists(SINGLES | packs(), min_size=1, max_size=4), st.data())
def test_a_damaged_answer_is_taken_only_where_protobuf_takes_it(items: list[Any], data: st.DataObject) -> None:
    slices = [item if isinstance(item, bytes) else record(*item[:2]) for item in items]
    body = bytearray(b"".join(stored.encode_get_message_response(HEAD, slices)))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    fetched = outcome(fetch_batches.decode_get_message, bytes(body))
    whole = outcome(lambda body: decode(GetMessageResponseB2C, body), bytes(body))
    if whole == "refused":
        assert fetched == "refused"
        return
    singles = [found for found in fetched.records if not isinstance(found, fetch_batches.FetchedBatch)]
    # where protobuf had to be asked they come in the order of their offsets, which rise at any Broker but not here
    assert sorted(single.payload for single in singles) == sorted(message.pay_load_data for message in whole.messages)
    assert len(fetched.records) - len(singles) + len(fetched.damaged) == len(whole.packs)
    assert fetched.head.next_offset == whole.next_offset


@given(st.binary(max_size=80))
def test_noise_gives_values_or_an_envelope_error(noise: bytes) -> None:
    for read in (fetch_batches.decode_get_message, fetch_batches.decode_read_range):
        fault(lambda read=read: read(noise), EnvelopeError)  # type: ignore[misc]


def test_where_protobuf_must_be_asked_the_records_are_put_in_order() -> None:
    columns = encode_columns([b"a", b"b"], 0, -1)
    late, early = (stored.stored_entry(1, b"x", 0, offset, 5, 9) for offset in (84, 0))
    pack = record(RecordBatchHead(28, 7, 5), columns)
    group = b"\xf3\x3f\xf4\x3f"  # field 1022 as a group, which is not read directly
    body = b"".join(stored.encode_get_message_response(HEAD, [late, pack, early, group]))
    fetched = fetch_batches.decode_get_message(body)
    assert fetched.head == HEAD
    offsets = [
        found.head.offset if isinstance(found, fetch_batches.FetchedBatch) else found.offset
        for found in fetched.records
    ]
    assert offsets == [0, 28, 84]


def test_a_damaged_pack_does_not_take_the_others_along() -> None:
    columns = encode_columns([b"a", b"b"], 0, -1)
    sound, bad = record(RecordBatchHead(0, 7, 5), columns), record(RecordBatchHead(56, 9, 5), columns[:-1] + b"!")
    lost = bytearray(record(RecordBatchHead(112, 9, 5), columns))
    lost[10] ^= 1  # in its head
    body = b"".join(
        stored.encode_get_message_response(HEAD, [sound, bad, bytes(lost), stored.stored_entry(1, b"x", 0, 168, 5, 9)])
    )
    fetched = fetch_batches.decode_get_message(body)
    assert len(fetched.records) == 2
    assert [(damage.offset, damage.messages) for damage in fetched.damaged] == [(56, 2), (None, 2)]
    assert "fails its check" in fetched.damaged[0].text
    unchecked = fetch_batches.decode_get_message(body, check=False)
    assert len(unchecked.records) == 3


def test_an_answer_of_countless_packs_is_refused() -> None:
    head = encode(HEAD)
    whole = b"\xda\x3e\x30" + bytes(48)
    assert len(fetch_batches.decode_get_message(head + whole * MAX_FETCH_MESSAGES).damaged) == MAX_FETCH_MESSAGES
    with pytest.raises(EnvelopeError, match="more than 100000 record batches"):
        fetch_batches.decode_get_message(head + whole * (MAX_FETCH_MESSAGES + 1))
    short = b"\xda\x3e\x00"
    assert len(fetch_batches.decode_get_message(head + short * 1_000).damaged) == 1_000
    with pytest.raises(EnvelopeError, match="more than 1000 record batches without head"):
        fetch_batches.decode_get_message(head + short * 1_001)


# --- for consumers that know no packs -------------------------------------------------------------------------------


@given(
    packs(), st.integers(-3, 8), st.none() | st.frozensets(CODES), st.integers(0, 150), st.none() | st.integers(1, 4)
)
def test_a_pack_taken_apart_is_what_single_sends_would_have_left(
    pack: Any, start: int, wanted: frozenset[int] | None, max_bytes: int, most: int | None
) -> None:
    head, columns, payloads, flags, codes = pack
    first = head.offset // OFFSET_UNIT
    count = len(payloads)
    matching = [at for at in range(max(start, 0), count) if wanted is None or codes[at] in wanted]
    sums = list(accumulate(len(payloads[at]) for at in matching))
    fitting = [at for n, at in enumerate(matching) if (n == 0 or sums[n] <= max_bytes) and (most is None or n < most)]
    expanded = fetch_batches.expand(record(head, columns), first + start, wanted, max_bytes, most)
    assert expanded.messages == len(fitting)
    assert expanded.entries == b"".join(
        [
            stored.stored_entry(
                head.message_id + at,
                payloads[at],
                flags[at],
                head.offset + OFFSET_UNIT * at,
                head.append_time_ms,
                check_sum(payloads[at]),
                head.producer_id or None,
                head.producer_epoch if head.producer_id else None,
                head.sequence + at if head.producer_id else None,
            )
            for at in fitting
        ]
    )
    left = matching[len(fitting) :]
    assert expanded.next_ordinal == first + (left[0] if left else max(count, start))


def test_a_large_pack_is_taken_apart_in_pieces_that_join() -> None:
    payloads = [bytes([n % 256]) * 50 for n in range(3_000)]
    head = RecordBatchHead(28 * 1_000, (1 << 54) - 5, 1_763_750_000_000)
    whole = record(head, encode_columns(payloads, 0, -1))
    at, pieces = 1_000, []
    while at < 4_000:
        piece = fetch_batches.expand(whole, at, None, 4_000)
        assert piece.messages == 80 or piece.next_ordinal == 4_000
        pieces.append(piece.entries)
        at = piece.next_ordinal
    found = stored.decode_stored(b"".join(pieces))
    assert [one.payload for one in found] == payloads
    assert [one.offset for one in found] == [28 * n for n in range(1_000, 4_000)]
    assert [one.message_id for one in found] == list(range(head.message_id, head.message_id + 3_000))


def test_a_damaged_pack_is_not_taken_apart() -> None:
    whole = record(RecordBatchHead(0, 7, 5), encode_columns([b"a"], 0, -1))
    with pytest.raises(FormatError):
        fetch_batches.expand(whole[:-1] + b"!", 0, None, 100)
