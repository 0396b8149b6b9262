"""Reading the journal again: every block behind the checkpoint is handed on in order.

The invariants: nothing that counts is left out in silence; a block that fails its check ends the journal, and is cut,
only at the very end, where nothing shows that it ever was on the device. One that fails before a sound one, or that the
checkpoint or a later file knows of, is skipped and reported. Of a damaged block whose head and records are sound
only the damaged messages are lost.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.storage.disk.disk import read_exactly
from pytubemq.storage.format.block import (
    BLOCK_HEADER_BYTES,
    BLOCK_MAGIC,
    BlockHeader,
    block_is_sound,
    decode_block_header,
)
from pytubemq.storage.format.header import HEADER_BYTES, corrupt_error
from pytubemq.storage.format.record import LossReason, LostRange, decode_records
from pytubemq.storage.journal.journal import failed_error, is_padding, journal_path
from pytubemq.storage.journal.staging import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk, DiskFile
    from pytubemq.storage.format.record import PartitionKey, Records
    from pytubemq.storage.format.record_range import RecordRange
    from pytubemq.storage.journal.log_tails import LogTails
    from pytubemq.storage.journal.recovery import Found, FoundJournal

_PIECE_BYTES: Final = 1024 * 1024
"""Looked through at a time for the next block behind damage."""


class Loss(NamedTuple):
    """Bytes of the journal that fail their check or are not there."""

    path: Path
    position: int
    size_bytes: int
    sequence: int
    """The first block that was lost."""
    is_end: bool = False
    """The file ends there; of what followed, `size_bytes` are known to have been."""

    def text(self, synced: int) -> str:
        """Return the loss as text; `synced` is the last block that is known to have been on the device."""
        if self.is_end:
            return f"{self.path} ends at byte {self.position} without block {self.sequence}"
        why = "" if self.sequence <= synced else " (it was not flushed, so it may be what a power loss took)"
        return f"{self.path} is damaged at byte {self.position}, for {self.size_bytes} bytes{why}"


def lost_records(path: Path, position: int) -> str:
    """Return a text on the positions and sequences in whole blocks that are lost, the first at this byte."""
    return (
        f"{path} lost whole blocks from byte {position} on: messages that the logs have were kept, but positions that "
        "groups confirmed there, and the sequences by which repeats of producers are known, may be gone; compare "
        "`pytubemq group show` with what the groups had done, before groups without a position begin anew"
    )


@dataclass(slots=True)
class Resume:
    """The position where the journal continues, in a file that is yet to be created."""

    number: int
    next_sequence: int
    last_message_id: int
    end: int = HEADER_BYTES
    """End of the last file."""
    synced: int = 0
    """The last block that is known to have been on the device."""
    blocks: int = 0
    """Found behind the checkpoint."""
    cut_bytes: int = 0
    """Torn bytes that were cut from the journal's end."""
    losses: list[Loss] = field(default_factory=list)
    """Damage that was skipped."""
    lost_ranges: list[LostRange] = field(default_factory=list)
    """Messages that are lost, as far as a damaged block itself shows them."""
    unread_from: tuple[Path, int] | None = None
    """The first byte of whole blocks that are lost and that the checkpoint does not cover."""
    _unread: tuple[Path, int] | None = None
    """The first byte of such blocks, until the next one shows whether the checkpoint covers them."""

    @property
    def lost_records(self) -> str | None:
        """A text on positions and sequences that may be lost with whole blocks; None if none are."""
        return None if self.unread_from is None else lost_records(*self.unread_from)

    def reach(self, sequence: int, known_sequence: int) -> None:
        """Note that block `sequence` is the next one after lost blocks, if there are any."""
        # The lost blocks come before `sequence`. If the checkpoint's positions go beyond that, none of them is missing.
        if self._unread is not None and sequence > known_sequence:
            self.lose_records(*self._unread)
        self._unread = None

    def lose_records(self, path: Path, position: int) -> None:
        """Note that blocks from here on are lost which the checkpoint does not cover."""
        self.unread_from = self.unread_from or (path, position)

    @property
    def is_clean(self) -> bool:
        """True if the checkpoint has everything."""
        return not (self.blocks or self.cut_bytes or self.losses)

    def lose(self, path: Path, start: int, end: int, *, is_end: bool = False, has_records: bool = False) -> None:
        """Record damage at a place where the next block should have been. `has_records`: its records are sound,
        only messages are lost."""
        self.losses.append(Loss(path, start, end - start, self.next_sequence, is_end))
        if not has_records:
            self._unread = self._unread or (path, start)

    def skip_to(self, path: Path, end: int, sequence: int) -> None:
        """Go on with a block that is known to come next; those before it that are not in a file which ends there are
        lost."""
        if sequence > self.next_sequence:
            # Where damage was noted up to the file's end, a second loss would count the same bytes twice.
            last = self.losses[-1] if self.losses else None
            if last is None or (last.path, last.position + last.size_bytes) != (path, end):
                self.lose(path, end, end, is_end=True)
            self.next_sequence = sequence
        # The writer flushes a file before it makes the next, and a checkpoint names no block that was not flushed.
        self.synced = max(self.synced, sequence - 1)


@dataclass(slots=True)
class Proof:
    """The result of a first scan of the journal, which changes nothing."""

    losses: list[Loss]
    ends: dict[PartitionKey, int] = field(default_factory=dict)
    """The end offset of each partition in the journal, as an ordinal."""
    next_sequence: int = 0
    """Every block before this one is sound if nothing is lost; a torn block comes behind them."""
    blocks: dict[tuple[int, int], Prepared] = field(default_factory=dict)
    """The first blocks by journal file and position, as many as `keep_bytes` allows, so that they need not be read
    again."""

    @property
    def is_sound(self) -> bool:
        """True if every block and every message in the journal passes its check, but for a torn end."""
        return not self.losses


def prove(disk: Disk, root: Path, found: Found, *, keep_bytes: int = 0) -> Proof:
    """Read the whole journal behind the checkpoint and compute every check, once its files are on the device.

    Args:
        disk: the store's disk.
        root: the store's directory.
        found: its files.
        keep_bytes: the memory that blocks may take which are kept for `replay`.

    Raises: as `replay`.
    """
    proof = Proof([])
    room = keep_bytes

    def note(block: Prepared, _: Sequence[Loss]) -> None:
        nonlocal room
        ends = proof.ends
        for run in block.runs:
            key, end = (run.topic, run.partition_id), run.base_ordinal + run.count
            if end > ends.get(key, 0):
                ends[key] = end
        # What is kept is a beginning without a gap: a block that is smaller may still be behind one that is too large.
        if (room := room - block.cost_bytes) >= 0:
            proof.blocks[block.journal, block.journal_end - block.journal_bytes] = block

    # By the walk of the replay itself, so that both come to the same end.
    resume = _walk(disk, root, found, note, _Mode(is_dry_run=True))
    proof.losses, proof.next_sequence = resume.losses, resume.next_sequence
    if not proof.is_sound:
        proof.blocks.clear()
    return proof


def replay(
    disk: Disk,
    root: Path,
    found: Found,
    sink: Callable[[Prepared, Sequence[Loss]], None],
    *,
    proof: Proof | None = None,
    tails: LogTails | None = None,
) -> Resume:
    """Hand every block behind the checkpoint to `sink`, in order and with the losses before it; cut a torn tail from
    the last journal file.

    Args:
        proof: the result of `prove`: what it found to be sound is not checked again, and the blocks that it has are
            taken from it.
        tails: the log tails, where messages that are damaged in the journal may be sound.

    Raises:
        CorruptError: a file has the wrong place among the others, or something passed its check and makes no sense.
    """
    # Where damage was found each message is checked again, so that the sound ones are found among the others.
    if proof is None or not proof.is_sound:
        return _walk(disk, root, found, sink, _Mode(tails=tails))
    return _walk(disk, root, found, sink, _Mode(proven_before=proof.next_sequence, kept=proof.blocks, tails=tails))


class _Mode(NamedTuple):
    """Options of one pass over the journal."""

    is_dry_run: bool = False
    """True if nothing is truncated."""
    proven_before: int = 0
    """All messages in blocks before this one passed their checks."""
    kept: dict[tuple[int, int], Prepared] | None = None
    """Blocks that were read before, by journal file and position; each is taken out when it comes."""
    tails: LogTails | None = None


def _walk(
    disk: Disk, root: Path, found: Found, sink: Callable[[Prepared, Sequence[Loss]], None], mode: _Mode
) -> Resume:
    checkpoint = found.checkpoint
    resume = Resume(checkpoint.journal, checkpoint.next_sequence, checkpoint.last_message_id)
    before, end = journal_path(root / "journal", checkpoint.journal), HEADER_BYTES
    for journal in found.journals:
        position = HEADER_BYTES
        if journal.number == checkpoint.journal:
            position = checkpoint.journal_position
        else:
            base = journal.header.base
            # Files follow each other without an overlap; one that begins earlier was put there by hand, from another
            # time or another store.
            if base < resume.next_sequence:
                raise corrupt_error(journal.path, 0, f"it begins with block {base}, not {resume.next_sequence}")
            resume.skip_to(before, end, base)
        file = disk.open(journal.path)
        try:
            # A process that was killed between write and flush left pages that only the operating system knows of.
            _flush(journal.path, file)
            scan = _Scan(journal, file, resume, sink, checkpoint.known_sequence, mode)
            end = scan.run(position, is_last=journal is found.journals[-1])
            if resume.cut_bytes and not mode.is_dry_run:
                file.truncate(end)
                _flush(journal.path, file)
        finally:
            file.close()
        # Never in an old file again: had a flush of it failed before,
        # nobody could say what of it would reach the device.
        before, resume.number, resume.end = journal.path, journal.number + 1, end
    # A journal that ends before the block that the checkpoint names has lost what is between.
    resume.skip_to(before, end, checkpoint.known_sequence)
    resume.reach(checkpoint.known_sequence + 1, checkpoint.known_sequence)  # whatever followed is unknown
    return resume


def _flush(path: Path, file: DiskFile) -> None:
    try:
        file.fdatasync()
    except OSError as error:
        raise failed_error(path, error) from error


class _Scan:
    """One pass over the blocks of a journal file."""

    def __init__(
        self,
        journal: FoundJournal,
        file: DiskFile,
        resume: Resume,
        sink: Callable[[Prepared, Sequence[Loss]], None],
        known_sequence: int,
        mode: _Mode,
    ) -> None:
        self._mode = mode
        self._path = journal.path
        self._header = journal.header
        self._file = file
        self._resume = resume
        self._sink = sink
        self._known_sequence = known_sequence
        self._size = file.size()

    def run(self, position: int, *, is_last: bool) -> int:
        """Hand on all blocks from `position` to the end of the file; returns where that is."""
        resume = self._resume
        if self._size < position:  # what is in the logs already is missing, and whatever followed
            resume.lose(self._path, self._size, position, is_end=True)
            return position
        while position < self._size:
            block = self._block(position)
            if block is not None and not self._damage(block):
                position = self._take(block)
                continue
            if block is None and is_padding(self._file, position, self._size):
                break
            # Damage in the middle and a torn end look alike here. What sets them apart: behind a torn write there is
            # nothing, as blocks are written one after the other.
            following = self._following(position)
            if following is None and is_last and resume.next_sequence >= self._known_sequence:
                # Nothing shows that it ever was on the device: a write that was not finished.
                resume.cut_bytes = self._size - position
                break
            # Head and records are sound, so positions and sequences are kept, and of the messages those that pass
            # their own check.
            if block is not None:
                resume.lose(self._path, position, block.journal_end, has_records=True)
                position = self._take(self._punch_holes(block))
            elif following is not None:
                resume.lose(self._path, position, following[0])
                position, resume.next_sequence = following[0], following[1].sequence
            else:
                # Nothing sound behind it in this file, and yet a later
                # file or the checkpoint knows of it: lost, not torn.
                resume.lose(self._path, position, self._size)
                position = self._size
        return position

    def _take(self, block: Prepared) -> int:
        resume = self._resume
        resume.reach(block.next_sequence - 1, self._known_sequence)
        resume.blocks += 1
        resume.next_sequence = block.next_sequence
        resume.last_message_id = max(resume.last_message_id, block.last_message_id)
        self._sink(block, resume.losses)
        return block.journal_end

    def _block(self, position: int) -> Prepared | None:
        """Return the block at `position` if it is the one expected and its head and records are sound."""
        # `synced` of these is not noted: it counts only for what is lost, and then none are kept.
        if self._mode.kept and (kept := self._mode.kept.pop((self._header.number, position), None)) is not None:
            return kept
        data = read_exactly(self._file, BLOCK_HEADER_BYTES, position)
        head = decode_block_header(data, 0, self._size - position)
        # A sound block with another number has lost those before it, or is not of this journal at all.
        if head is None or head.sequence != self._resume.next_sequence:
            return None
        # The head is not proven yet, but its size was compared with what the file has left.
        data = read_exactly(self._file, head.total_bytes, position)
        if len(data) < head.total_bytes or not block_is_sound(head, data, self._header.salt):
            return None
        view = memoryview(data)
        meta_end = BLOCK_HEADER_BYTES + head.meta_bytes
        records = self._records(bytes(view[BLOCK_HEADER_BYTES:meta_end]), view[meta_end:], position)
        if head.sequence < self._known_sequence:  # the checkpoint has what came of these, also of later ones
            records.confirmed, records.sequences = {}, []
        # Up to here the writer had seen a flush succeed. Damage before it is a loss of something promised; behind it
        # perhaps only a write that was cut short.
        self._resume.synced = max(self._resume.synced, head.synced)
        return Prepared(
            records.runs,
            records.confirmed,
            [],
            head.last_message_id,
            sum(run.size_bytes for run in records.runs),
            messages=sum(run.count for run in records.runs),
            sequences=records.sequences,
            written=True,
            flushed=True,
            journal=self._header.number,
            journal_end=position + head.total_bytes,
            journal_bytes=head.total_bytes,
            next_sequence=head.sequence + 1,
        )

    def _records(self, meta: bytes, entries: memoryview, position: int) -> Records:
        try:
            return decode_records(meta, entries)
        except (ValueError, struct.error) as error:
            raise corrupt_error(self._path, position, f"the records contradict each other ({error})") from error

    def _damage(self, block: Prepared) -> bool:
        """True if bytes of messages fail their check."""
        # `prove` went through every byte of these; once more would prove nothing new.
        if block.next_sequence <= self._mode.proven_before:
            return False
        return not all(run.is_sound() for run in block.runs)

    def _punch_holes(self, block: Prepared) -> Prepared:
        """Return the block with holes where messages are damaged."""
        block.runs = [self._punch_holes_in(run) for run in block.runs]
        return block

    def _punch_holes_in(self, run: RecordRange) -> RecordRange:
        damaged = run.damaged_records()
        # The check has covered these entries, so they were written as they are: nothing that a repair can change.
        if damaged is None:
            raise corrupt_error(
                self._path, 0, f"the index entries of {run.topic}:{run.partition_id} contradict each other"
            )
        # Applied records are in the logs as well, byte for byte, so the journal's damage need not be a loss.
        tails = self._mode.tails
        if tails is not None and damaged:
            run = tails.whole(run, damaged)
            damaged = run.damaged_records() or []
        sound = run.with_holes(damaged)
        for entry in sound.holes():
            self._resume.lost_ranges.append(
                LostRange(run.topic, run.partition_id, entry.first_ordinal, entry.end_ordinal, LossReason.JOURNAL)
            )
        return sound

    def _following(self, position: int) -> tuple[int, BlockHeader] | None:
        """Find the next sound block after `position`, if there is one."""
        # Byte by byte from here: the size in a damaged head cannot be trusted to lead to the next block.
        for at in self._magics(position + 1):
            head = decode_block_header(read_exactly(self._file, BLOCK_HEADER_BYTES, at), 0, self._size - at)
            # The salt keeps bytes inside a message, which anyone can choose, from passing for a block.
            if (
                head is not None
                and head.sequence > self._resume.next_sequence
                and block_is_sound(
                    head, read_exactly(self._file, BLOCK_HEADER_BYTES + head.meta_bytes, at), self._header.salt
                )
            ):
                return at, head
        return None

    def _magics(self, position: int) -> Iterator[int]:
        """Yield the positions where a block may begin, from `position` on."""
        while position < self._size:
            piece = read_exactly(self._file, _PIECE_BYTES, position)
            at = piece.find(BLOCK_MAGIC)
            while at >= 0:
                yield position + at
                at = piece.find(BLOCK_MAGIC, at + 1)
            if len(piece) < _PIECE_BYTES:
                return
            # Pieces overlap by a magic less one byte, so that none is missed at a border.
            position += _PIECE_BYTES - len(BLOCK_MAGIC) + 1
