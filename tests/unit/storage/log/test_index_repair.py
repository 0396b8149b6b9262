"""An index with damage: what is said to be lost are the holes that it has, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.storage.format.index import INDEX_BYTES, RecordKind, decode_index_entry
from pytubemq.storage.format.scan import DamagedBytes, LogRecord
from pytubemq.storage.log.index_repair import Border, Lost, RepairedIndex, repair_index

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD_BYTES = 10


def found(ordinal: int, at: int) -> LogRecord:
    return LogRecord(at, RECORD_BYTES, ordinal, 1, 1000, -1, False, False, 0, ordinal + 1)


def repaired(end: Border, *records: LogRecord | DamagedBytes) -> RepairedIndex:
    """Without a sound entry, from what a scan of the log finds."""

    def scan(begin: Border, end: Border) -> Iterator[LogRecord | DamagedBytes]:
        yield from records

    return repair_index(b"", Border(0, 0), end, scan)


def holes(index: bytes | bytearray) -> list[Lost]:
    entries = [decode_index_entry(bytes(index), at) for at in range(len(index) // INDEX_BYTES)]
    return [
        Lost(entry.first_ordinal, entry.end_ordinal, entry.position)
        for entry in entries
        if entry is not None and entry.kind == RecordKind.HOLE
    ]


def test_a_record_that_is_lost_between_sound_ones_is_a_hole() -> None:
    one = repaired(Border(3, 30), found(0, 0), DamagedBytes(10, 10), found(2, 20))
    assert one.lost == holes(one.index) == [Lost(1, 2, 10)]
    assert one.rebuilt == 2


def test_where_bytes_are_left_over_all_is_one_loss_and_nothing_was_rebuilt() -> None:
    # The last record ends before the border: one of them is not what it seems, so one hole takes the place of all.
    one = repaired(Border(3, 40), found(0, 0), DamagedBytes(10, 10), found(2, 20))
    assert one.lost == holes(one.index) == [Lost(0, 3, 0)]
    assert one.rebuilt == 0
