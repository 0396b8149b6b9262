"""Packs taken apart for consumers that know none, against the same messages told one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.broker.unpacking import unpacked
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.selection import Slice
from pytubemq.wire.checksum import check_sum
from pytubemq.wire.hot import decode_stored, stored_entry
from pytubemq.wire.pack import PackHead, encode_columns, stored_pack_head

if TYPE_CHECKING:
    from collections.abc import Sequence

Record = list[tuple[bytes, int]]
"""Payload and filter code of each message; one alone is a single entry."""

records = st.lists(
    st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.sampled_from([-1, 7, 8])), min_size=1, max_size=6),
    min_size=1,
    max_size=6,
)


def blob(log: Sequence[Record]) -> bytes:
    parts: list[bytes] = []
    ordinal = 0
    for record in log:
        if len(record) == 1:
            payload = record[0][0]
            parts.append(stored_entry(100 + ordinal, payload, 0, ordinal * OFFSET_UNIT, 5, check_sum(payload)))
        else:
            codes = [code for _, code in record]
            columns = encode_columns([payload for payload, _ in record], 0, codes[0] if len(set(codes)) == 1 else codes)
            parts.append(stored_pack_head(PackHead(ordinal * OFFSET_UNIT, 100 + ordinal, 5), len(columns)) + columns)
        ordinal += len(record)
    return b"".join(parts)


def whole(log: Sequence[Record], start: int = 0) -> Slice:
    end = sum(map(len, log))
    data = blob(log)
    return Slice([data], start * OFFSET_UNIT, end * OFFSET_UNIT, end - start, len(data), 0, packs=True)


@given(records, st.data())
def test_every_message_comes_once_and_in_order_however_little_is_taken(log: list[Record], data: st.DataObject) -> None:
    messages = [message for record in log for message in record]
    codes = data.draw(st.sampled_from([None, frozenset({7})]))
    at, got = 0, []
    while at < len(messages):
        # a store gives whole records from the one on that holds the place
        base, rest = 0, list(log)
        while base + len(rest[0]) <= at:
            base += len(rest.pop(0))
        found = whole(rest)
        found.parts = [blob(log)[len(blob(log)) - len(tail(log, len(log) - len(rest))) :]]
        found.start_offset, found.next_offset = at * OFFSET_UNIT, len(messages) * OFFSET_UNIT
        if codes is not None:
            found.parts = [b"".join(matching(log, len(log) - len(rest), codes))]
        piece = unpacked(
            found, max_bytes=data.draw(st.integers(1, 200)), max_messages=data.draw(st.integers(1, 5)), codes=codes
        )
        entries = decode_stored(b"".join(piece.parts))
        assert len(entries) == piece.count
        got += [(entry.payload, entry.offset, entry.message_id) for entry in entries]
        assert piece.next_offset > at * OFFSET_UNIT, "it moves on"
        at = piece.next_offset // OFFSET_UNIT
    assert got == [
        (payload, n * OFFSET_UNIT, 100 + n)
        for n, (payload, code) in enumerate(messages)
        if codes is None or code in codes
    ]


def spans(log: Sequence[Record]) -> list[tuple[int, int]]:
    """Where each record lies in the blob."""
    data, found, at = blob(log), [], 0
    for n in range(len(log)):
        end = len(blob(log[: n + 1]))
        found.append((at, end))
        at = end
    assert at == len(data)
    return found


def tail(log: Sequence[Record], first: int) -> bytes:
    return blob(log)[spans(log)[first][0] :]


def matching(log: Sequence[Record], first: int, codes: frozenset[int]) -> list[bytes]:
    """The records from number `first` on that a filtered read takes: those with one of the codes in them."""
    data, places = blob(log), spans(log)
    return [
        data[start:end]
        for record, (start, end) in list(zip(log, places, strict=True))[first:]
        if any(code in codes for _, code in record)
    ]


def test_a_range_ends_within_a_pack() -> None:
    log: list[Record] = [[(b"%d" % n, -1) for n in range(10)]]
    piece = unpacked(whole(log, 3), max_bytes=10_000, max_messages=100, end_offset=6 * OFFSET_UNIT)
    assert [entry.payload for entry in decode_stored(b"".join(piece.parts))] == [b"3", b"4", b"5"]
    assert (piece.next_offset, piece.count) == (6 * OFFSET_UNIT, 3)


@pytest.mark.parametrize("at", [10, 40, -1])
def test_a_pack_that_was_damaged_is_passed_over(at: int) -> None:
    log: list[Record] = [[(b"a", -1)], [(b"b", -1), (b"c", -1)], [(b"d", -1)]]
    found = whole(log)
    start, end = spans(log)[1]
    data = bytearray(found.parts[0])
    data[(start + at) if at > 0 else end - 1] ^= 1
    found.parts = [bytes(data)]
    piece = unpacked(found, max_bytes=10_000, max_messages=100)
    assert [entry.payload for entry in decode_stored(b"".join(piece.parts))] == [b"a", b"d"]
    assert piece.next_offset == 4 * OFFSET_UNIT
