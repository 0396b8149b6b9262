"""Packs: what went in comes out, and whatever damages them on the way is found."""

from __future__ import annotations

import itertools
import struct
from array import array
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import FormatError
from pytubemq.model.limits import MAX_RECORD_BATCH_MESSAGES
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.batch import record_batch
from pytubemq.wire.batch.record_batch import (
    Columns,
    RecordBatchHead,
    encode_columns,
    read_columns,
    read_record_batch,
    read_stored_batch,
    stored_batch_head,
)
from tests.unit.wire.strategies import I32, fault

if TYPE_CHECKING:
    from collections.abc import Iterator

U64 = st.integers(0, 2**64 - 1)
GIVEN = st.integers(0, 2**63 - 1 - OFFSET_UNIT * MAX_RECORD_BATCH_MESSAGES)
HEADS = st.builds(RecordBatchHead, GIVEN, GIVEN, GIVEN, U64, U64, st.integers(0, 2**32 - 1))


@st.composite
def contents(draw: st.DrawFn) -> tuple[list[bytes], int | list[int], int | list[int]]:
    """Payloads, flags and filter codes of a pack."""
    payloads = draw(st.lists(st.binary(max_size=40), min_size=1, max_size=12))
    each = st.lists(I32, min_size=len(payloads), max_size=len(payloads))
    return payloads, draw(I32 | each), draw(I32 | each)


def each(value: int | list[int], count: int) -> list[int]:
    return [value] * count if isinstance(value, int) else value


def codes_of(columns: Columns) -> list[int]:
    return [columns.key_code] * columns.count if columns.codes is None else [*columns.codes]


def stored(head: RecordBatchHead, columns: bytes) -> bytes:
    return stored_batch_head(head, len(columns)) + columns


@given(contents())
def test_columns_hold_what_was_put_in(content: tuple[list[bytes], int | list[int], int | list[int]]) -> None:
    payloads, flags, codes = content
    for data in (encode_columns(*content), memoryview(encode_columns(*content))):
        columns = read_columns(data)
        count = len(payloads)
        assert (columns.count, columns.payloads(), list(columns.lengths)) == (count, payloads, [*map(len, payloads)])
        assert [columns.flag_of(at) for at in range(count)] == each(flags, count)
        assert codes_of(columns) == each(codes, count)
        assert columns.mixed == (not isinstance(codes, int))
        assert columns.payload_bytes == sum(map(len, payloads))
        bounds = columns.bounds()
        assert [bytes(data[a:b]) for a, b in itertools.pairwise(bounds)] == payloads


@given(contents())
def test_columns_are_laid_out_as_the_page_says(content: tuple[list[bytes], int | list[int], int | list[int]]) -> None:
    payloads, flags, codes = content
    count = len(payloads)
    which = (0 if isinstance(flags, int) else 1) | (0 if isinstance(codes, int) else 2)
    flag, code = (value if isinstance(value, int) else 0 for value in (flags, codes))
    wanted = struct.pack(f"<BBHIii{count}I", 1, which, 0, count, flag, code, *map(len, payloads))
    for column in (flags, codes):
        if not isinstance(column, int):
            wanted += struct.pack(f"<{count}i", *column)
    wanted += b"".join(payloads)
    assert encode_columns(*content) == struct.pack("<I", crc32(wanted)) + wanted


@given(st.lists(st.sampled_from([0, 1, 100, 5_000, 40_000]), min_size=1, max_size=40))
def test_the_check_does_not_depend_on_the_groups_it_is_made_in(sizes: list[int]) -> None:
    data = encode_columns([bytes([n]) * size for n, size in enumerate(sizes)], 0, -1)
    assert data[:4] == struct.pack("<I", crc32(data[4:]))
    assert list(read_columns(data).lengths) == sizes


@given(contents(), st.data())
def test_a_part_is_a_pack_of_its_own(
    content: tuple[list[bytes], int | list[int], int | list[int]], data: st.DataObject
) -> None:
    payloads, flags, codes = content
    start = data.draw(st.integers(0, len(payloads) - 1))
    stop = data.draw(st.integers(start + 1, len(payloads)))
    whole = read_columns(memoryview(encode_columns(*content)))
    part = read_columns(whole.part(start, stop))
    assert part.payloads() == payloads[start:stop]
    at = range(stop - start)
    assert [part.flag_of(n) for n in at] == each(flags, len(payloads))[start:stop]
    assert codes_of(part) == each(codes, len(payloads))[start:stop]


@given(contents(), st.data())
def test_any_flipped_bit_of_columns_is_found(
    content: tuple[list[bytes], int | list[int], int | list[int]], data: st.DataObject
) -> None:
    damaged = bytearray(encode_columns(*content))
    bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FormatError):
        read_columns(bytes(damaged))


@given(HEADS, contents(), st.data())
def test_any_flipped_bit_of_a_stored_pack_is_found(
    head: RecordBatchHead, content: tuple[list[bytes], int | list[int], int | list[int]], data: st.DataObject
) -> None:
    damaged = bytearray(stored(head, encode_columns(*content)))
    bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FormatError):
        read_stored_batch(bytes(damaged))


@given(HEADS, contents(), st.data())
def test_a_stored_pack_cut_anywhere_is_refused(
    head: RecordBatchHead, content: tuple[list[bytes], int | list[int], int | list[int]], data: st.DataObject
) -> None:
    record = stored(head, encode_columns(*content))
    cut = data.draw(st.integers(0, len(record) - 1))
    for piece in (record[:cut], record + b"\0" * (cut + 1)):
        with pytest.raises(FormatError):
            read_stored_batch(piece)
        with pytest.raises(FormatError):
            read_record_batch(piece)


@given(HEADS, contents())
def test_a_stored_pack_tells_where_it_stands(
    head: RecordBatchHead, content: tuple[list[bytes], int | list[int], int | list[int]]
) -> None:
    columns = encode_columns(*content)
    record = stored(head, columns)
    for data in (record, memoryview(record)):
        told, read = read_stored_batch(data)
        assert (told, bytes(read.data)) == (head, columns)


@given(st.binary(max_size=120))
def test_noise_is_refused_or_read(noise: bytes) -> None:
    for read in (read_columns, read_record_batch, read_stored_batch):
        fault(lambda read=read: read(noise), FormatError)  # type: ignore[misc]
    fault(lambda: read_columns(noise, check=False), FormatError)


@given(st.binary(min_size=8, max_size=60), st.integers(0, 3), st.integers(0, 30))
def test_columns_that_are_checked_elsewhere_still_name_no_more_than_there_is(
    noise: bytes, which: int, count: int
) -> None:
    data = struct.pack("<IBBHIii", 0, 1, which, 0, count, 0, 0) + noise
    error = fault(lambda: read_columns(data, check=False), FormatError)
    if error is None:
        columns = read_columns(data, check=False)
        assert columns.bounds()[-1] == len(data)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ((2, 0, 0, 1, 0, 0), "version 2"),
        ((1, 4, 0, 1, 0, 0), "columns 0x4"),
        ((1, 0, 1, 1, 0, 0), "version 1"),
        ((1, 0, 0, 0, 0, 0), "a record batch of 0 messages"),
        ((1, 0, 0, MAX_RECORD_BATCH_MESSAGES + 1, 0, 0), "16384 are allowed"),
        ((1, 0, 0, 0xFFFFFFFF, 0, 0), "16384 are allowed"),
        ((1, 3, 0, 2, 0, 0), "ends within its columns"),
    ],
)
def test_a_head_that_makes_no_sense_is_named(head: tuple[int, ...], words: str) -> None:
    body = struct.pack("<BBHIii", *head) + b"\0" * 12
    with pytest.raises(FormatError, match=words):
        read_columns(struct.pack("<I", crc32(body)) + body)


def test_lengths_beyond_the_bytes_there_are_cannot_be_claimed() -> None:
    """Four lengths of 4 GiB less one: their sum is looked at, not believed."""
    body = struct.pack("<BBHIii4I", 1, 0, 0, 4, 0, 0, *[0xFFFFFFFF] * 4) + b"abc"
    with pytest.raises(FormatError, match="names 17179869180 bytes"):
        read_columns(struct.pack("<I", crc32(body)) + body)


def test_another_byte_order_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of the other order swaps what its arrays hold. Here arrays hold it swapped already, so that swapping
    them again must give the bytes and numbers of this machine."""
    columns = encode_columns([b"a", b"bcd"], [1, -2], [3, -4])
    monkeypatch.setattr(record_batch, "_SWAP", not record_batch._SWAP)
    monkeypatch.setattr(record_batch, "array", SwappedArray)
    assert encode_columns([b"a", b"bcd"], [1, -2], [3, -4]) == columns
    read = read_columns(columns)
    assert read.payloads() == [b"a", b"bcd"]
    assert (list(read.flags or ()), list(read.codes or ())) == ([1, -2], [3, -4])


class SwappedArray:
    """An `array.array` as one of the other byte order would be: its bytes are the numbers' in that order."""

    def __init__(self, form: str, values: list[int] | tuple[int, ...] = ()) -> None:
        self.inner = array(form, values)

    def tobytes(self) -> bytes:
        turned = array(self.inner.typecode, self.inner)
        turned.byteswap()
        return turned.tobytes()

    def frombytes(self, data: bytes | memoryview) -> None:
        turned = array(self.inner.typecode)
        turned.frombytes(data)
        turned.byteswap()
        self.inner = turned

    def byteswap(self) -> None:
        self.inner.byteswap()

    def __iter__(self) -> Iterator[int]:
        return iter(self.inner)

    def __getitem__(self, at: int) -> int:
        return self.inner[at]


def test_a_stored_pack_needs_its_tag_and_its_length() -> None:
    record = stored(RecordBatchHead(0, 1, 2), encode_columns([b"x"], 0, -1))
    with pytest.raises(FormatError, match="begin with its tag"):
        read_stored_batch(b"\x22" + record[1:])
    with pytest.raises(FormatError, match="no length"):
        read_stored_batch(record[:2] + b"\xff" * 12)
    with pytest.raises(FormatError, match="no length"):
        read_stored_batch(record[:2])


@pytest.mark.parametrize("field", ["offset", "message_id", "append_time_ms"])
def test_a_head_from_which_nobody_can_count_up_is_none(field: str) -> None:
    columns = encode_columns([b"a"], 0, 0)
    head = RecordBatchHead(0, 0, 0)._replace(**{field: 2**63 - 28})
    stored = stored_batch_head(head, len(columns)) + columns
    with pytest.raises(FormatError, match="numbers out of range"):
        read_stored_batch(stored)
