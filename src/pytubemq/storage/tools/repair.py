"""Repair of a damaged store, so that a Broker opens it: what is proven stays, what is lost is fenced off and listed.

The invariants: every file that is changed or removed is copied beside the store before; what is said beforehand is what
is done, because it is found out by doing it in memory; the new state counts with one checkpoint.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytubemq.errors import CorruptError, DiskFullError, StorageError
from pytubemq.model.limits import MIB
from pytubemq.storage.disk.disk import OsDisk, read_exactly
from pytubemq.storage.disk.paths import partition_directory
from pytubemq.storage.format.checkpoint import NAME, Checkpoint
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.record import LogEnd, PartitionKey
from pytubemq.storage.journal.log_tails import LogTails
from pytubemq.storage.journal.quarantine import Quarantine
from pytubemq.storage.journal.replay import lost_records
from pytubemq.storage.journal.unfinished_import import is_import_marked, remove_unfinished_import
from pytubemq.storage.log.lost_ranges import without
from pytubemq.storage.store.repair_report import write_report
from pytubemq.storage.tools.check.findings import Severity
from pytubemq.storage.tools.read.files import PartitionFiles, find_journals, find_partitions
from pytubemq.storage.tools.read.journals import journals_at_hand
from pytubemq.storage.tools.read.overlay import OverlayDisk
from pytubemq.storage.tools.read.recovered_parts import recover_checkpoint_parts
from pytubemq.storage.tools.read.store_access import check_store, lock_store
from pytubemq.storage.tools.repair_steps.gaps import find_gaps, partitions_of
from pytubemq.storage.tools.repair_steps.journal_repair import JournalTaker
from pytubemq.storage.tools.repair_steps.lost_files import find_pieces, make_files
from pytubemq.storage.tools.repair_steps.partition_repair import find_end, find_reach, last_message_id, repair_partition
from pytubemq.storage.tools.repair_steps.record_restore import put_back
from pytubemq.storage.tools.repair_steps.rewrite import put_checkpoint
from pytubemq.storage.tools.repair_steps.rollback import copy_and_undo
from pytubemq.storage.tools.repair_steps.side_files import rename_damaged_files
from pytubemq.storage.tools.verify import Verified, load_checkpoint, verify_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.format.record import LostRange, Records
    from pytubemq.storage.tools.read.journals import JournalsAtHand
    from pytubemq.storage.tools.repair_steps.partition_repair import RepairedPartition
    from pytubemq.storage.tools.repair_steps.side_files import Decoders


_LOST_POSITIONS: Final = (
    "positions of groups, and the sequences by which repeats of producers are known, may be gone; compare "
    "`pytubemq group show` with what the groups had done"
)


@dataclass(slots=True)
class Plan:
    """The actions of a repair; empty if there is nothing to do."""

    before: Verified
    done: list[str] = field(default_factory=list)
    changed: list[Path] = field(default_factory=list)
    """Files that are there now and will be changed or removed."""
    lost_ranges: list[LostRange] = field(default_factory=list)
    """Messages that are lost afterwards, all of them, also those that were known before."""
    lost_records: str | None = None
    """A text on positions of groups and sequences of producers that may be lost."""
    report: Path | None = None
    """The file that says so after the repair, too; health names it until it is removed."""
    after: Verified | None = None
    """The findings of `verify` in the result."""


def plan(root: Path, *, progress: Callable[[int, int], None] | None = None, beside: Decoders | None = None) -> Plan:
    """Return the actions that `repair` would take; changes nothing.

    `beside`: the decoders of the Broker's other files, if they are read.

    Raises:
        StorageError: no store, or a file is in the way. DirectoryLockedError: a Broker runs there. NewerVersionError,
            OlderVersionError: another version. OSError: something cannot be read.
    """
    check_store(root)
    with lock_store(root):
        return _plan(root, progress, beside or {})


def repair(
    root: Path,
    copies: Path,
    *,
    progress: Callable[[int, int], None] | None = None,
    beside: Decoders | None = None,
) -> Plan:
    """Do it, after copying what is changed to `copies`, a directory that is not there yet.

    Raises:
        As `plan`. CorruptError: it did not help; what was changed can be taken back from the copies.
    """
    check_store(root)
    with lock_store(root):
        # In memory first: what is written below is known, and its files are copied before they change.
        found = _plan(root, progress, beside or {})
        if not found.done:
            return found
        # Before the first copy; to run out of space half-way would have to be undone.
        _check_room(root, found.changed)
        disk = OsDisk()
        with copy_and_undo(root, copies, found.changed):
            again: list[str] = []
            if not found.before.is_sound:
                # The same steps again, now on the disk; what they say was said by the plan.
                _repair_store(disk, root, again.append)
            rename_damaged_files(disk, root, beside or {}, again.append)
            found.report = root / f"{copies.name}.json"
            write_report(disk, found.report, _report(found, copies))
        # A repair is believed only after a check from outside that shares nothing with it but the formats.
        found.after = verify_files(disk, root)
        if not found.after.is_sound:
            worst = next(one for one in found.after.findings if one.severity is Severity.DAMAGE)
            raise CorruptError(
                f"{root} is still damaged: {worst.path}: {worst.what}",
                hint=f"take the files in {copies} back into it, and restore the directory from a backup",
            )
        return found


def _report(found: Plan, copies: Path) -> dict[str, object]:
    return {
        "copies": copies.name,
        "done": found.done,
        "lost_messages": sum(lost_range.messages for lost_range in found.lost_ranges),
        "lost_records": found.lost_records,
    }


def _check_room(root: Path, changed: Sequence[Path]) -> None:
    """Raise DiskFullError if there is no room for copies of these files; nothing was changed."""
    free, needed = OsDisk().free_bytes(root), sum(path.stat().st_size for path in changed)
    if free < needed:
        raise DiskFullError(
            f"no space left to repair {root}: {free // MIB} MiB are free, and copies of the files that it changes, and "
            f"new ones, need up to {2 * needed // MIB + 1} MiB",
            hint="free so much space, or move the directory to a larger disk, and run it again; nothing was changed",
        )


def _plan(root: Path, progress: Callable[[int, int], None] | None, beside: Decoders) -> Plan:
    # The plan is found out by doing it on a disk whose changes stay in memory.
    disk = OverlayDisk()
    found = Plan(verify_files(disk, root, progress=progress))
    if not found.before.is_sound:
        found.lost_ranges, found.lost_records = _repair_store(disk, root, found.done.append)
    rename_damaged_files(disk, root, beside, found.done.append)
    if not found.done:
        return found
    found.changed = disk.changed()
    found.after = verify_files(disk, root)
    return found


@contextmanager
def _nothing_in_the_way() -> Iterator[None]:
    """Raise StorageError if a file is where a directory has to be made."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTDIR) or error.filename is None:
            raise
        wanted = Path(error.filename)
        found = next((path for path in (wanted, *wanted.parents) if path.is_file()), wanted)
        raise StorageError(
            f"{found} is a file, and the store needs a directory of that name",
            hint="move the file out of the store, and put the directory back if there is a copy; then call this again",
        ) from error


@_nothing_in_the_way()
def _repair_store(disk: Disk, root: Path, say: Callable[[str], None]) -> tuple[list[LostRange], str | None]:
    """Repair whatever is below `root` on `disk`; returns what is lost, and a text on records that may be."""
    return _StoreRepair(disk, root, say).run()


class _StoreRepair:
    """A repair of a store on one disk, in phases; until the last one a Broker would open the old state."""

    def __init__(self, disk: Disk, root: Path, say: Callable[[str], None]) -> None:
        self._disk, self._root, self._say = disk, root, say
        # A whole directory may be gone, and what follows lists both.
        for directory in (root / "journal", root / "logs"):
            disk.makedirs(directory)
        self._journals = find_journals(disk, root)
        self._partitions = find_partitions(disk, root)
        self._checkpoint, wrong = load_checkpoint(disk, root, self._journals, self._partitions)
        self._is_without_checkpoint = bool(wrong)
        self._restored: dict[PartitionKey, list[tuple[int, int]]] = {}
        """Messages that are there again, by ordinals."""
        self._repaired: dict[PartitionKey, RepairedPartition] = {}
        self._reach: dict[PartitionKey, int] = {}
        """The message behind the last one that an index names, where no checkpoint says how far a log goes."""

    def run(self) -> tuple[list[LostRange], str | None]:
        """Make all phases, in the only order in which each finds what it needs."""
        self._remove_interrupted_import()
        journals = journals_at_hand(self._disk, self._root, self._journals)
        self._restore_records(journals)
        if self._is_without_checkpoint:
            self._rebuild_checkpoint()
        self._make_lost_files(journals)
        quarantine, tails = self._take_tails()
        self._repair_partitions()
        taker = self._take_journal(tails)
        return self._put_checkpoint(taker, quarantine)

    def _find_partitions(self) -> None:
        self._partitions = find_partitions(self._disk, self._root)

    def _remove_interrupted_import(self) -> None:
        disk, root = self._disk, self._root
        # Without a checkpoint nobody knows what an import had brought before, and everything is kept.
        if self._is_without_checkpoint or not is_import_marked(disk, root):
            return
        named = self._checkpoint.ends
        unnamed = [found for found in self._partitions if (found.topic, found.partition_id) not in named]
        if remove_unfinished_import(disk, root, [found.directory for found in unnamed]):
            self._say(f"{root}: an import was interrupted; what it wrote is removed, and it can be run again")
        self._find_partitions()

    def _restore_records(self, journals: JournalsAtHand) -> None:
        # Before anything is cut or numbered: what is put back is where the log's own index expects it.
        ends = None if self._is_without_checkpoint else self._checkpoint.ends
        self._restored = put_back(self._disk, journals.files, self._partitions, ends, self._say)
        if self._restored:
            self._find_partitions()

    def _rebuild_checkpoint(self) -> None:
        """Make a checkpoint from what the logs hold; the whole journal is read behind it."""
        path = self._root / NAME
        # From the first journal file on: too much is harmless, as what the logs have is left out.
        first = self._journals[0].number if self._journals else 1
        checkpoint = self._checkpoint = Checkpoint(journal=first, journal_position=HEADER_BYTES)
        checkpoint.ends = ends = self._ends_of_logs()
        rescued = self._rescue_checkpoint(path, ends)
        if rescued is None:
            self._say(f"{path}: it is missing; only the positions of groups in the journal are known")
            return
        checkpoint.confirmed = rescued.confirmed
        # What the files show goes before what a damaged file seems to say.
        checkpoint.ends = rescued.ends | ends
        self._say(f"{path}: {len(rescued.confirmed)} positions of groups were taken from it, though it fails its check")

    def _ends_of_logs(self) -> dict[PartitionKey, LogEnd]:
        ends: dict[PartitionKey, LogEnd] = {}
        for found in self._partitions:
            end = find_end(self._disk, found)
            if end.ordinal > end.first_ordinal:
                ends[found.topic, found.partition_id] = end
                self._say(f"{found.directory}: its files show that it ends with message {end.ordinal - 1}")
        return ends

    def _rescue_checkpoint(self, path: Path, ends: dict[PartitionKey, LogEnd]) -> Records | None:
        if not self._disk.exists(path):
            return None
        file = self._disk.open(path)
        try:
            return recover_checkpoint_parts(read_exactly(file, file.size(), 0), ends)
        finally:
            file.close()

    def _make_lost_files(self, journals: JournalsAtHand) -> None:
        """Make the files of messages that have none from the journal."""
        disk, ends = self._disk, self._checkpoint.ends
        known = partitions_of(self._root, self._partitions, ends)
        gaps = {key: list(find_gaps(disk, found, ends[key])) for key, found in known.items()}
        pieces = find_pieces(disk, journals, gaps)
        for key, segments in make_files(disk, journals, pieces, self._root).items():
            last = segments[-1]
            # Only where the new one is the last segment: of that one alone the checkpoint counts entries.
            if all(one.base_ordinal <= last.base_ordinal for one in known[key].segments):
                ends[key] = ends[key]._replace(last_records=last.records)
            messages = sum(piece.end.ordinal - piece.begin.ordinal for piece in pieces[key])
            self._say(f"{last.directory}: {messages} messages without a file are taken back from the journal")
        if pieces:
            self._find_partitions()
        for key, made in pieces.items():
            intervals = [(piece.begin.ordinal, piece.end.ordinal) for piece in made]
            self._restored[key] = sorted([*self._restored.get(key, ()), *intervals])

    def _take_tails(self) -> tuple[Quarantine, LogTails]:
        checkpoint = self._checkpoint
        # The directory is only a place to read tails from; what was there before is among the copies.
        newest = max([checkpoint.journal, *(file.number for file in self._journals)])
        quarantine = Quarantine(self._disk, self._root, newest)
        tails = LogTails(self._disk, quarantine.take_tails(checkpoint.ends), after_id=checkpoint.last_message_id)
        self._find_partitions()
        return quarantine, tails

    def _repair_partitions(self) -> None:
        disk, ends = self._disk, self._checkpoint.ends
        by_key = {(found.topic, found.partition_id): found for found in self._partitions}
        # Partitions with files that the checkpoint does not name: nothing of them counts, unless the journal has it.
        unknown = {key: LogEnd(0, 0) for key in by_key if key not in ends}
        for key, end in (ends | unknown).items():
            files = by_key.get(key) or PartitionFiles(*key, partition_directory(self._root, *key))
            if not files.segments and end.first_ordinal < end.ordinal:
                disk.makedirs(files.directory)
            # Before the files are repaired: an index may speak of records that are cut off as lost below.
            if self._is_without_checkpoint:
                self._reach[key] = find_reach(disk, files)
            self._repaired[key] = repair_partition(disk, files, end, self._say)
        if self._is_without_checkpoint:
            # New ids must be above all that was given out; without a checkpoint the logs have the highest.
            newest = (last_message_id(disk, one) for one in self._repaired.values())
            self._checkpoint.last_message_id = max(newest, default=0)

    def _take_journal(self, tails: LogTails) -> JournalTaker:
        taker = JournalTaker(self._disk, self._root, self._checkpoint, self._repaired, tails, self._say)
        taker.take(self._journals)
        # Offsets that were once given out are not given out again, even if their messages are lost.
        for key, ordinal in self._reach.items():
            taker.reach(key, ordinal)
        taker.finish()
        return taker

    def _put_checkpoint(self, taker: JournalTaker, quarantine: Quarantine) -> tuple[list[LostRange], str | None]:
        checkpoint, path = self._checkpoint, self._root / NAME
        found = [lost_range for partition in self._repaired.values() for lost_range in partition.lost_ranges]
        # By place, whatever the reason: the same loss is met in the log and in the journal.
        known = {lost_range[:4]: lost_range for lost_range in (*found, *taker.lost_ranges)}
        known |= {lost_range[:4]: lost_range for lost_range in self._still_lost(checkpoint.lost_ranges)}
        checkpoint.lost_ranges = sorted(known.values())
        # Until here a Broker would open the old state; from here on the new one.
        put_checkpoint(self._disk, self._root, checkpoint)
        quarantine.discard()
        self._say(f"{path}: written, with an empty journal behind it; {taker.taken} messages came from the old one")
        lost = [f"{path} was damaged or missing: {_LOST_POSITIONS}"] if self._is_without_checkpoint else []
        lost += [] if taker.unread_from is None else [lost_records(*taker.unread_from)]
        return checkpoint.lost_ranges, "; ".join(lost) or None

    def _still_lost(self, lost_ranges: Sequence[LostRange]) -> Iterator[LostRange]:
        """Yield the losses known before, without the messages that are there again."""
        for lost_range in lost_ranges:
            yield from without([lost_range], self._restored.get((lost_range.topic, lost_range.partition_id), ()))
