"""A Broker's store: what was accepted goes to the journal, becomes readable, and moves to its partition's log later.

The invariant: nothing is readable or numbered for good before it is as durable as promised, and at any moment each
published message is in the journal behind the checkpoint, or flushed in its partition's log, or both.

Three threads may use a store at a time: the one that prepares and publishes (an event loop's), one that writes the
journal, one that applies. Reading is safe from any. One lock guards ends, tails and queue, held for moments only.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytubemq.errors import DiskFullError, StorageError
from pytubemq.storage.disk.disk import OsDisk, close_to_others
from pytubemq.storage.disk.file_cache import FileCache
from pytubemq.storage.journal.journal import FULL_ERRORS, full_at_start
from pytubemq.storage.journal.staging import Staging
from pytubemq.storage.journal.store_state import StoreState
from pytubemq.storage.store.block_writer import BlockWriter
from pytubemq.storage.store.condition import Condition
from pytubemq.storage.store.message_removal import MessageRemoval
from pytubemq.storage.store.reads import StoreReads
from pytubemq.storage.store.repair_report import repair_notices
from pytubemq.storage.store.store_recovery import recover
from pytubemq.storage.store_settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytubemq.core.sequences import Window
    from pytubemq.model.durability import Durability
    from pytubemq.model.policy import RetentionPolicy
    from pytubemq.storage.disk.disk import DirectoryLock, Disk
    from pytubemq.storage.format.record import GroupKey, WindowKey
    from pytubemq.storage.journal.staging import Outcome, Prepared
    from pytubemq.storage.log.retention import Retained
    from pytubemq.storage.store.store_recovery import Recovered

_log = logging.getLogger(__name__)


class BrokerStore(StoreReads):
    """All partitions and confirmed offsets of one Broker in one directory; make one with `open`.

    Its parts share a `StoreState`: reads are inherited, `BlockWriter` accepts, `Applier` moves into the logs,
    `MessageRemoval` removes.
    """

    def __init__(
        self,
        state: StoreState,
        settings: StoreSettings,
        held: DirectoryLock,
        condition: Condition,
        recovered: Recovered,
    ) -> None:
        """Use `open`: this does not recover."""
        super().__init__(state, settings)
        self.root = state.root
        self.settings = settings
        self.lost_records = recovered.lost_records
        """A text on positions of groups and sequences of producers that a damaged journal may have lost."""
        self._state = state
        self._held = held
        self._condition = condition
        self._durability: dict[str, Durability] = {}
        self._applier = recovered.applier
        self._writer = BlockWriter(
            state, condition, recovered, reserve_bytes=settings.reserve_bytes, durability_of=self.durability_of
        )
        self._removal = MessageRemoval(state, condition, self._applier, self._writer, self._reader)

    @classmethod
    def open(cls, root: Path, *, disk: Disk | None = None, settings: StoreSettings | None = None) -> BrokerStore:
        """Lock the directory, recover what is there, and be ready.

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
            # Before anything is read: another process may be changing what is here.
            held = disk.lock(root / "lock")
        except OSError as error:
            raise _unusable(root, error) from error
        settings = settings or StoreSettings()
        state = StoreState(disk, root, FileCache(disk, limit=settings.max_open_files))
        condition = Condition(root)
        try:
            return cls(state, settings, held, condition, recover(state, settings, condition))
        except BaseException as error:
            # Everything is given back, so that this process can try to open it again.
            state.files.close()
            held.release()
            if isinstance(error, DiskFullError) or (isinstance(error, OSError) and error.errno in FULL_ERRORS):
                raise full_at_start(disk, root) from error
            if isinstance(error, OSError):
                raise _unusable(root, error) from error
            raise

    def repair_notices(self) -> list[str]:
        """Return a line for each repair of this store that may have lost positions, until its report is removed."""
        return repair_notices(self._state.disk, self.root)

    # --- accepting ---------------------------------------------------------------------------------------------------

    def ensure_partition(self, topic: str, partition_id: int) -> None:
        """Make the partition known; one that exists is fine. On disk it begins with its first message."""
        self._state.add_partition(topic, partition_id)

    def set_durability(self, topic: str, durability: Durability | None) -> None:
        """Set when a topic's messages and positions count as accepted, from the next `prepare` on; None: as the store's
        settings say."""
        if durability is None:
            self._durability.pop(topic, None)
        else:
            self._durability[topic] = durability

    def durability_of(self, topic: str) -> Durability:
        """Return when a topic's messages and positions count as accepted."""
        return self._durability.get(topic, self.settings.durability)

    def set_retention(self, topic: str, policy: RetentionPolicy | None) -> None:
        """Set what `retain` keeps of a topic; None: everything. Its log files hold a tenth of that from now on."""
        if policy is None:
            self._state.retention.pop(topic, None)
        else:
            self._state.retention[topic] = policy

    def staging(self) -> Staging:
        """Return a new, empty staging; any number may be filled at a time."""
        return Staging(self._partitions)

    def prepare(self, staging: Staging, now_ms: int) -> Prepared:
        """Number what was staged and build its bytes; CPU only, for the event loop's thread.

        `write` it, then `publish` or `abandon` it. Two may be under way at a time, written and published in the order
        prepared: the second is built on what the first will leave, and goes with it if that is abandoned.
        """
        return self._writer.prepare(staging, now_ms)

    def write(self, prepared: Prepared) -> None:
        """Write the batch to the journal, flushed if so promised; for the one writer thread. Blocks.

        Raises:
            DiskFullError, OutOfResourcesError: no space, no file handle; abandon the batch, later ones may work.
            DiskFailedError: the disk failed; nothing is accepted any more until a restart.
            StorageError: the batch before it was not written, so this one cannot be.
        """
        self._writer.write(prepared)

    def check_space(self) -> None:
        """Check that there is room for messages, before one is refused. Blocks.

        Raises:
            DiskFullError: no more is free than `reserve_bytes`. DiskFailedError: the free space cannot be read.
        """
        self._writer.space.check()

    def publish_early(self, prepared: Prepared) -> None:
        """Make readable what may be promised from memory, right after `prepare`; the messages and batches of which the
        numbers are in `prepared.early` may then be answered. A second call does nothing."""
        self._writer.publish_early(prepared)

    def publish(self, prepared: Prepared) -> list[Outcome]:
        """Make a written batch readable; returns what became of each message and batch, in the order staged."""
        return self._writer.publish(prepared)

    def abandon(self, prepared: Prepared) -> None:
        """Forget a batch that was not written, and one prepared behind it; their offsets go to the next one. What was
        published early is in the next one, too."""
        self._writer.abandon(prepared)

    @property
    def owed_messages(self) -> int:
        """Messages that are promised from memory, could not be written, and go into the next block."""
        return self._writer.owed_messages

    def forget_owed(self, topic: str) -> None:
        """Forget what is owed of a topic that is to be dropped: it need not be written any more. For the thread that
        prepares."""
        self._writer.forget_owed(topic)

    # --- positions ---------------------------------------------------------------------------------------------------

    def confirmed(self, group: str, topic: str, partition_id: int) -> int | None:
        """Return a group's confirmed offset, None if it never confirmed one."""
        return self._state.confirmed.get((group, topic, partition_id))

    @property
    def position_count(self) -> int:
        """The number of confirmed offsets."""
        return len(self._state.confirmed)

    def positions(self) -> Mapping[GroupKey, int]:
        """Return all confirmed offsets by (group, topic, partition id), as of now."""
        with self._state.lock:
            return dict(self._state.confirmed)

    def position_keys(self) -> list[GroupKey]:
        """Return group, topic and partition id of all confirmed offsets, which costs a tenth of `positions`."""
        with self._state.lock:
            return list(self._state.confirmed)

    def windows(self) -> dict[WindowKey, Window]:
        """Return all windows by (topic, partition id, producer id), the longest unused first, as of now."""
        with self._state.lock:
            return self._state.windows.snapshot()

    # --- background --------------------------------------------------------------------------------------------------

    @property
    def unapplied_bytes(self) -> int:
        """Bytes that wait in memory for their partition's log; `apply` lowers it."""
        return self._applier.unapplied_bytes

    @property
    def worth_applying(self) -> bool:
        """True if so much waits that applying it now costs little for each byte. Less may wait for some time: each
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
        return self._state.files.open_files

    def apply(self) -> int:
        """Move published messages into their partitions' logs, and make a checkpoint when due; returns bytes moved.

        For a background thread. Blocks.

        Raises:
            DiskFullError, OutOfResourcesError: nothing is lost, call again later.
            DiskFailedError: the disk failed, see `write`.
        """
        self._condition.check()
        return self._condition.run(self._applier.apply)

    def checkpoint(self) -> None:
        """Apply everything and make a checkpoint now, due or not, so that the next start replays nothing."""
        # Raises before a checkpoint if the disk failed; what could not be applied stays in the journal.
        self.apply()
        self._condition.run(self._applier.checkpoint)

    def drop(self, topic: str) -> None:
        """Forget a topic: its partitions, their messages and every group's position in them. For a background thread.

        Nothing of the topic may be staged or under way, or come while this runs, but positions may be forgotten. What a
        reader is just reading may fail for it as for a partition that does not exist. A topic that is not there is
        fine. Blocks.

        Raises:
            StorageError: it is not done, or some files are left over; call again. DiskFailedError: see `write`.
            MessageError: no topic can have this name; nothing was done.
        """
        self._removal.drop(topic)

    def retain(self, now_ms: int, *, ahead_s: float | None = None) -> Retained:
        """Drop the messages that are too old or too many by `set_retention`, whole segments at a time; for a background
        thread. Blocks.

        Args:
            now_ms: the time of day, as `prepare` gets it. A clock that jumped is the caller's to notice.
            ahead_s: how long before they go, at least, messages are returned as expiring; None: none are.

        Raises:
            DiskFullError, OutOfResourcesError: nothing was dropped, call again later. DiskFailedError: see `write`.
        """
        return self._removal.retain(now_ms, ahead_s=ahead_s)

    def close(self, *, apply: bool = True) -> None:
        """Apply what waits, make a checkpoint and release the directory; a second call does nothing. Without `apply`
        it is released as it is: whoever only looked need not write.

        Call it when no other thread uses the store; a pass of `retain` or a `drop` that is under way is waited for. If
        the disk does not let it, the rest is left to the next start, which finds it in the journal. Where a write of
        the journal hangs still, nothing is written beside it, and the directory is not given up: it may yet end.
        """
        # A removal under way ends first; it must not find its files closed.
        with self._removal.removing:
            if self._condition.is_closed:
                return
            # A write that hangs holds this lock; to wait for it would make the close hang as well.
            if not self._writer.writing.acquire(blocking=False):
                self._condition.is_closed = True
                _log.error(
                    "%s: a write of the journal hangs; the directory stays locked until this process has ended, and "
                    "the next start reads the journal",
                    self.root,
                )
                return
            # Only whether it could be had matters: no other thread writes now.
            self._writer.writing.release()
            try:
                # After a failure of the disk nothing more is written, not even a checkpoint.
                if apply and self._condition.failure is None:
                    # What memory has promised goes into the journal before the checkpoint that is to cover all.
                    self._writer.write_owed(self.staging())
                    self.checkpoint()
            except StorageError as error:
                _log.warning("closing %s without a checkpoint: %s", self.root, error.message)
            finally:
                self._condition.is_closed = True
                self._writer.close()
                self._state.files.close()
                # Last: until here another process would find files that still change.
                self._held.release()


def _unusable(root: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot use {error.filename or root}: {error.strerror or error}",
        hint="check that it is a directory which this user may read and write, or give another one",
    )
