"""Recovery of a store when it is opened: the content of its directory becomes what it has in memory.

The invariant: nothing is readable before it is known to be on the device or to be in the journal again, and what was
lost to damage is fenced off, counted and reported.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.errors import DiskFailedError, StorageError
from pytubemq.model.limits import MAX_UNAPPLIED_BYTES
from pytubemq.storage.format.record import LossReason
from pytubemq.storage.journal import recovery
from pytubemq.storage.journal.gaps import fit, read_remainder
from pytubemq.storage.journal.journal import Journal, journal_path
from pytubemq.storage.journal.log_tails import LogTails
from pytubemq.storage.journal.quarantine import quarantine_of
from pytubemq.storage.journal.replay import prove, replay
from pytubemq.storage.journal.staging import Prepared
from pytubemq.storage.journal.unfinished_import import is_import_marked, remove_unfinished_import
from pytubemq.storage.log.survey import STOP_AND_REPAIR, damage_text
from pytubemq.storage.store.applier import Applier
from pytubemq.storage.store.reads import MOST_REPORTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.storage.format.record import LostRange
    from pytubemq.storage.journal.quarantine import Quarantine
    from pytubemq.storage.journal.recovery import Found
    from pytubemq.storage.journal.replay import Loss, Resume
    from pytubemq.storage.journal.store_state import StoreState
    from pytubemq.storage.store.condition import Condition
    from pytubemq.storage.store_settings import StoreSettings

_log = logging.getLogger(__name__)

_REPLAY_BYTES: Final = MAX_UNAPPLIED_BYTES
"""Memory for replayed messages while a store opens, as for those of a running one. What fits is moved into the logs
after the start, beside its readers: each round over thousands of partitions takes seconds."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The parts of a store that go on where the one before ended."""

    journal: Journal
    applier: Applier
    last_message_id: int
    lost_records: str | None
    """A text on positions of groups and sequences of producers that a damaged journal may have lost."""


def recover(state: StoreState, settings: StoreSettings, condition: Condition) -> Recovered:
    """Fill `state` from its directory, and begin a journal file of its own.

    Raises:
        NewerVersionError, CorruptError: naming the file. OSError, StorageError: the disk does not let it.
    """
    # All headers are read before anything changes: a file of another version must leave the store as it is.
    found = recovery.survey(state.disk, state.root)
    # A process that was killed may have left names that only the system's memory has, and all below relies on them.
    for directory in (state.root / "journal", state.root, *state.root.parents):
        with suppress(PermissionError):  # not ours to flush: somebody made it for us before
            state.disk.fsync_dir(directory)
    if is_import_marked(state.disk, state.root):
        _remove_unfinished_import(state, found)
        found = recovery.survey(state.disk, state.root)
    proof = prove(state.disk, state.root, found, keep_bytes=_REPLAY_BYTES)
    lost_paths = {loss.path for loss in proof.losses}
    quarantine = quarantine_of(state.disk, state.root, found, proof.ends, lost_paths)
    tails = None
    if quarantine is not None:
        last_id = found.checkpoint.last_message_id
        # Before the logs are cut: behind the checkpoint they may have the only copy of what the journal lost.
        tails = LogTails(state.disk, quarantine.take_tails(found.checkpoint.ends), after_id=last_id)
    # What is written again under the same names need not be removed, if it was not moved away.
    recovery.cut_logs(state.disk, found, rewritten=proof.ends if quarantine is None else ())
    under_way = _Recovery(state, settings, condition, found, tails)
    under_way.restore(found)
    resume = replay(
        state.disk,
        state.root,
        found,
        under_way.replay_block,
        proof=proof,
        tails=tails,
    )
    if tails is not None:
        under_way.take_behind(tails, resume)
    return under_way.resume(resume, quarantine, is_new=found.is_new)


def _remove_unfinished_import(state: StoreState, found: Found) -> None:
    unnamed = [log.directory for log in found.logs if not log.end.ordinal]
    if remove_unfinished_import(state.disk, state.root, unnamed):
        _log.warning("%s: an import was interrupted; what it wrote was removed, and it can be run again", state.root)


class _Recovery:
    """One recovery that is under way."""

    def __init__(
        self,
        state: StoreState,
        settings: StoreSettings,
        condition: Condition,
        found: Found,
        tails: LogTails | None,
    ) -> None:
        self._state = state
        self._settings = settings
        self._condition = condition
        self._tails = tails
        self._applier = Applier(
            state,
            settings,
            checkpoint=found.checkpoint,
            damaged={(log.topic, log.partition_id): log.end for log in found.logs if log.problem is not None},
        )
        self._lost_places = 0
        """The times that messages were found lost by a damaged journal."""
        self._lost_messages = 0
        """The number of these messages."""

    def restore(self, found: Found) -> None:
        """Take over the logs and the checkpoint."""
        state = self._state
        for log in found.logs:
            partition = state.add_partition(log.topic, log.partition_id)
            partition.restore(log.segments, log.end)
            for damage in log.damage:
                _log.error("%s:%d: %s", log.topic, log.partition_id, damage)
            partition.damage = damage_text(log)
            if log.problem is not None:
                _log.error("%s:%d cannot be used: %s; %s", log.topic, log.partition_id, log.problem, STOP_AND_REPAIR)
                # What the journal has for it goes into another segment, so that it is whole once the files are back.
                partition.problem, partition.closing = log.problem, True
        state.confirmed.update(found.checkpoint.confirmed)
        state.windows.restore(found.checkpoint.windows)
        # Losses of before: counted again in this process, and not logged again.
        for lost_range in found.checkpoint.lost_ranges:
            state.stats.fenced_messages += state.lost_ranges.add(lost_range)
            damaged_log = state.partitions.get((lost_range.topic, lost_range.partition_id))
            # What the journal lost is a hole in a log whose bytes are sound.
            if damaged_log is not None and lost_range.reason is not LossReason.JOURNAL:
                damaged_log.mark_damaged(lost_range.from_ordinal)
        # All of them came from the checkpoint, so none is due for their sake.
        state.lost_ranges.is_saved = True

    def replay_block(self, block: Prepared, losses: Sequence[Loss]) -> None:
        """Publish a block found in the journal, without what the logs already hold; where blocks before it were lost,
        with a hole for what they held."""
        state = self._state
        for lost_range in fit(block, state.add_partition, losses, state.root, self._tails):
            self._lose(lost_range)
        self._publish(block)
        # A block in the journal has the sequences alone; the windows have to be made of them again.
        state.windows.replay(block.sequences)
        state.stats.replayed_messages += sum(run.count for run in block.runs)
        if self._applier.unapplied_bytes > _REPLAY_BYTES:
            self._apply()

    def take_behind(self, tails: LogTails, resume: Resume) -> None:
        """Publish the content of the logs behind the journal's end."""
        state = self._state
        behind = read_remainder(tails, state.partitions)
        for lost_range in behind.lost_ranges:
            self._lose(lost_range)
        # The logs may have a partition that no block of the journal names any more.
        for run in behind.runs:
            state.add_partition(run.topic, run.partition_id)
        resume.last_message_id = max(resume.last_message_id, tails.last_message_id)
        state.stats.recovered_messages = tails.messages
        if behind.runs:
            # The journal ended too early, so positions and sequences of whole blocks may be gone with it.
            resume.lose_records(journal_path(state.root / "journal", max(1, resume.number - 1)), resume.end)
            self._publish(behind.block(resume))
            state.windows.replay(behind.sequences)

    def resume(self, resume: Resume, quarantine: Quarantine | None, *, is_new: bool) -> Recovered:
        """Go on behind what was found in the journal, in a file of its own."""
        journal = Journal(
            self._state.disk,
            self._state.root / "journal",
            segment_bytes=self._settings.journal_segment_bytes,
            padding_bytes=self._settings.journal_padding_bytes,
            number=resume.number,
            sequence=resume.next_sequence,
        )
        try:
            for lost_range in resume.lost_ranges:
                self._lose(lost_range)
            self._report(resume, quarantine)
            if quarantine is not None or not resume.is_clean:
                self._leave_journal(journal, resume, quarantine)
            # From now on a journal file or a checkpoint that is missing is a loss, and a start refuses it.
            if is_new:
                self._begin(journal, resume)
                self._apply()
                self._condition.run(self._applier.checkpoint)
        except BaseException:
            journal.close()
            raise
        return Recovered(journal, self._applier, resume.last_message_id, resume.lost_records)

    def _leave_journal(self, journal: Journal, resume: Resume, quarantine: Quarantine | None) -> None:
        """Move what was found into the logs with the next `apply`, and let the old journal go: what of that
        would be on the device, had a flush of it failed before, nobody knows. Damage is reported once if that is now.
        """
        try:
            self._begin(journal, resume)
            self._applier.make_urgent()
            before = self._applier.checkpoints
            if resume.losses or quarantine is not None:
                self._apply()
            # Until a checkpoint has its content, a crash would need the quarantine again.
            if quarantine is not None and self._applier.checkpoints > before:
                quarantine.finish()
        except DiskFailedError as error:
            # The store opens all the same: it accepts nothing, and what it has can be read.
            self._condition.failure = error
        except StorageError as error:
            _log.warning("%s: the journal is not moved into the logs yet: %s", self._state.root, error.message)

    def _begin(self, journal: Journal, resume: Resume) -> None:
        """Make the next journal file, from which the next checkpoint lets a start go on."""
        journal.begin()
        # An empty block, so that the next checkpoint names a place in the new file and the old ones can go.
        begun = Prepared([], {}, [], resume.last_message_id, 0, flushed=True, journal=journal.number)
        begun.journal_end, begun.next_sequence = journal.end, journal.sequence
        with self._state.lock:
            self._applier.add(begun)

    def _publish(self, block: Prepared) -> None:
        with self._state.lock:
            self._state.publish(block)
            self._applier.add(block)

    def _apply(self) -> None:
        self._condition.check()
        self._condition.run(self._applier.apply)

    # --- what was lost -----------------------------------------------------------------------------------------------

    def _lose(self, lost_range: LostRange) -> None:
        """Record messages that a damaged journal lost."""
        if new := self._state.lost_ranges.add(lost_range):
            self._state.stats.fenced_messages += new
            self._lost_places += 1
            self._lost_messages += new
            if self._lost_places > MOST_REPORTED:  # they are counted, and listed by `lost_ranges`
                return
            _log.error(
                "%d messages of %s:%d, offsets %d to before %d, are lost: the journal was damaged",
                new,
                lost_range.topic,
                lost_range.partition_id,
                lost_range.from_offset,
                lost_range.to_offset,
            )

    def _report(self, resume: Resume, quarantine: Quarantine | None) -> None:
        """Log what recovery found, and count it."""
        stats, root = self._state.stats, self._state.root
        stats.cut_bytes = resume.cut_bytes
        if stats.replayed_messages or resume.cut_bytes:
            _log.info("%s: replayed %d messages", root, stats.replayed_messages)
        if resume.lost_records is not None:
            _log.error("%s", resume.lost_records)
        stats.lost_journal_bytes = sum(loss.size_bytes for loss in resume.losses)
        for loss in resume.losses[:MOST_REPORTED]:
            _log.error("%s", loss.text(resume.synced))
        if resume.losses:
            _log.error("%s: the damaged journal lost %d messages that are in no log", root, self._lost_messages)
        # The sums, where not every place has a line of its own.
        if len(resume.losses) > MOST_REPORTED or self._lost_places > MOST_REPORTED:
            _log.error(
                "%s: in all the journal is damaged in %d places, and %d messages are lost",
                root,
                len(resume.losses),
                stats.fenced_messages,
            )
        if quarantine is not None:
            _log.error(
                "%s: the journal is damaged or ends too early; %d messages that it lacks were taken from the logs, and "
                "what was there is kept in %s",
                root,
                stats.recovered_messages,
                quarantine.directory,
            )
