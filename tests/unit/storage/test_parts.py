"""The small parts: open files, record formats."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.storage.files import FileCache
from pytubemq.storage.record import (
    HEADER_BYTES,
    FileHeader,
    FileKind,
    IndexEntry,
    Run,
    decode_header,
    decode_index_entry,
    decode_records,
    encode_end,
    encode_index_entry,
    encode_meta,
)
from pytubemq.testing.disk import FaultyDisk


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
        with pytest.raises(FileNotFoundError), files.borrow(Path("/nothing")):
            pass
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


@given(
    ordinal=st.integers(0, (1 << 50)),
    position=numbers,
    time_ms=st.integers(-(1 << 63), (1 << 63) - 1),
    size=small,
    code=st.integers(-(1 << 31), (1 << 31) - 1),
    crc=small,
    flipped=st.integers(0, 255),
)
def test_an_index_entry_proves_itself_and_its_place(
    ordinal: int, position: int, time_ms: int, size: int, code: int, crc: int, flipped: int
) -> None:
    data = bytearray(encode_index_entry(ordinal, position, time_ms, size, code, crc))
    assert len(data) == 32
    assert decode_index_entry(bytes(data), 0, ordinal) == IndexEntry(position, time_ms, size, code, crc)
    assert decode_index_entry(bytes(data), 0, ordinal + 1) is None
    data[flipped // 8] ^= 1 << flipped % 8
    assert decode_index_entry(bytes(data), 0, ordinal) is None


names = st.text("abcXYZ_0189é", min_size=1, max_size=30)
runs = st.builds(
    lambda topic, partition_id, ordinal, position, count, entries: Run(
        topic, partition_id, ordinal, position, count, b"i" * 32 * count, entries
    ),
    names, small, numbers, numbers, st.integers(0, 4), st.binary(max_size=50),
)  # fmt: skip


@given(
    written=st.lists(runs, max_size=5),
    confirmed=st.dictionaries(st.tuples(names, names, small), st.integers(-(1 << 63), (1 << 63) - 1), max_size=5),
    ends=st.dictionaries(st.tuples(names, small), st.tuples(numbers, numbers), max_size=5),
)
def test_records_come_back_as_they_were(
    written: list[Run], confirmed: dict[tuple[str, str, int], int], ends: dict[tuple[str, int], tuple[int, int]]
) -> None:
    meta = b"".join(encode_meta(written, confirmed)) + b"".join(encode_end(*key, *end) for key, end in ends.items())
    found = decode_records(meta, b"".join(run.entries for run in written))
    assert (found.runs, found.confirmed, found.ends) == (written, confirmed, ends)
