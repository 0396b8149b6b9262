"""Files of messages that have none, made from the journal, which carries their records and their index entries.

The invariants: a record is taken only from a sound block, with its own check, at the ordinal and the position of its
entry, and only where these agree with the borders of the gap and with the records beside it. A file gets its name when
its bytes are on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.storage.disk.disk import flush_directory, write_all
from pytubemq.storage.disk.paths import partition_directory
from pytubemq.storage.format.header import HEADER_BYTES, FileHeader, FileKind
from pytubemq.storage.format.index import INDEX_BYTES, RecordKind
from pytubemq.storage.log.index_repair import Border
from pytubemq.storage.log.segment import Segment
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.storage.tools.read.blocks import FoundBlock, walk_blocks
from pytubemq.storage.tools.read.recovered_parts import find_salt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.format.record import PartitionKey
    from pytubemq.storage.format.record_range import RecordRange
    from pytubemq.storage.tools.read.journals import JournalsAtHand
    from pytubemq.storage.tools.repair_steps.gaps import Gap

_SEGMENT_BYTES: Final = StoreSettings().segment_bytes


class _RunPlace(NamedTuple):
    """A run in the journal files at hand."""

    file: int
    """The number of the file among them."""
    block: int
    """Byte at which its block begins."""
    key: PartitionKey
    base_ordinal: int


class Piece(NamedTuple):
    """Consecutive sound records of one run."""

    place: _RunPlace
    first_record: int
    records: int
    begin: Border
    end: Border
    first_ms: int
    last_ms: int
    is_certain: bool
    """True if all journal files since are at hand, so that a topic of the same name created later would show."""


@dataclass(slots=True, eq=False)
class _Made:
    """A segment that is being made."""

    segment: Segment
    end: Border
    last_ms: int

    def takes(self, piece: Piece) -> bool:
        """True if a piece continues in it: without a break, times rising, and no larger than a Broker makes it."""
        size = piece.end.position - self.segment.base_position
        return piece.begin == self.end and piece.first_ms >= self.last_ms and size <= _SEGMENT_BYTES


def find_pieces(
    disk: Disk, journals: JournalsAtHand, gaps: Mapping[PartitionKey, Sequence[Gap]]
) -> dict[PartitionKey, list[Piece]]:
    """Find the messages in gaps that the journal files have, in order. Raises OSError."""
    found: dict[PartitionKey, list[Piece]] = {key: [] for key, some in gaps.items() if some}
    reached: dict[PartitionKey, int] = {}
    for number, block in _blocks(disk, journals) if found else ():
        for run in block.records.runs:
            key = run.topic, run.partition_id
            pieces = found.get(key)
            if pieces is None:
                continue
            if run.base_ordinal < reached.get(key, 0):  # the topic was made anew, or an older state was put back
                pieces[:] = [piece for piece in pieces if piece.end.ordinal <= run.base_ordinal]
            reached[key] = run.end_ordinal
            place = _RunPlace(number, block.position, key, run.base_ordinal)
            for gap in gaps[key]:
                pieces += _pieces(run, gap, place, is_certain=journals.is_certain(number))
    return {key: kept for key, pieces in found.items() if (kept := _fitting(pieces, gaps[key]))}


def make_files(
    disk: Disk, journals: JournalsAtHand, found: Mapping[PartitionKey, Sequence[Piece]], root: Path
) -> dict[PartitionKey, list[Segment]]:
    """Make segments of pieces, next to what is there; returns them.

    Raises:
        OSError: some of them may be made; call again.
    """
    made: dict[PartitionKey, list[_Made]] = {}
    targets: dict[_RunPlace, list[tuple[Piece, Segment, int]]] = {}
    for key, pieces in found.items():
        directory = partition_directory(root, *key)
        disk.makedirs(directory)
        of_key = made[key] = []
        for piece in pieces:
            if not of_key or not of_key[-1].takes(piece):
                segment = Segment(directory, *piece.begin)
                _begin(disk, segment)
                of_key.append(_Made(segment, piece.begin, piece.first_ms))
            last = of_key[-1]
            # By place in the journal, so that one more pass over its files writes all pieces, whatever their order.
            targets.setdefault(piece.place, []).append((piece, last.segment, last.segment.records))
            last.segment.records += piece.records
            last.end, last.last_ms = piece.end, piece.last_ms
    # A second pass over the journal, as which pieces fit is known only when all are found.
    for number, block in _blocks(disk, journals) if targets else ():
        for run in block.records.runs:
            place = _RunPlace(number, block.position, (run.topic, run.partition_id), run.base_ordinal)
            for piece, segment, record in targets.get(place, ()):
                _write(disk, segment, record, run, piece)
    for of_key in made.values():
        for one in of_key:
            _finish(disk, one.segment)
        directory = of_key[0].segment.directory
        # A partition's directory may be new, and so may its topic's.
        for path in (directory, directory.parent, directory.parent.parent):
            flush_directory(disk, path)
    return {key: [one.segment for one in of_key] for key, of_key in made.items()}


def _blocks(disk: Disk, journals: JournalsAtHand) -> Iterator[tuple[int, FoundBlock]]:
    for number, journal in enumerate(journals.files):
        file = disk.open(journal.path)
        try:
            # Without the salt no block can be checked, and unchecked ones are no proof of anything.
            salt = journal.header.salt if journal.header is not None else find_salt(file)
            if salt is None:
                continue
            for found in walk_blocks(file, salt, HEADER_BYTES, journal.size_bytes):
                if isinstance(found, FoundBlock):
                    yield number, found
        finally:
            file.close()


def _pieces(run: RecordRange, gap: Gap, place: _RunPlace, *, is_certain: bool) -> Iterator[Piece]:
    """Yield the sound records of a run that are in a gap; times rise in each piece."""
    if run.end_ordinal <= gap.begin.ordinal or run.base_ordinal >= gap.end.ordinal:
        return
    # None where the entries fail: then nothing in the run has a proven place.
    damaged = run.damaged_records()
    if damaged is None:
        return
    bad = set(damaged)
    piece: Piece | None = None
    for at in range(run.records):
        entry = run.entry(at)
        begin, end = Border(entry.first_ordinal, entry.position), Border(entry.end_ordinal, entry.end_position)
        is_wanted = gap.begin.ordinal <= begin.ordinal and end.ordinal <= gap.end.ordinal
        is_sound = at not in bad and entry.kind != RecordKind.HOLE
        time_ms = entry.append_time_ms
        if piece is not None and is_wanted and is_sound and time_ms >= piece.last_ms:
            piece = piece._replace(records=piece.records + 1, end=end, last_ms=time_ms)
            continue
        if piece is not None:
            yield piece
        piece = Piece(place, at, 1, begin, end, time_ms, time_ms, is_certain) if is_wanted and is_sound else None
    if piece is not None:
        yield piece


def _fitting(pieces: Sequence[Piece], gaps: Sequence[Gap]) -> list[Piece]:
    """Return pieces that agree with the borders of their gaps and with each other; the newest are believed first."""
    kept: list[Piece] = []
    for gap in reversed(gaps):
        # From the right, where the checkpoint or what follows proves most about the last piece.
        right, is_proven = gap.end, False
        for piece in reversed(pieces):
            if not (gap.begin.ordinal <= piece.begin.ordinal and piece.end.ordinal <= gap.end.ordinal):
                continue
            is_joined = piece.end == right
            fits = (is_joined or _is_before(piece.end, right)) and (
                piece.begin == gap.begin or _is_before(gap.begin, piece.begin)
            )
            is_newest = right == gap.end and piece.last_ms == gap.last_ms
            # Where journal files are missing in between, a topic may have been removed and made anew; then only a
            # seamless join, or the very time that the checkpoint has, shows that it is the same one.
            if fits and (piece.is_certain or (is_joined and (is_proven or is_newest))):
                kept.append(piece)
                right, is_proven = piece.begin, True
    return kept[::-1]


def _is_before(one: Border, other: Border) -> bool:
    return one.ordinal < other.ordinal and one.position < other.position


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.tmp")


def _begin(disk: Disk, segment: Segment) -> None:
    for path, kind in ((segment.log_path, FileKind.LOG), (segment.index_path, FileKind.INDEX)):
        # Under another name until it is whole; a crash leaves nothing that passes for a segment.
        file = disk.open(_partial(path), create=True)
        try:
            file.truncate(0)
            write_all(file, [FileHeader(kind, segment.base_ordinal, segment.base_position).encode()], 0)
        finally:
            file.close()


def _write(disk: Disk, segment: Segment, record: int, run: RecordRange, piece: Piece) -> None:
    """Write a piece of a run where it belongs; its index entries begin with that of number `record`."""
    start, stop = piece.begin.position - run.base_position, piece.end.position - run.base_position
    first, behind = piece.first_record * INDEX_BYTES, (piece.first_record + piece.records) * INDEX_BYTES
    for path, data, at in (
        (segment.log_path, run.entries[start:stop], segment.log_size(piece.begin.position)),
        (segment.index_path, run.index[first:behind], segment.index_size(record)),
    ):
        file = disk.open(_partial(path))
        try:
            write_all(file, [data], at)
        finally:
            file.close()


def _finish(disk: Disk, segment: Segment) -> None:
    for path in (segment.log_path, segment.index_path):
        file = disk.open(_partial(path))
        try:
            file.fdatasync()
        finally:
            file.close()
    # The log first: a log without an index is whole again after the next repair.
    for path in (segment.log_path, segment.index_path):
        disk.rename(_partial(path), path)
