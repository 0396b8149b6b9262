"""A Broker's store: what was accepted goes to the journal, becomes readable, and moves to its partition's log later.

The invariant: nothing is readable or numbered for good before it is as durable as promised, and at any moment each
published message lies in the journal behind the checkpoint, or flushed in its partition's log, or both.

Three threads may use a store at a time: the one that prepares and publishes (an event loop's), one that writes the
journal, one that applies. Reading is safe from any. One lock guards ends, tails and queue, held for moments only.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from pytubemq.errors import ClosedError, DiskFailedError, DiskFullError, StorageError
from pytubemq.model.durability import Durability
from pytubemq.model.limits import MAX_UNAPPLIED_BYTES, MIB
from pytubemq.model.offset import to_offset
from pytubemq.observe.story import PARTITION
from pytubemq.storage.disk.disk import Disk, OsDisk, close_to_others
from pytubemq.storage.disk.paths import partition_directory, topic_directory
from pytubemq.storage.format.block import BLOCK_HEADER_BYTES
from pytubemq.storage.format.record import FORGOTTEN, FenceReason
from pytubemq.storage.journal import recovery
from pytubemq.storage.journal.building import Carried, build
from pytubemq.storage.journal.gaps import fit, read_remainder
from pytubemq.storage.journal.journal import (
    FULL_ERRORS,
    MAX_PADDING_BYTES,
    Journal,
    block_records,
    full_at_start,
    journal_path,
    storage_error,
)
from pytubemq.storage.journal.log_tails import LogTails
from pytubemq.storage.journal.quarantine import quarantine_of
from pytubemq.storage.journal.replay import prove, replay
from pytubemq.storage.journal.space import SpaceGuard
from pytubemq.storage.journal.staging import Prepared, Staging
from pytubemq.storage.journal.windows import Windows
from pytubemq.storage.log.expired_segments import Surplus, choose
from pytubemq.storage.log.partition_log import PartitionLog
from pytubemq.storage.log.removal import remove_files, remove_topic
from pytubemq.storage.log.retention import Retained
from pytubemq.storage.log.survey import STOP_AND_REPAIR, damage_text
from pytubemq.storage.store.applier import Applier
from pytubemq.storage.store.reads import MOST_REPORTED, StoreReads
from pytubemq.storage.store.repair_report import repair_notices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pytubemq.core.sequences import Window
    from pytubemq.model.policy import RetentionPolicy
    from pytubemq.storage.disk.disk import DirectoryLock
    from pytubemq.storage.format.record import GroupKey, PartitionKey, WindowKey
    from pytubemq.storage.journal.quarantine import Quarantine
    from pytubemq.storage.journal.replay import Loss, Resume
    from pytubemq.storage.journal.staging import Outcome

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MESSAGE_ID_SHIFT: Final = 22
_LAST_ID_MS: Final = (1 << 41) - (1 << 36)
"""The milliseconds of an id go no further (July 2037), so that an int64 is never full: from there on ids count up by
one, for which 2^58 are left."""
_REPLAY_BYTES: Final = 32 * MIB
"""Replayed messages held in memory at a time while a store opens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """How a store behaves; sizes in bytes."""

    durability: Durability = Durability.DISK
    """Of topics for which `set_durability` says nothing."""
    segment_bytes: int = 128 * MIB
    """A partition's log file is followed by another beyond this."""
    journal_segment_bytes: int = 64 * MIB
    """The same for the journal."""
    journal_padding_bytes: int = MAX_PADDING_BYTES
    """The journal's file grows by so many zeros ahead of small blocks; 0 for none."""
    checkpoint_bytes: int = 256 * MIB
    """After so much was moved into the logs comes the next checkpoint: about what a start has to replay at most."""
    replay_s: float = 1.5
    """The same bound as time that a start would take to replay it, which is long for small messages."""
    reserve_bytes: int = MAX_UNAPPLIED_BYTES + 64 * MIB
    """Free space that sends may not use: what was accepted must still fit into its log."""
    max_open_files: int = 256
    whole_disk_from: int = 200
    """A checkpoint that has to flush so many files flushes the whole file system instead, which then costs less."""
    check_on_read: bool = False
    """Whether each record's check is computed when it is read from disk; an index entry's always is."""
    check_packs_on_read: bool = False
    """Whether that is done where packs are read, which costs little for each message."""


class BrokerStore(StoreReads):
    """All partitions and confirmed offsets of one Broker in one directory; make one with `open`."""

    def __init__(self, root: Path, disk: Disk, settings: StoreSettings, held: DirectoryLock) -> None:
        """Use `open`: this does not recover."""
        super().__init__(
            disk,
            max_open_files=settings.max_open_files,
            check_on_read=settings.check_on_read,
            check_packs_on_read=settings.check_packs_on_read,
        )
        self.root = root
        self.settings = settings
        self._disk = disk
        self._held = held
        self._unneeded: list[Path] = []
        """Files that nobody needs any more and that could not be removed yet."""
        self._writing = Lock()
        """Lock for journal writes, so that closing a store whose disk hangs never writes at the same time."""
        self._removing = Lock()
        """Held while files are removed: so that none goes for a topic of which the next one of its name has it by now,
        and nobody works on a store that is closed."""
        self._confirmed: dict[GroupKey, int] = {}
        self._windows = Windows()
        self._durability: dict[str, Durability] = {}
        self._retention: dict[str, RetentionPolicy] = {}
        self._carried = Carried()
        self._last_message_id = 0
        self._in_flight: Prepared | None = None
        self._ahead: Prepared | None = None
        """The one prepared behind `_in_flight`, on what that one will leave."""
        self._failure: DiskFailedError | None = None
        self.lost_records: str | None = None
        """A text on positions of groups and sequences of producers that a damaged journal may have lost."""
        self._closed = False
        self._space = SpaceGuard(disk, root, reserve_bytes=settings.reserve_bytes)
        self._journal: Journal
        self._applier: Applier

    @classmethod
    def open(cls, root: Path, *, disk: Disk | None = None, settings: StoreSettings | None = None) -> BrokerStore:
        """Lock the directory, recover what lies there, and be ready.

        Raises:
            DirectoryLockedError: another process has it. NewerVersionError, CorruptError: naming the file.
            DiskFullError, DiskFailedError: recovery could not write.
            StorageError: the directory cannot be made, read or written.
        """
        disk = disk or OsDisk()
        try:
            for directory in (root, root / "journal", root / "logs"):
                disk.makedirs(directory)
            if isinstance(disk, OsDisk):
                close_to_others(root)
            held = disk.lock(root / "lock")
        except OSError as error:
            raise _unusable(root, error) from error
        store = cls(root, disk, settings or StoreSettings(), held)
        try:
            store._recover()
        except DiskFullError as error:
            store._release()
            raise full_at_start(disk, root) from error
        except OSError as error:
            store._release()
            raise (full_at_start(disk, root) if error.errno in FULL_ERRORS else _unusable(root, error)) from error
        except BaseException:
            store._release()
            raise
        return store

    def _recover(self) -> None:
        found = recovery.survey(self._disk, self.root)
        for directory in (self.root / "journal", self.root, *self.root.parents):
            with suppress(PermissionError):  # not ours to flush: somebody made it for us before
                self._disk.fsync_dir(directory)
        proof = prove(self._disk, self.root, found)
        quarantine = quarantine_of(self._disk, self.root, found, proof.ends, {loss.path for loss in proof.losses})
        tails = None
        if quarantine is not None:
            last_id = found.checkpoint.last_message_id
            tails = LogTails(self._disk, quarantine.take_tails(found.checkpoint.ends), after_id=last_id)
        recovery.cut_logs(self._disk, found)
        self._applier = Applier(
            self._disk,
            self.root,
            self._files,
            lock=self._lock,
            partitions=self._partitions,
            confirmed=self._confirmed,
            windows=self._windows,
            segment_bytes=self.settings.segment_bytes,
            checkpoint_bytes=self.settings.checkpoint_bytes,
            replay_s=self.settings.replay_s,
            whole_disk_from=self.settings.whole_disk_from,
            retention=self._retention,
            fences=self._fences,
            checkpoint=found.checkpoint,
            damaged={(log.topic, log.partition_id): log.end for log in found.logs if log.problem is not None},
        )
        for log in found.logs:
            partition = self._add_partition(log.topic, log.partition_id)
            partition.restore(log.segments, log.end)
            for damage in log.damage:
                _log.error("%s:%d: %s", log.topic, log.partition_id, damage)
            partition.damage = damage_text(log)
            if log.problem is not None:
                _log.error("%s:%d cannot be used: %s; %s", log.topic, log.partition_id, log.problem, STOP_AND_REPAIR)
                partition.problem, partition.closing = log.problem, True
        self._confirmed.update(found.checkpoint.confirmed)
        self._windows.restore(found.checkpoint.windows)
        for fence in found.checkpoint.fences:
            self.stats.fenced_messages += self._fences.add(fence)
            fenced = self._partitions.get((fence.topic, fence.partition_id))
            if fenced is not None and fence.reason is not FenceReason.JOURNAL:
                fenced.mark_damaged(fence.from_ordinal)
        self._fences.is_saved = True
        resume = replay(
            self._disk,
            self.root,
            found,
            lambda block, losses: self._replay(block, losses, tails),
            proven_before=proof.next_sequence if proof.is_sound else 0,
            tails=tails,
        )
        if tails is not None:
            self._take_behind(tails, resume)
        self._resume(resume, quarantine)
        if found.is_new:
            self._begin()
            self.checkpoint()

    def _take_behind(self, tails: LogTails, resume: Resume) -> None:
        """Publish the content of the logs behind the journal's end."""
        behind = read_remainder(tails, self._partitions)
        for fence in behind.fences:
            self._fence(fence)
        for run in behind.runs:
            self._add_partition(run.topic, run.partition_id)
        resume.last_message_id = max(resume.last_message_id, tails.last_message_id)
        self.stats.recovered_messages = tails.messages
        if behind.runs:
            resume.lose_records(journal_path(self.root / "journal", max(1, resume.number - 1)), resume.end)
            self._make_readable(behind.block(resume))
            self._windows.replay(behind.sequences)

    def repair_notices(self) -> list[str]:
        """Return a line for each repair of this store that may have lost positions, until its report is removed."""
        return repair_notices(self._disk, self.root)

    def _resume(self, resume: Resume, quarantine: Quarantine | None) -> None:
        """Go on behind what was found in the journal, in a file of its own."""
        self._journal = Journal(
            self._disk,
            self.root / "journal",
            segment_bytes=self.settings.journal_segment_bytes,
            padding_bytes=self.settings.journal_padding_bytes,
            number=resume.number,
            sequence=resume.next_sequence,
        )
        self._last_message_id = resume.last_message_id
        self.stats.cut_bytes = resume.cut_bytes
        if self.stats.replayed_messages or resume.cut_bytes:
            _log.info("%s: replayed %d messages", self.root, self.stats.replayed_messages)
        for fence in resume.fences:
            self._fence(fence)
        self.lost_records = resume.lost_records
        if self.lost_records is not None:
            _log.error("%s", self.lost_records)
        self.stats.lost_journal_bytes = sum(loss.size_bytes for loss in resume.losses)
        for loss in resume.losses[:MOST_REPORTED]:
            _log.error("%s", loss.text(resume.synced))
        if resume.losses:
            _log.error("%s: the damaged journal lost %d messages that are in no log", self.root, self._lost_messages)
        if len(resume.losses) > MOST_REPORTED or self._lost_places > MOST_REPORTED:
            _log.error(
                "%s: in all the journal is damaged in %d places, and %d messages are lost",
                self.root,
                len(resume.losses),
                self.stats.fenced_messages,
            )
        if quarantine is not None:
            _log.error(
                "%s: the journal is damaged or ends too early; %d messages that it lacks were taken from the logs, and "
                "what was there is kept in %s",
                self.root,
                self.stats.recovered_messages,
                quarantine.directory,
            )
        if quarantine is not None or not resume.is_clean:
            # What was found goes into the logs with the next `apply`, and the old journal goes: what of that would be
            # on the device, had a flush of it failed before, nobody knows. Damage is told once if that is now.
            try:
                self._begin()
                self._applier.make_urgent()
                before = self.checkpoints
                if resume.losses or quarantine is not None:
                    self.apply()
                if quarantine is not None and self.checkpoints > before:
                    quarantine.finish()
            except DiskFailedError as error:
                self._failure = error
            except StorageError as error:
                _log.warning("%s: the journal is not taken into the logs yet: %s", self.root, error.message)

    def _begin(self) -> None:
        """Make the next journal file, from which the next checkpoint lets a start go on."""
        journal = self._journal
        journal.begin()
        begun = Prepared([], {}, [], self._last_message_id, 0, flushed=True, journal=journal.number)
        begun.journal_end, begun.next_sequence = journal.end, journal.sequence
        with self._lock:
            self._applier.add(begun)

    def _replay(self, block: Prepared, losses: Sequence[Loss], tails: LogTails | None) -> None:
        """Publish a block found in the journal, without what the logs already hold; where blocks before it were lost,
        with a hole for what they held."""
        for fence in fit(block, self._add_partition, losses, self.root, tails):
            self._fence(fence)
        self._make_readable(block)
        self._windows.replay(block.sequences)
        self.stats.replayed_messages += sum(run.count for run in block.runs)
        if self.unapplied_bytes > _REPLAY_BYTES:
            self.apply()

    # --- accepting ---------------------------------------------------------------------------------------------------

    def ensure_partition(self, topic: str, partition_id: int) -> None:
        """Make the partition known; one that exists is fine. On disk it begins with its first message."""
        self._add_partition(topic, partition_id)

    def _add_partition(self, topic: str, partition_id: int) -> PartitionLog:
        key = (topic, partition_id)
        log = self._partitions.get(key)
        if log is None:
            directory = partition_directory(self.root, topic, partition_id)
            log = self._partitions[key] = PartitionLog(topic, partition_id, directory, self._lock)
        return log

    def set_durability(self, topic: str, durability: Durability | None) -> None:
        """When a topic's messages and positions count as accepted; None: as the store's settings say. From the next
        `prepare` on."""
        if durability is None:
            self._durability.pop(topic, None)
        else:
            self._durability[topic] = durability

    def durability_of(self, topic: str) -> Durability:
        """When a topic's messages and positions count as accepted."""
        return self._durability.get(topic, self.settings.durability)

    def set_retention(self, topic: str, policy: RetentionPolicy | None) -> None:
        """What is kept of a topic, by `retain`; None: everything. Its log files hold a tenth of that from now on."""
        if policy is None:
            self._retention.pop(topic, None)
        else:
            self._retention[topic] = policy

    def staging(self) -> Staging:
        """A new, empty staging; any number may be filled at a time."""
        return Staging(self._partitions)

    def prepare(self, staging: Staging, now_ms: int) -> Prepared:
        """Number what was staged and build its bytes; CPU only, for the event loop's thread.

        `write` it, then `publish` or `abandon` it. Two may be under way at a time, written and published in the order
        prepared: the second is built on what the first will leave, and goes with it if that is abandoned.
        """
        self._check_usable()
        before = self._in_flight
        if self._ahead is not None:
            raise RuntimeError("of the two batches prepared before none is published or abandoned")
        # Unique over restarts, and rising even when the clock goes back: never below the last one found on disk.
        last = max(self._last_message_id, min(now_ms, _LAST_ID_MS) << _MESSAGE_ID_SHIFT)
        prepared = build(
            staging,
            self._partitions,
            self._windows,
            self._carried if before is None else Carried(),  # what is owed is in the first one
            self.durability_of,
            before=before,
            last_message_id=last,
            now_ms=now_ms,
        )
        self._last_message_id = prepared.last_message_id
        prepared.before = before
        if before is None:
            self._in_flight = prepared
        else:
            self._ahead = prepared
        return prepared

    def write(self, prepared: Prepared) -> None:
        """Write the batch to the journal, flushed if so promised; for the one writer thread. Blocks.

        Raises:
            DiskFullError, OutOfResourcesError: no space, no file handle; abandon the batch, later ones may work.
            DiskFailedError: the disk failed; nothing is accepted any more until a restart.
            StorageError: the batch before it was not written, so this one cannot be.
        """
        with self._writing:
            self._write(prepared)

    def _write(self, prepared: Prepared) -> None:
        self._check_usable()
        if prepared.before is not None and not prepared.before.written:
            raise StorageError("the block before this one was not written", hint="prepare it again")
        prepared.before = None
        records = block_records(prepared)
        size = BLOCK_HEADER_BYTES + len(records) + sum(len(run.entries) for run in prepared.runs)
        try:
            # Positions may use some of what messages may not, so that consumers get on; never what is needed to apply.
            needed = self.settings.reserve_bytes // 4 + self.unapplied_bytes
            self._space.take(size, least_bytes=None if prepared.runs else needed)
            self._journal.write(prepared, records)
        except DiskFailedError as error:
            self._failure = error
            raise
        except DiskFullError:
            self.stats.full_refusals += 1
            self._applier.make_urgent()
            raise
        prepared.written = True

    def check_space(self) -> None:
        """Check that there is room for messages, before one is refused. Blocks.

        Raises:
            DiskFullError: no more is free than `reserve_bytes`. DiskFailedError: the free space cannot be read.
        """
        self._space.check()

    def publish_early(self, prepared: Prepared) -> None:
        """Make readable what may be promised from memory, right after `prepare`; the messages and packs of which the
        numbers are in `prepared.early` may then be answered. A second call does nothing."""
        if prepared is not self._in_flight:
            raise RuntimeError("only the batch under way can be published")
        with self._lock:
            for run in prepared.runs[prepared.readable : prepared.early_runs]:
                self._partitions[run.topic, run.partition_id].publish(run)
            prepared.readable = max(prepared.readable, prepared.early_runs)

    def publish(self, prepared: Prepared) -> list[Outcome]:
        """Make a written batch readable; what became of each message and pack, in the order staged."""
        if prepared is not self._in_flight or not prepared.written:
            raise RuntimeError("only the batch under way can be published, and only once it is written")
        self._make_readable(prepared)
        self.stats.blocks += 1
        self.stats.messages += prepared.messages
        self.stats.repeats += prepared.repeats
        self.stats.forgotten_windows = self._windows.forgotten
        self.stats.journal_bytes += prepared.journal_bytes
        return prepared.appended

    def abandon(self, prepared: Prepared) -> None:
        """Forget a batch that was not written, and one prepared behind it; their offsets go to the next one. What was
        published early is in the next one, too."""
        if prepared is self._ahead:
            self._ahead = None
        if prepared is not self._in_flight:
            return
        runs = prepared.runs[: prepared.readable]
        owed = {(run.topic, run.partition_id): run.end_ordinal for run in runs}
        carried = Carried(
            [(self._partitions[run.topic, run.partition_id], run) for run in runs],
            [item for item in prepared.sequences if item.place.ordinal < owed.get((item.topic, item.partition_id), 0)],
        )
        with self._lock:
            self._in_flight, self._ahead, self._carried = None, None, carried

    @property
    def owed_messages(self) -> int:
        """Messages that are promised from memory, could not be written, and go into the next block."""
        return sum(run.count for _, run in self._carried.runs)

    def forget_owed(self, topic: str) -> None:
        """A topic is to be dropped: what is owed of it need not be written any more. For the thread that prepares."""
        runs = [(log, run) for log, run in self._carried.runs if run.topic != topic]
        self._carried = Carried(runs, [item for item in self._carried.sequences if item.topic != topic])

    def _is_under_way(self, topic: str) -> bool:
        """Whether messages of a topic are in the block under way, or are owed to the next one."""
        with self._lock:
            runs = [run for _, run in self._carried.runs]
            for prepared in (self._in_flight, self._ahead):
                runs += prepared.runs if prepared is not None else []
        return any(run.topic == topic for run in runs)

    def _make_readable(self, prepared: Prepared) -> None:
        with self._lock:
            self._in_flight, self._ahead, self._carried = self._ahead, None, Carried()
            for run in prepared.runs[prepared.readable :]:
                self._partitions[run.topic, run.partition_id].publish(run)
            self._windows.publish(prepared.sequences, prepared.changed)
            self._confirmed.update(prepared.confirmed)
            for key, offset in prepared.confirmed.items():
                if offset == FORGOTTEN:
                    del self._confirmed[key]
            self._applier.add(prepared)

    # --- positions ---------------------------------------------------------------------------------------------------

    def confirmed(self, group: str, topic: str, partition_id: int) -> int | None:
        """A group's confirmed offset, None if it never confirmed one."""
        return self._confirmed.get((group, topic, partition_id))

    @property
    def position_count(self) -> int:
        """How many confirmed offsets there are."""
        return len(self._confirmed)

    def positions(self) -> Mapping[GroupKey, int]:
        """All confirmed offsets by (group, topic, partition id), as of now."""
        with self._lock:
            return dict(self._confirmed)

    def position_keys(self) -> list[GroupKey]:
        """Return group, topic and partition id of all confirmed offsets, which costs a tenth of `positions`."""
        with self._lock:
            return list(self._confirmed)

    def windows(self) -> dict[WindowKey, Window]:
        """What is known of producers by (topic, partition id, producer id), the longest unused first, as of now."""
        with self._lock:
            return self._windows.snapshot()

    # --- background --------------------------------------------------------------------------------------------------

    @property
    def unapplied_bytes(self) -> int:
        """Bytes that wait in memory for their partition's log; `apply` lowers it."""
        return self._applier.unapplied_bytes

    @property
    def worth_applying(self) -> bool:
        """Whether so much waits that applying it now costs little for each byte. Less may wait for some time: each
        partition that has something costs the same, however little it is."""
        return self._applier.is_worth_it

    @property
    def applied_bytes(self) -> int:
        """Bytes moved into partition logs since the store was opened."""
        return self._applier.applied_bytes

    @property
    def checkpoints(self) -> int:
        """Checkpoints made since the store was opened."""
        return self._applier.checkpoints

    @property
    def open_files(self) -> int:
        """Log and index files open now; at most `max_open_files` besides those in use this moment."""
        return self._files.open_files

    def apply(self) -> int:
        """Move published messages into their partitions' logs, and make a checkpoint when due; returns bytes moved.

        For a background thread. Blocks.

        Raises:
            DiskFullError, OutOfResourcesError: nothing is lost, call again later.
            DiskFailedError: the disk failed, see `write`.
        """
        self._check_usable()
        return self._on_disk(self._applier.apply)

    def checkpoint(self) -> None:
        """Apply everything and make a checkpoint now, due or not, so that the next start replays nothing."""
        self.apply()
        self._on_disk(self._applier.checkpoint)

    def drop(self, topic: str) -> None:
        """Forget a topic: its partitions, their messages and every group's position in them. For a background thread.

        Nothing of the topic may be staged or under way, or come while this runs, but positions may be forgotten. What a
        reader is just reading may fail for it as for a partition that does not exist. A topic that is not there is
        fine. Blocks.

        Raises:
            StorageError: it is not done, or some files are left over; call again. DiskFailedError: see `write`.
            MessageError: no topic can have this name; nothing was done.
        """
        topic_directory(self.root, topic)
        with self._removing:
            self._check_usable()
            if self._is_under_way(topic):
                raise StorageError(
                    f"topic {topic} cannot be removed: messages of it are on their way to the journal",
                    hint="it is retried automatically once they are written",
                )
            self._on_disk(lambda: self._applier.drop(topic))
            self._fences.forget(topic)
            # One of the same name may come, and have files of the same names.
            self._unneeded = [path for path in self._unneeded if path.parent.parent.name != topic]
            try:
                remove_topic(self._files, self.root, topic)
            except OSError as error:  # not a reason to stop writing: nobody needs these files any more
                raise StorageError(
                    f"files of topic {topic} cannot be removed: {error.strerror or error}",
                    hint="it is retried automatically, and at the next start",
                ) from error

    def retain(self, now_ms: int, *, ahead_s: float | None = None) -> Retained:
        """Drop the messages that are too old or too many by `set_retention`, whole segments at a time; for a background
        thread. Blocks.

        Args:
            now_ms: the time of day, as `prepare` gets it. A clock that jumped is the caller's to notice.
            ahead_s: how long before they go, at least, messages are returned as expiring; None: none are.

        Raises:
            DiskFullError, OutOfResourcesError: nothing was dropped, call again later. DiskFailedError: see `write`.
        """
        segments = messages = size = 0
        with self._removing:
            self._check_usable()
            found = Surplus({}, {})

            def chosen() -> dict[PartitionKey, int]:
                nonlocal found
                found = choose(self._partitions, self._reader, self._retention, now_ms, ahead_s=ahead_s)
                return found.counts

            dropped = self._on_disk(lambda: self._applier.retain(chosen))
            for log, gone in dropped:
                first = gone[0]
                segments += len(gone)
                messages += log.first_ordinal - first.base_ordinal
                size += log.first_position - first.base_position
                self._fences.forget_before(log.topic, log.partition_id, log.first_ordinal)
                PARTITION.record(
                    "retained", topic=log.topic, partition=log.partition_id, offset=to_offset(log.first_ordinal),
                    segments=len(gone),
                )  # fmt: skip
                for segment in gone:
                    self._reader.forget(segment)
                    self._unneeded += (segment.log_path, segment.index_path)
            self._unneeded = remove_files(self._files, self._unneeded)
        return Retained(segments, messages, size, found.expiring)

    def _on_disk(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except OSError as error:
            meant = storage_error(self.root / "logs", error)
            if isinstance(meant, DiskFailedError):
                self._failure = meant
            raise meant from error

    def _check_usable(self) -> None:
        if self._closed:
            raise ClosedError(f"the store in {self.root} is closed")
        if self._failure is not None:
            raise DiskFailedError(self._failure.message, hint=self._failure.hint)

    def close(self, *, apply: bool = True) -> None:
        """Apply what waits, make a checkpoint and release the directory; a second call does nothing. Without `apply`
        it is released as it is: whoever only looked need not write.

        Call it when no other thread uses the store; a pass of `retain` or a `drop` that is under way is waited for. If
        the disk does not let it, the rest is left to the next start, which finds it in the journal. Where a write of
        the journal hangs still, nothing is written beside it, and the directory is not given up: it may yet end.
        """
        with self._removing:
            if self._closed:
                return
            if not self._writing.acquire(blocking=False):
                self._closed = True
                _log.error(
                    "%s: a write of the journal hangs; the directory stays locked until this process has ended, and "
                    "the next start reads the journal",
                    self.root,
                )
                return
            self._writing.release()
            try:
                if apply and self._failure is None:
                    self._write_carried()
                    self.checkpoint()
            except StorageError as error:
                _log.warning("closing %s without a checkpoint: %s", self.root, error.message)
            finally:
                self._closed = True
                self._release()

    def _write_carried(self) -> None:
        """What was promised from memory and is owed since its block was abandoned must not end with the process."""
        if self._in_flight is not None:
            self.abandon(self._in_flight)
        if self._carried.runs:
            prepared = self.prepare(self.staging(), 0)
            try:
                self.write(prepared)
            except BaseException:
                self.abandon(prepared)
                raise
            self.publish(prepared)

    def _release(self) -> None:
        with suppress(AttributeError):  # recovery may have failed before there was one
            self._journal.close()
        self._files.close()
        self._held.release()


def _unusable(root: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot use {error.filename or root}: {error.strerror or error}",
        hint="check that it is a directory which this user may read and write, or give another one",
    )
