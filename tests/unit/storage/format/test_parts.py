"""The small parts: open files, record formats."""

from __future__ import annotations

import struct
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core.sequences import StoredLocation, Window
from pytubemq.errors import NewerVersionError, OlderVersionError
from pytubemq.storage.disk.file_cache import FileCache, LostFileError
from pytubemq.storage.format.entry import EntryEncoder, varint
from pytubemq.storage.format.header import HEADER_BYTES, VERSION, FileHeader, FileKind, decode_header
from pytubemq.storage.format.index import (
    INDEX_BYTES,
    IndexEntry,
    decode_index_entry,
    encode_index_entry,
    last_record_at,
)
from pytubemq.storage.format.record import (
    LogEnd,
    LossReason,
    LostRange,
    Sequences,
    decode_records,
    encode_end,
    encode_lost_range,
    encode_meta,
    encode_window,
)
from pytubemq.storage.format.record_range import RecordRange
from pytubemq.testing.disk import FaultyDisk
from pytubemq.wire.batch.stored import stored_entry
from pytubemq.wire.protobuf.varint import encode_varint


def test_few_files_are_open_and_none_is_closed_under_its_user() -> None:
    disk, root = FaultyDisk(), Path("/d")
    disk.makedirs(root)
    files = FileCache(disk, limit=2)
    with files.borrow(root / "held", create=True) as held:
        for number in range(5):
            with files.borrow(root / str(number), create=True) as file:
                file.pwritev([b"x"], 0)
            assert files.open_files <= 2
        held.pwritev([b"still open"], 0)
        with files.borrow(root / "held") as same:
            assert same is held
        files.close()
        assert held.pread(10, 0) == b"still open"
    with pytest.raises(OSError, match="Bad file descriptor"):
        held.size()
    assert files.open_files == 0


def test_a_file_that_cannot_be_opened_is_not_remembered() -> None:
    files = FileCache(FaultyDisk(), limit=2)
    for _ in range(2):
        with pytest.raises(LostFileError, match="No such file") as raised, files.borrow(Path("/nothing")):
            pass
        assert raised.value.text == "/nothing is missing"
    assert files.open_files == 0


numbers = st.integers(0, (1 << 64) - 1)
small = st.integers(0, (1 << 32) - 1)


@given(number=numbers, base=numbers, salt=small, flipped=st.integers(0, HEADER_BYTES * 8 - 1))
def test_a_header_proves_itself(number: int, base: int, salt: int, flipped: int) -> None:
    header = FileHeader(FileKind.INDEX, number, base, salt)
    data = bytearray(header.encode())
    assert len(data) == HEADER_BYTES
    assert decode_header(bytes(data), FileKind.INDEX, Path("x")) == header
    assert decode_header(bytes(data), FileKind.LOG, Path("x")) is None
    assert decode_header(bytes(data[:-1]), FileKind.INDEX, Path("x")) is None
    data[flipped // 8] ^= 1 << flipped % 8
    assert decode_header(bytes(data), FileKind.INDEX, Path("x")) is None


@pytest.mark.parametrize(("version", "error"), [(VERSION + 1, NewerVersionError), (VERSION - 1, OlderVersionError)])
def test_a_header_of_another_version_is_refused_by_name(version: int, error: type[Exception]) -> None:
    data = bytearray(FileHeader(FileKind.LOG, 1, 2).encode())
    struct.pack_into("<I", data, 8, version)
    data[HEADER_BYTES - 4 :] = crc32(data[: HEADER_BYTES - 4]).to_bytes(4, "little")
    with pytest.raises(error, match=f"/d/x has version {version}"):
        decode_header(bytes(data), FileKind.LOG, Path("/d/x"))


index_entries = st.builds(
    IndexEntry,
    position=numbers,
    first_ordinal=numbers,
    append_time_ms=st.integers(-(1 << 63), (1 << 63) - 1),
    size_bytes=small,
    messages=small,
    key_code=st.integers(-(1 << 31), (1 << 31) - 1),
    crc=small,
    kind=st.integers(0, 3),
)


@given(entry=index_entries, flipped=st.integers(0, INDEX_BYTES * 8 - 1))
def test_an_index_entry_proves_itself(entry: IndexEntry, flipped: int) -> None:
    data = bytearray(encode_index_entry(*entry))
    assert len(data) == INDEX_BYTES == 48
    assert decode_index_entry(bytes(data), 0) == entry
    assert decode_index_entry(bytes(data), 1) is None
    data[flipped // 8] ^= 1 << flipped % 8
    assert decode_index_entry(bytes(data), 0) is None


@given(counts=st.lists(st.integers(1, 50), min_size=1, max_size=30), base=st.integers(0, 1 << 40))
def test_the_record_of_a_message_is_found_by_its_number(counts: list[int], base: int) -> None:
    firsts = [base + sum(counts[:at]) for at in range(len(counts))]
    index = b"".join(
        encode_index_entry(0, first, 0, 1, count, -1, 0, 1) for first, count in zip(firsts, counts, strict=True)
    )
    assert last_record_at(index, base - 1) == -1
    for at, (first, count) in enumerate(zip(firsts, counts, strict=True)):
        assert {last_record_at(index, ordinal) for ordinal in range(first, first + count)} == {at}


names = st.text("abcXYZ_0189é", min_size=1, max_size=30)
runs = st.builds(
    lambda topic, partition_id, ordinal, position, count, records, entries: RecordRange(
        topic, partition_id, ordinal, position, count, b"i" * INDEX_BYTES * records, entries
    ),
    names, small, numbers, numbers, small, st.integers(0, 4), st.binary(max_size=50),
)  # fmt: skip
places = st.builds(StoredLocation, numbers, small, numbers, numbers)
sequences = st.builds(Sequences, names, small, numbers, small, places)
windows = st.builds(
    Window,
    small,
    numbers,
    st.lists(st.tuples(numbers, numbers), max_size=4),
    st.lists(places, max_size=4),
)
log_ends = st.builds(LogEnd, numbers, numbers, numbers, numbers, st.integers(-(1 << 63), (1 << 63) - 1), small)


@given(
    written=st.lists(runs, max_size=5),
    confirmed=st.dictionaries(st.tuples(names, names, small), st.integers(-(1 << 63), (1 << 63) - 1), max_size=5),
    ends=st.dictionaries(st.tuples(names, small), log_ends, max_size=5),
    numbered=st.lists(sequences, max_size=5),
    known=st.dictionaries(st.tuples(names, small, numbers), windows, max_size=5),
    lost_ranges=st.lists(st.builds(LostRange, names, small, numbers, numbers, st.sampled_from(LossReason)), max_size=3),
)
def test_records_come_back_as_they_were(
    written: list[RecordRange],
    confirmed: dict[tuple[str, str, int], int],
    ends: dict[tuple[str, int], LogEnd],
    numbered: list[Sequences],
    known: dict[tuple[str, int, int], Window],
    lost_ranges: list[LostRange],
) -> None:
    parts = encode_meta(written, confirmed, numbered)
    parts += [encode_end(*key, end) for key, end in ends.items()]
    parts += [encode_window(key, window) for key, window in known.items()]
    parts += map(encode_lost_range, lost_ranges)
    found = decode_records(b"".join(parts), b"".join(run.entries for run in written))
    assert (found.runs, found.confirmed, found.ends) == (written, confirmed, ends)
    assert (found.sequences, found.windows, found.lost_ranges) == (numbered, known, lost_ranges)


@given(
    time_ms=st.integers(0, (1 << 62)),
    producer=st.none() | st.tuples(st.integers(1, (1 << 63) - 1), st.integers(0, (1 << 31) - 1)),
    sent=st.lists(
        st.tuples(
            st.integers(0, (1 << 63) - 1),
            st.binary(max_size=200),
            st.integers(-(1 << 31), (1 << 31) - 1),
            st.integers(0, (1 << 63) - 1),
            st.integers(-(1 << 31), (1 << 31) - 1),
            st.integers(0, (1 << 63) - 1),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_entries_are_encoded_as_protobuf_does(
    time_ms: int, producer: tuple[int, int] | None, sent: list[tuple[int, bytes, int, int, int, int]]
) -> None:
    encoder = EntryEncoder(time_ms, *(producer or ()))
    for message_id, payload, flag, offset, check_sum, sequence in sent:
        numbered = () if producer is None else (*producer, sequence)
        wanted = stored_entry(message_id, payload, flag, offset, time_ms, check_sum, *numbered)
        assert encoder.encode(message_id, payload, flag, offset, check_sum, sequence) == wanted


@given(st.integers(-(1 << 63), (1 << 64) - 1))
def test_a_number_is_encoded_as_protobuf_does(value: int) -> None:
    assert varint(value) == encode_varint(value)
