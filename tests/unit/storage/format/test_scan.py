"""The scanner of log files: every sound record is found, whatever lies between them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.storage.format.index import decode_index_entry
from pytubemq.storage.format.scan import DamagedBytes, LogRecord, read_record, scan_log
from pytubemq.storage.log.index_repair import Border, encode_found, repair_index
from pytubemq.testing.disk import FaultyDisk
from pytubemq.wire.batch.stored import decode_stored
from tests.unit.storage.helpers import columns, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.storage.disk.disk import DiskFile
    from pytubemq.storage.format.record_range import RecordRange


def run_of(kinds: list[int], *, tricky: bool = False) -> RecordRange:
    """A run of records of so many messages, 0 a single one; `tricky` payloads look like the beginning of records."""
    store = open_store(FaultyDisk())
    staging = store.staging()
    rng = Random(len(kinds))
    for at, messages in enumerate(kinds):
        bodies = [
            rng.randbytes(30) + (b'"\x10\x08\xda\x3e"\x81\x08' if tricky else b"") for _ in range(max(1, messages))
        ]
        if messages:
            staging.append_batch("demo", 0, columns(bodies, codes=7 if at % 2 else list(range(messages))))
        else:
            staging.append("demo", 0, bodies[0], 0, -1)
    prepared = store.prepare(staging, 1_790_000_000_000)
    [run] = prepared.runs
    return run


def file_of(data: bytes) -> DiskFile:
    disk = FaultyDisk()
    disk.makedirs(Path("/d"))
    disk.put(Path("/d/log"), data)
    return disk.open(Path("/d/log"))


KINDS = st.lists(st.integers(0, 5), min_size=1, max_size=12)


@given(KINDS, st.booleans())
def test_what_is_found_gives_the_index_again(kinds: list[int], tricky: bool) -> None:
    run = run_of(kinds, tricky=tricky)
    found = list(scan_log(file_of(run.entries), 0, len(run.entries)))
    made = b"".join(encode_found(item, item.at) for item in found if isinstance(item, LogRecord))
    assert len(found) == len(kinds)
    for at in range(len(kinds)):
        entry, again = decode_index_entry(run.index, at), decode_index_entry(made, at)
        assert entry is not None
        assert again is not None
        if entry.kind == 2:  # the code of a pack with many says nothing
            again = again._replace(key_code=entry.key_code)
        assert again == entry


@given(KINDS, st.integers(0, 1 << 20), st.integers(1, 60), st.integers(0, 1 << 20))
def test_damage_costs_only_the_records_it_touches(kinds: list[int], at: int, size: int, seed: int) -> None:
    run = run_of(kinds, tricky=True)
    at %= len(run.entries)
    size = min(size, len(run.entries) - at)
    damaged = bytes(byte ^ (Random(seed + n).randrange(255) + 1) for n, byte in enumerate(run.entries[at : at + size]))
    data = run.entries[:at] + damaged + run.entries[at + size :]
    found = list(scan_log(file_of(data), 0, len(data)))
    records = {item.at: item for item in found if isinstance(item, LogRecord)}
    position = ordinal = 0
    for number in range(len(kinds)):
        entry = decode_index_entry(run.index, number)
        assert entry is not None
        if entry.end_position <= at or entry.position >= at + size:
            assert records[entry.position].first_ordinal == entry.first_ordinal
        elif (found_there := records.get(entry.position)) is not None:
            # Nothing covers the id, the flag and the time of a single message but the check in its index entry.
            assert not found_there.is_batch
            message, before = decode_stored(data[entry.position : entry.end_position])[0], run.entries
            assert message.payload == decode_stored(before[entry.position : entry.end_position])[0].payload
    for item in found:
        assert item.at == position, "what is found covers all bytes"
        position += item.size_bytes
        if isinstance(item, LogRecord):
            assert item.first_ordinal >= ordinal
            ordinal = item.first_ordinal + item.messages
    assert position == len(data)


@given(KINDS, st.lists(st.integers(0, 11), max_size=4), st.integers(0, 1 << 20), st.booleans())
def test_a_mended_index_covers_the_segment_without_gap_or_overlap(
    kinds: list[int], broken: list[int], flip: int, cut: bool
) -> None:
    run = run_of(kinds)
    index, entries = bytearray(run.index), bytearray(run.entries)
    for number in broken:
        index[number % len(kinds) * 48 + flip % 48] ^= 16
    entries[flip % len(entries)] ^= 1
    if cut:
        del index[flip % len(index) :]
    end = Border(run.end_ordinal, run.end_position)

    def scan(begin: Border, stop: Border) -> Iterator[LogRecord | DamagedBytes]:
        yield from scan_log(
            file_of(bytes(entries)),
            begin.position,
            stop.position,
            first_ordinal=begin.ordinal,
            end_ordinal=stop.ordinal,
        )

    repaired = repair_index(bytes(index), Border(0, 0), end, scan)
    here = Border(0, 0)
    for at in range(len(repaired.index) // 48):
        entry = decode_index_entry(repaired.index, at)
        assert entry is not None
        assert (entry.first_ordinal, entry.position) == here
        here = Border(entry.end_ordinal, entry.end_position)
    assert here == end
    lost = sum(piece.to_ordinal - piece.from_ordinal for piece in repaired.lost)
    assert lost <= max(1, *kinds), "at most the record whose bytes are damaged"


def test_a_record_alone_is_read_whole_or_not_at_all() -> None:
    run = run_of([0])
    assert read_record(run.entries) is not None
    assert read_record(run.entries[:-1]) is None
    assert read_record(run.entries + b"x") is None
    assert read_record(b"") is None
