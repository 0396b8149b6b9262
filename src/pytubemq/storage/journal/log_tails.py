"""The tail of each partition's log behind the checkpoint, which may still have messages that a damaged journal lost.

The invariant: a record is recovered only if its index entry and its bytes pass their checks, if it is where the journal
says that it must be, and if its message id is newer than the checkpoint. So nothing of a dropped topic, and nothing
from before an earlier recovery, comes back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pytubemq.core.sequences import StoredLocation
from pytubemq.errors import EnvelopeError, FormatError
from pytubemq.model.limits import MIB
from pytubemq.storage.disk.disk import open_file, read_exactly
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.index import INDEX_BYTES, RecordKind, decode_index_entry, encode_index_entry
from pytubemq.storage.format.record import Sequences
from pytubemq.storage.format.record_range import RecordRange, record_is_sound
from pytubemq.storage.format.scan import read_record
from pytubemq.storage.journal.quarantine import reach_of_tail
from pytubemq.storage.log.index_repair import Border, repair_index, scanner
from pytubemq.wire.batch.record_batch import RECORD_BATCH_TAG, read_stored_batch
from pytubemq.wire.batch.stored import decode_stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.format.index import IndexEntry
    from pytubemq.storage.format.record import PartitionKey
    from pytubemq.storage.log.segment import Segment

_RUN_BYTES: Final = MIB
"""Approximate bytes of messages in one recovered run."""


class LogTails:
    """A reader of the segments that a quarantine took out of the logs. Blocks; for one thread."""

    def __init__(self, disk: Disk, segments: Mapping[PartitionKey, Sequence[Segment]], *, after_id: int) -> None:
        """Read only messages newer than `after_id`, the last message id that the checkpoint knows."""
        self._disk = disk
        self._segments = segments
        self._after_id = after_id
        self.messages = 0
        """Number of recovered messages."""
        self.last_message_id = after_id
        """The largest id of a recovered message."""

    @property
    def partitions(self) -> list[PartitionKey]:
        """The partitions that have a tail."""
        return sorted(self._segments)

    def between(self, key: PartitionKey, begin: Border, end: Border) -> list[RecordRange]:
        """Return the runs between two borders, in order; there may be gaps between them."""
        runs: list[RecordRange] = []
        # Ids rise along a partition, so a record with a lower one is left from before an earlier recovery.
        last_id = self._after_id
        segments = self._segments.get(key, ())
        for at, segment in enumerate(segments):
            low = max(begin, Border(segment.base_ordinal, segment.base_position))
            high = end
            # A segment is believed up to where the next one begins.
            if at + 1 < len(segments):
                high = min(end, Border(segments[at + 1].base_ordinal, segments[at + 1].base_position))
            if low.ordinal < high.ordinal and low.position <= high.position:
                found, last_id = self._read(key, segment, low, high, last_id)
                runs += found
        self.messages += sum(run.count for run in runs)
        self.last_message_id = max(self.last_message_id, last_id)
        return runs

    def behind(self, key: PartitionKey, begin: Border) -> tuple[Border, list[RecordRange]]:
        """Return where the last record behind a border ends, and the runs up to it."""
        end = begin
        for segment in self._segments.get(key, ()):
            end = max(end, reach_of_tail(self._disk, segment, begin))
        runs = self.between(key, begin, end)
        return (Border(runs[-1].end_ordinal, runs[-1].end_position) if runs else begin), runs

    def whole(self, run: RecordRange, damaged: Sequence[int]) -> RecordRange:
        """Return a run with the bytes of damaged records restored, where the logs have exactly the same records."""
        entries = bytearray(run.entries)
        for number in damaged:
            entry = run.entry(number)
            begin, end = Border(entry.first_ordinal, entry.position), Border(entry.end_ordinal, entry.end_position)
            at = entry.position - run.base_position
            for found in self.between((run.topic, run.partition_id), begin, end):
                # By the journal's own index entry: only the very record that it lost may take its place.
                if record_is_sound(entry, memoryview(found.entries)):
                    entries[at : at + entry.size_bytes] = found.entries
        return replace(run, entries=bytes(entries))

    def _read(
        self, key: PartitionKey, segment: Segment, begin: Border, end: Border, last_id: int
    ) -> tuple[list[RecordRange], int]:
        # Without the log there are numbers and no messages.
        if not self._disk.exists(segment.log_path):
            return [], last_id
        index = self._index(segment, begin, end)
        file = open_file(self._disk, segment.log_path)
        try:
            # An index entry that fails is built anew from its record, so damage to the index alone loses no message.
            repaired = repair_index(index, begin, end, scanner(file, segment)).index
            gathered = _Gathered(key)
            for at in range(len(repaired) // INDEX_BYTES):
                entry = decode_index_entry(repaired, at)
                if entry is None or entry.kind == RecordKind.HOLE:
                    continue
                record = read_exactly(file, entry.size_bytes, segment.log_size(entry.position))
                stored = read_record(record) if record_is_sound(entry, memoryview(record)) else None
                if stored is not None and stored.first_ordinal == entry.first_ordinal and stored.message_id > last_id:
                    last_id = stored.message_id + stored.messages - 1
                    gathered.add(entry, record)
            return gathered.runs(), last_id
        finally:
            file.close()

    def _index(self, segment: Segment, begin: Border, end: Border) -> bytes:
        """Return the index entries between two borders; an entry that fails its check stays in its place."""
        if not self._disk.exists(segment.index_path):
            return b""
        file = open_file(self._disk, segment.index_path)
        try:
            data = read_exactly(file, max(0, file.size() - HEADER_BYTES), HEADER_BYTES)
        finally:
            file.close()
        firsts = [entry.first_ordinal if (entry := decode_index_entry(data, at)) is not None else -1
                  for at in range(len(data) // INDEX_BYTES)]  # fmt: skip
        # An entry that fails its check is never a bound, only between two.
        start = next((at for at, first in enumerate(firsts) if first >= begin.ordinal), len(firsts))
        stop = next((at for at, first in enumerate(firsts) if first >= end.ordinal), len(firsts))
        return data[start * INDEX_BYTES : stop * INDEX_BYTES]


class _Gathered:
    """Consecutive records, collected into runs."""

    def __init__(self, key: PartitionKey) -> None:
        self._key = key
        self._runs: list[RecordRange] = []
        self._entries: list[IndexEntry] = []
        self._records: list[bytes] = []
        self._size_bytes = 0

    def add(self, entry: IndexEntry, record: bytes) -> None:
        """Add the next record."""
        is_next = not self._entries or self._entries[-1].end_position == entry.position
        if not is_next or self._size_bytes >= _RUN_BYTES:
            self._end_run()
        self._entries.append(entry)
        self._records.append(record)
        self._size_bytes += len(record)

    def runs(self) -> list[RecordRange]:
        """Return all runs."""
        self._end_run()
        return self._runs

    def _end_run(self) -> None:
        if self._entries:
            first, last = self._entries[0], self._entries[-1]
            index = b"".join(encode_index_entry(*entry) for entry in self._entries)
            count = last.end_ordinal - first.first_ordinal
            self._runs.append(
                RecordRange(*self._key, first.first_ordinal, first.position, count, index, b"".join(self._records))
            )
        self._entries, self._records, self._size_bytes = [], [], 0


def sequences_in(runs: Iterable[RecordRange]) -> list[Sequences]:
    """Return the producer sequences in runs, as the stored records have them."""
    found: list[Sequences] = []
    for run in runs:
        for number in range(run.records):
            entry = run.entry(number)
            at = entry.position - run.base_position
            # Records have the numbers in themselves, so what lost blocks had noted of producers comes back with them.
            marked = _mark(run.entries[at : at + entry.size_bytes]) if entry.kind != RecordKind.HOLE else None
            if marked is not None:
                producer_id, epoch, sequence, message_id = marked
                place = StoredLocation(sequence, entry.messages, entry.first_ordinal, message_id)
                found.append(Sequences(run.topic, run.partition_id, producer_id, epoch, place))
    return found


def _mark(record: bytes) -> tuple[int, int, int, int] | None:
    """Return producer id, epoch, sequence and message id of a record's first message; None without a sequence."""
    try:
        if record.startswith(RECORD_BATCH_TAG):
            # Its bytes passed their check when they were read from the tail.
            head, _ = read_stored_batch(record, check=False)
            return (head.producer_id, head.producer_epoch, head.sequence, head.message_id) if head.producer_id else None
        [message] = decode_stored(record)
    except (FormatError, EnvelopeError, ValueError):
        # Without readable numbers the messages are kept, and only their sequences are unknown.
        return None
    if message.producer_id is None or message.producer_epoch is None or message.sequence is None:
        return None
    return message.producer_id, message.producer_epoch, message.sequence, message.message_id
