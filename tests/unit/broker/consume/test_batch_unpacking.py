"""Packs taken apart for consumers that know none, against the same messages told one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.broker.consume.batch_unpacking import unpack_batches
from pytubemq.errors import FormatError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.log.selection import Slice
from pytubemq.wire.batch.checksum import check_sum
from pytubemq.wire.batch.record_batch import RecordBatchHead, encode_columns, stored_batch_head
from pytubemq.wire.batch.stored import decode_stored, stored_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

Record = list[tuple[bytes, int]]
"""Payload and filter code of each message; one alone is a single entry."""

records = st.lists(
    st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.sampled_from([-1, 7, 8])), min_size=1, max_size=6),
    min_size=1,
    max_size=6,
)


def encoded(log: Sequence[Record]) -> list[bytes]:
    """Each record as the log holds it."""
    found: list[bytes] = []
    ordinal = 0
    for record in log:
        if len(record) == 1:
            payload = record[0][0]
            found.append(stored_entry(100 + ordinal, payload, 0, ordinal * OFFSET_UNIT, 5, check_sum(payload)))
        else:
            codes = [code for _, code in record]
            same = len(set(codes)) == 1
            columns = encode_columns([payload for payload, _ in record], 0, codes[0] if same else codes)
            found.append(
                stored_batch_head(RecordBatchHead(ordinal * OFFSET_UNIT, 100 + ordinal, 5), len(columns)) + columns
            )
        ordinal += len(record)
    return found


def read_from(log: Sequence[Record], start: int = 0, codes: frozenset[int] | None = None) -> Slice:
    """What a store gives from message number `start` on: whole records, of a filter's those that may match."""
    end, ordinal = sum(map(len, log)), 0
    parts: list[bytes] = []
    for record, data in zip(log, encoded(log), strict=True):
        ordinal += len(record)
        if ordinal > start and (codes is None or any(code in codes for _, code in record)):
            parts.append(data)
    return Slice(parts, start * OFFSET_UNIT, end * OFFSET_UNIT, end - start, sum(map(len, parts)), 0, has_batches=True)


@given(records, st.data())
def test_every_message_comes_once_and_in_order_however_little_is_taken(log: list[Record], data: st.DataObject) -> None:
    messages = [message for record in log for message in record]
    codes = data.draw(st.sampled_from([None, frozenset({7})]))
    at, got = 0, []
    while at < len(messages):
        most_bytes, most = data.draw(st.integers(1, 200)), data.draw(st.integers(1, 5))
        piece = unpack_batches(read_from(log, at, codes), max_bytes=most_bytes, max_messages=most, codes=codes)
        entries = decode_stored(b"".join(piece.parts))
        assert len(entries) == piece.count <= most
        got += [(entry.payload, entry.offset, entry.message_id) for entry in entries]
        assert piece.next_offset > at * OFFSET_UNIT, "it moves on"
        at = piece.next_offset // OFFSET_UNIT
    assert got == [
        (payload, n * OFFSET_UNIT, 100 + n)
        for n, (payload, code) in enumerate(messages)
        if codes is None or code in codes
    ]


def test_a_range_ends_within_a_pack() -> None:
    log: list[Record] = [[(b"%d" % n, -1) for n in range(10)]]
    piece = unpack_batches(read_from(log, 3), max_bytes=10_000, max_messages=100, end_offset=6 * OFFSET_UNIT)
    assert [entry.payload for entry in decode_stored(b"".join(piece.parts))] == [b"3", b"4", b"5"]
    assert (piece.next_offset, piece.count) == (6 * OFFSET_UNIT, 3)


@pytest.mark.parametrize("at", [0, 2, 10, 40, -1], ids=["tag", "length", "head", "head's check", "body"])
def test_of_a_pack_that_was_damaged_nothing_is_guessed(at: int) -> None:
    log: list[Record] = [[(b"a", -1)], [(b"b", -1), (b"c", -1)], [(b"d", -1)]]
    found = read_from(log)
    damaged = bytearray(found.parts[1])
    damaged[at] ^= 1
    found.parts[1] = bytes(damaged)
    with pytest.raises(FormatError):
        unpack_batches(found, max_bytes=10_000, max_messages=100)
