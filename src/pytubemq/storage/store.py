"""A Broker's store: what was accepted goes to the journal, becomes readable, and moves to its partition's log later.

The invariant: nothing is readable or numbered for good before it is as durable as promised, and at any moment each
published message lies in the journal behind the checkpoint, or flushed in its partition's log, or both.

Three threads may use a store at a time: the one that prepares and publishes (an event loop's), one that writes the
journal, one that applies. Reading is safe from any. One lock guards ends, tails and queue, held for moments only.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from pytubemq.errors import ClosedError, DiskFailedError, DiskFullError, MessageError, StorageError
from pytubemq.model.durability import Durability
from pytubemq.model.limits import MAX_UNAPPLIED_BYTES, MIB
from pytubemq.model.offset import to_offset
from pytubemq.storage import recovery
from pytubemq.storage.applier import Applier
from pytubemq.storage.disk import Disk, NotOpenedError, OsDisk
from pytubemq.storage.files import FileCache
from pytubemq.storage.journal import FULL_ERRORS, Journal, full, not_opened, storage_error
from pytubemq.storage.partition_log import Extent, PartitionLog
from pytubemq.storage.record import FORGOTTEN
from pytubemq.storage.removal import remove_topic
from pytubemq.storage.space import SpaceGuard
from pytubemq.storage.staging import Appended, Prepared, Staging, build, no_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytubemq.storage.disk import DirectoryLock
    from pytubemq.storage.record import GroupKey
    from pytubemq.storage.selection import Slice

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MESSAGE_ID_SHIFT: Final = 22
_LAST_ID_MS: Final = (1 << 41) - (1 << 36)
"""The milliseconds of an id go no further (July 2037), so that an int64 is never full: from there on ids count up by
one, for which 2^58 are left."""
_REPLAY_BYTES: Final = 32 * MIB
"""Replayed messages held in memory at a time while a store opens."""
_TOPIC = re.compile(r"\w[\w.-]{0,254}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """How a store behaves; sizes in bytes."""

    durability: Durability = Durability.DISK
    segment_bytes: int = 128 * MIB
    """A partition's log file is followed by another beyond this."""
    journal_segment_bytes: int = 64 * MIB
    """The same for the journal; a closed journal file brings the next checkpoint."""
    reserve_bytes: int = MAX_UNAPPLIED_BYTES + 64 * MIB
    """Free space that sends may not use: what was accepted must still fit into its log."""
    max_open_files: int = 256


@dataclass(slots=True)
class StoreStats:
    """Counters since the store was opened."""

    blocks: int = 0
    messages: int = 0
    journal_bytes: int = 0
    full_refusals: int = 0
    """Batches refused for want of space."""
    replayed_messages: int = 0
    cut_bytes: int = 0
    """Torn bytes cut from the journal's end when it was opened."""


class BrokerStore:
    """All partitions and confirmed offsets of one Broker in one directory; make one with `open`."""

    def __init__(self, root: Path, disk: Disk, settings: StoreSettings, held: DirectoryLock) -> None:
        """Use `open`: this does not recover."""
        self.root = root
        self.settings = settings
        self.stats = StoreStats()
        self._disk = disk
        self._held = held
        self._lock = Lock()
        self._files = FileCache(disk, limit=settings.max_open_files)
        self._partitions: dict[tuple[str, int], PartitionLog] = {}
        self._confirmed: dict[GroupKey, int] = {}
        self._last_message_id = 0
        self._in_flight: Prepared | None = None
        self._failure: DiskFailedError | None = None
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
            held = disk.lock(root / "lock")
        except OSError as error:
            raise _unusable(root, error) from error
        store = cls(root, disk, settings or StoreSettings(), held)
        try:
            store._recover()
        except OSError as error:
            store._release()
            raise (full(root / "journal") if error.errno in FULL_ERRORS else _unusable(root, error)) from error
        except BaseException:
            store._release()
            raise
        return store

    def _recover(self) -> None:
        found = recovery.survey(self._disk, self.root)
        for directory in (self.root, *self.root.parents):
            with suppress(PermissionError):  # not ours to flush: somebody made it for us before
                self._disk.fsync_dir(directory)
        recovery.cut_logs(self._disk, found)
        self._applier = Applier(
            self._disk,
            self.root,
            self._files,
            lock=self._lock,
            partitions=self._partitions,
            confirmed=self._confirmed,
            durability=self.settings.durability,
            segment_bytes=self.settings.segment_bytes,
            checkpoint=found.checkpoint,
        )
        for log in found.logs:
            partition = self._add_partition(log.topic, log.partition_id)
            partition.restore(log.segments, log.end)
        self._confirmed.update(found.checkpoint.confirmed)
        resume = recovery.replay(self._disk, found, self._replay)
        self._journal = Journal(
            self._disk,
            self.root / "journal",
            durability=self.settings.durability,
            segment_bytes=self.settings.journal_segment_bytes,
            number=resume.number,
            sequence=resume.next_sequence,
        )
        if resume.file is not None and resume.header is not None:
            self._journal.resume(resume.file, resume.header, resume.end)
        self._last_message_id = resume.last_message_id
        self.stats.cut_bytes = resume.cut_bytes
        if self.stats.replayed_messages or resume.cut_bytes:
            _log.info("%s: replayed %d messages", self.root, self.stats.replayed_messages)

    def _replay(self, block: Prepared) -> None:
        """Publish a block found in the journal, without what the logs already hold."""
        for run in block.runs:
            log = self._add_partition(run.topic, run.partition_id)
            if run.base_ordinal > log.end_ordinal:
                raise recovery.gap(self.root, run, log.end_ordinal)
        block.runs = [
            run.from_ordinal(log.end_ordinal)
            for run in block.runs
            if run.end_ordinal > (log := self._partitions[run.topic, run.partition_id]).end_ordinal
        ]
        block.size_bytes = sum(len(run.index) + len(run.entries) for run in block.runs)
        self._make_readable(block)
        self.stats.replayed_messages += sum(run.count for run in block.runs)
        if self.unapplied_bytes > _REPLAY_BYTES:
            self.apply()

    # --- accepting ---------------------------------------------------------------------------------------------------

    def ensure_partition(self, topic: str, partition_id: int) -> None:
        """Make the partition known; one that exists is fine. On disk it begins with its first message."""
        if not _TOPIC.fullmatch(topic) or partition_id < 0:
            raise MessageError(
                f"not a partition that can be stored: {topic!r}:{partition_id}", hint="check the topic's name", code=400
            )
        self._add_partition(topic, partition_id)

    def _add_partition(self, topic: str, partition_id: int) -> PartitionLog:
        key = (topic, partition_id)
        log = self._partitions.get(key)
        if log is None:
            directory = self.root / "logs" / topic / str(partition_id)
            log = self._partitions[key] = PartitionLog(topic, partition_id, directory, self._lock)
        return log

    def staging(self) -> Staging:
        """A new, empty staging; any number may be filled at a time."""
        return Staging(self._partitions)

    def prepare(self, staging: Staging, now_ms: int) -> Prepared:
        """Number what was staged and build its bytes; CPU only, for the event loop's thread.

        One prepared batch may be under way at a time: `write` it, then `publish` or `abandon` it.
        """
        self._check_usable()
        if self._in_flight is not None:
            raise RuntimeError("the batch prepared before is neither published nor abandoned")
        # Unique over restarts, and rising even when the clock goes back: never below the last one found on disk.
        last = max(self._last_message_id, min(now_ms, _LAST_ID_MS) << _MESSAGE_ID_SHIFT)
        prepared = build(staging, self._partitions, last, now_ms)
        self._last_message_id = prepared.last_message_id
        self._in_flight = prepared
        return prepared

    def write(self, prepared: Prepared) -> None:
        """Write the batch to the journal, flushed if so promised; for the one writer thread. Blocks.

        Raises:
            DiskFullError, OutOfResourcesError: no space, no file handle; abandon the batch, later ones may work.
            DiskFailedError: the disk failed; nothing is accepted any more until a restart.
        """
        self._check_usable()
        try:
            self._space.take(prepared.size_bytes)
            self._journal.write(prepared)
        except DiskFailedError as error:
            self._failure = error
            raise
        except DiskFullError:
            self.stats.full_refusals += 1
            raise
        prepared.written = True

    def publish(self, prepared: Prepared) -> list[Appended]:
        """Make a written batch readable; what became of each message, in the order staged."""
        if prepared is not self._in_flight or not prepared.written:
            raise RuntimeError("only the batch under way can be published, and only once it is written")
        self._in_flight = None
        self._make_readable(prepared)
        self.stats.blocks += 1
        self.stats.messages += prepared.count
        self.stats.journal_bytes += prepared.size_bytes
        return prepared.appended

    def abandon(self, prepared: Prepared) -> None:
        """Forget a batch that was not written; its offsets go to the next one."""
        if prepared is self._in_flight:
            self._in_flight = None

    def _make_readable(self, prepared: Prepared) -> None:
        with self._lock:
            for run in prepared.runs:
                self._partitions[run.topic, run.partition_id].publish(run)
            self._confirmed.update(prepared.confirmed)
            for key, offset in prepared.confirmed.items():
                if offset == FORGOTTEN:
                    del self._confirmed[key]
            self._applier.add(prepared)

    # --- reading -----------------------------------------------------------------------------------------------------

    def ends(self, topic: str, partition_id: int) -> tuple[int, int]:
        """Offset of the first message kept, and the one behind the last readable. NotFoundError if unknown."""
        log = self._log(topic, partition_id)
        return to_offset(log.min_ordinal), to_offset(log.end_ordinal)

    def extent(self, topic: str, partition_id: int) -> Extent:
        """The same with the positions in the partition's bytes. NotFoundError if unknown."""
        return self._log(topic, partition_id).extent()

    def position_of(self, topic: str, partition_id: int, offset: int) -> int:
        """Where the message at `offset` begins in the partition's bytes; its nearest end outside. May read the disk.

        Raises:
            NotFoundError: no such partition.
            CorruptError: the index fails its check. OSError: the disk could not be read.
        """
        try:
            return self._log(topic, partition_id).position_of(self._files, offset)
        except NotOpenedError as error:
            raise not_opened(error) from error

    def partitions(self) -> list[tuple[str, int]]:
        """All partitions known, by topic and id."""
        return sorted(self._partitions)

    def in_memory(self, topic: str, partition_id: int, offset: int) -> bool:
        """Whether `read` from `offset` will not touch the disk. NotFoundError if the partition is unknown.

        If `apply` gets in between, the read finds the same bytes in files just written, so in the system's cache.
        """
        return self._log(topic, partition_id).in_memory(offset)

    def read(
        self,
        topic: str,
        partition_id: int,
        offset: int,
        *,
        end_offset: int | None = None,
        max_bytes: int,
        max_messages: int,
        codes: frozenset[int] | None = None,
    ) -> Slice:
        """Messages from `offset` on, before `end_offset`, as bytes that go into a fetch answer as they are.

        Args:
            offset: rounded down to a whole message; at or beyond the end the slice is empty.
            max_bytes: stops after the entry that reaches it, so one message always comes.
            codes: only messages with these filter codes; None takes all. `next_offset` also passes the others.

        Raises:
            NotFoundError: no such partition. OffsetMovedError: `offset` lies below what is kept.
            OutOfResourcesError: no file handle now, try again later.
            CorruptError: the bytes on disk fail their check. OSError: the disk could not be read.
        """
        log = self._log(topic, partition_id)
        try:
            return log.read(
                self._files, offset, end_offset=end_offset, max_bytes=max_bytes, max_messages=max_messages, codes=codes
            )
        except NotOpenedError as error:
            raise not_opened(error) from error
        except FileNotFoundError:
            if self._partitions.get((topic, partition_id)) is log:
                raise
            raise no_partition(topic, partition_id) from None  # it was dropped meanwhile

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

    def _log(self, topic: str, partition_id: int) -> PartitionLog:
        try:
            return self._partitions[topic, partition_id]
        except KeyError:
            raise no_partition(topic, partition_id) from None

    # --- background --------------------------------------------------------------------------------------------------

    @property
    def unapplied_bytes(self) -> int:
        """Bytes that wait in memory for their partition's log; `apply` lowers it."""
        return self._applier.unapplied_bytes

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
        """
        self._check_usable()
        self._on_disk(lambda: self._applier.drop(topic))
        try:
            remove_topic(self._files, self.root / "logs", topic)
        except OSError as error:  # not a reason to stop writing: nobody needs these files any more
            raise StorageError(
                f"files of topic {topic} cannot be removed: {error.strerror or error}",
                hint="it is tried again by itself, and at the next start",
            ) from error

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

    def close(self) -> None:
        """Apply what waits, make a checkpoint and release the directory; a second call does nothing.

        Call it when no other thread uses the store. If the disk does not let it, the rest is left to the next start,
        which finds it in the journal.
        """
        if self._closed:
            return
        try:
            if self._failure is None:
                self.checkpoint()
        except StorageError as error:
            _log.warning("closing %s without a checkpoint: %s", self.root, error.message)
        finally:
            self._closed = True
            self._release()

    def _release(self) -> None:
        with suppress(AttributeError):  # recovery may have failed before there was one
            self._journal.close()
        self._files.close()
        self._held.release()


def _unusable(root: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot use {root}: {error.strerror or error}",
        hint="check that it is a directory which this user may read and write, or give another one",
    )
