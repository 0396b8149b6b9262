"""Moves published messages from memory into their partitions' logs, and makes checkpoints; one background thread.

The invariant: a block leaves the queue, and so memory, only when all of it is in the logs; a journal file goes only
after a checkpoint that no longer needs it is on the device. Whatever fails half-way is done again by the next call.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.errors import StorageError
from pytubemq.model.limits import MAX_UNAPPLIED_BYTES, MIB
from pytubemq.observe.story import PARTITION
from pytubemq.storage.checkpoint import Checkpoint, write_checkpoint
from pytubemq.storage.disk import flush_directory, open_file
from pytubemq.storage.files import LostFileError
from pytubemq.storage.journal import journal_path
from pytubemq.storage.log_survey import FoundLog, survey_log
from pytubemq.storage.partition_log import Dirty
from pytubemq.storage.retention import roll_at

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, MutableMapping
    from pathlib import Path

    from pytubemq.model.policy import RetentionPolicy
    from pytubemq.storage.disk import Disk
    from pytubemq.storage.fences import Fences
    from pytubemq.storage.files import FileCache
    from pytubemq.storage.partition_log import PartitionLog
    from pytubemq.storage.record import GroupKey, LogEnd, PartitionKey
    from pytubemq.storage.run import Run
    from pytubemq.storage.segment import Segment
    from pytubemq.storage.staging import Prepared
    from pytubemq.storage.windows import Windows

_log = logging.getLogger(__name__)

_STEP_BYTES: Final = 64 * MIB
"""Applied together: few enough to leave memory steadily, many enough for few system calls per partition."""
_PARTITION_BYTES: Final = 16 * 1024
"""So much for each partition makes a round worth its cost, within these two bounds."""
_LEAST_BYTES: Final = 8 * MIB
_MOST_BYTES: Final = MAX_UNAPPLIED_BYTES // 2
_CHECKPOINT_FILES: Final = 4
"""A checkpoint is due after so many journal files also if they hold little but positions."""


_BLOCK_COST_BYTES: Final = 512
_RUN_COST_BYTES: Final = 768
"""What a queued block, and each of its runs, takes of memory beside the messages, about."""


class _Place(NamedTuple):
    """Behind a block of the journal; all before it is in the logs once this is reached."""

    journal: int
    journal_position: int
    next_sequence: int
    last_message_id: int


@dataclass(slots=True, eq=False)
class _Queued:
    """What is left of a published block until it is in the logs: nothing else of it is kept."""

    runs: list[Run]
    size_bytes: int
    place: _Place

    def only(self, keys: Container[PartitionKey]) -> _Queued:
        """What it has of some partitions."""
        runs = [run for run in self.runs if (run.topic, run.partition_id) in keys]
        return _Queued(runs, sum(run.size_bytes for run in runs), self.place)

    @property
    def cost_bytes(self) -> int:
        """What it takes of memory."""
        return self.size_bytes + _BLOCK_COST_BYTES + _RUN_COST_BYTES * len(self.runs)


class Applier:
    """Queue of published blocks and the checkpoint behind it.

    `apply` and `checkpoint` belong to one thread at a time (they take turns by a lock of their own); `add` is called
    with the store's lock held.
    """

    def __init__(
        self,
        disk: Disk,
        root: Path,
        files: FileCache,
        *,
        lock: Lock,
        partitions: MutableMapping[tuple[str, int], PartitionLog],
        confirmed: MutableMapping[GroupKey, int],
        windows: Windows,
        segment_bytes: int,
        checkpoint_bytes: int,
        whole_disk_from: int,
        retention: Mapping[str, RetentionPolicy],
        fences: Fences,
        checkpoint: Checkpoint,
        damaged: Mapping[PartitionKey, LogEnd],
    ) -> None:
        """`damaged` says how far the logs of partitions reach whose files are not all there: it stays so until
        something is added."""
        self._disk = disk
        self._root = root
        self._files = files
        self._lock = lock
        self._turn = Lock()
        self._partitions = partitions
        self._confirmed = confirmed
        self._windows = windows
        self._segment_bytes = segment_bytes
        self._checkpoint_bytes = checkpoint_bytes
        self._whole_disk_from = whole_disk_from
        self._retention = retention
        self._fences = fences
        self._damaged = dict(damaged)
        self._troubled = dict.fromkeys(damaged)
        """Partitions of which the files cannot be used, the one first that is to be looked at next."""
        self._stuck: dict[PartitionKey, None] = {}
        """Those of them that cannot even begin another segment."""
        self._held: list[_Queued] = []
        """What was published of these, and is nowhere but in memory and in the journal."""
        self._behind_held: _Place | None = None
        """What is reached as soon as nothing is held."""
        self._queue: deque[_Queued] = deque()
        self._dirty = Dirty()
        self._last = checkpoint
        """The checkpoint on the device; its ends and offsets are not kept."""
        self._waiting: set[PartitionKey] = set()
        """Partitions of which something is queued, about."""
        self._reached: _Place | None = None
        self._newest_journal = 0
        """The journal file with the block published last."""
        self._newest_flushed = True
        """Whether that block is known to be on the device."""
        self._known_sequence = checkpoint.known_sequence
        """Positions and windows are as of the block before this one."""
        self._queued_bytes = 0
        self._is_urgent = False
        self._since_checkpoint = 0
        self.unapplied_bytes = 0
        self.applied_bytes = 0
        self.checkpoints = 0

    @property
    def is_worth_it(self) -> bool:
        """See `BrokerStore.worth_applying`."""
        enough = len(self._waiting) * _PARTITION_BYTES
        return self._queued_bytes >= min(max(enough, _LEAST_BYTES), _MOST_BYTES)

    def add(self, block: Prepared) -> None:
        """Queue a published block; the caller holds the store's lock."""
        place = _Place(block.journal, block.journal_end, block.next_sequence, block.last_message_id)
        self._newest_journal, self._newest_flushed = block.journal, block.flushed
        self._known_sequence = max(self._known_sequence, block.next_sequence)
        if not block.runs and self._queue:
            self._queue[-1].place = place  # nothing of it goes into a log
            return
        queued = _Queued(block.runs, block.size_bytes, place)
        self._queue.append(queued)
        self._waiting.update((run.topic, run.partition_id) for run in block.runs)
        self._queued_bytes += queued.size_bytes
        self.unapplied_bytes += queued.cost_bytes

    def hurry(self) -> None:
        """The next checkpoint is due as soon as it lets a journal file go."""
        self._is_urgent = True

    def apply(self) -> int:
        """Write all that is queued now into the logs, and make a checkpoint if one is due; returns bytes applied.

        Raises:
            OSError: nothing is lost; call again.
        """
        with self._turn:
            self._look_again()
            total = self._apply_queued()
            if self._is_due():
                self._checkpoint()
            return total

    def checkpoint(self) -> None:
        """Make a checkpoint now unless nothing happened since the last one. Raises OSError."""
        with self._turn:
            if self._reached is not None:
                self._checkpoint()

    def drop(self, topic: str) -> None:
        """Forget a topic's partitions and all positions in them, by a checkpoint that knows nothing of them: from then
        on no start brings them back, and a start removes their files. The caller sees to it that nothing of the topic
        is on its way but positions that are forgotten; other topics may get partitions meanwhile.

        Raises:
            OSError: nothing was changed; call again.
        """
        with self._turn:
            self._apply_queued()
            if any(key[0] != topic for key in self._stuck):
                # A start replays the journal from before the checkpoint then, with what it has of the topic.
                raise StorageError(
                    f"topic {topic} cannot be removed while the journal is kept for others",
                    hint="it is tried again by itself; see which partitions cannot be used",
                )
            logs = [log for log in list(self._partitions.values()) if log.topic == topic]
            with self._lock:
                positions = [key for key in self._confirmed if key[1] == topic]
            if positions or self._held or any(log.applied_ordinal for log in logs):
                self._checkpoint(without=topic)
                self._release(lambda key: key[0] == topic)
            with self._lock:
                for log in logs:
                    del self._partitions[topic, log.partition_id]
                for key in positions:
                    self._confirmed.pop(key, None)
                self._windows.forget(topic)

    def retain(self, choose: Callable[[], dict[PartitionKey, int]]) -> list[tuple[PartitionLog, tuple[Segment, ...]]]:
        """Forget the oldest segments of partitions, as many of each as `choose` says, by a checkpoint that knows them
        no more: from then on no start brings them back. Returns what was forgotten; its files are the caller's to
        remove.

        Raises:
            OSError: nothing was changed; call again.
        """
        with self._turn:
            counts = choose()
            if not counts:
                return []
            self._checkpoint(dropped=counts)
            with self._lock:
                return [(log := self._partitions[key], log.drop_first(count)) for key, count in counts.items()]

    def _apply_queued(self) -> int:
        total = 0
        with self._lock:
            waiting = len(self._queue)
            self._waiting = set()
        while waiting > 0:
            blocks, size = self._step(waiting)
            self._write(blocks)
            waiting -= len(blocks)
            total += size
        return total

    def _step(self, most: int) -> tuple[list[_Queued], int]:
        blocks: list[_Queued] = []
        size = 0
        with self._lock:
            for block in self._queue:
                if blocks and (size + block.size_bytes > _STEP_BYTES or len(blocks) == most):
                    break
                blocks.append(block)
                size += block.size_bytes
        return blocks, size

    def _write(self, blocks: list[_Queued]) -> None:
        ends = {(run.topic, run.partition_id): run.end_ordinal for block in blocks for run in block.runs}
        for key, end in ends.items():
            if key in self._stuck or not self._apply_to(key, end):
                self._stuck[key] = None
        size = sum(block.size_bytes for block in blocks)
        held = [kept for block in blocks if (kept := block.only(self._stuck)).runs] if self._stuck else []
        with self._lock:
            for _ in blocks:
                self._queue.popleft()
            self._queued_bytes -= size
            self.unapplied_bytes -= sum(block.cost_bytes for block in blocks) - sum(kept.cost_bytes for kept in held)
            self._held += held
            self._behind_held = blocks[-1].place
            if not self._held:
                self._reached = self._behind_held
        self.applied_bytes += size
        self._since_checkpoint += size

    # --- partitions whose files cannot be used -----------------------------------------------------------------------

    def _apply_to(self, key: PartitionKey, end: int) -> bool:
        """Apply what a partition has up to a message; False if its files do not let it. Raises OSError."""
        log = self._partitions[key]
        roll = roll_at(self._retention.get(log.topic), self._segment_bytes)
        for _ in range(2):  # in another segment, if the one begun cannot be written on
            try:
                log.apply(end, self._files, self._dirty, roll)
                return True
            except LostFileError as error:
                self._set_aside(log, error.text)
        return False

    def _set_aside(self, log: PartitionLog, text: str) -> None:
        if log.problem is None:
            _log.error("%s:%d cannot be used: %s", log.topic, log.partition_id, text)
        log.set_aside(text, self._files)
        self._troubled.setdefault((log.topic, log.partition_id))

    def _look_again(self) -> None:
        """Use partitions again of which the files are there again. The first of which they are not ends it, so that it
        costs little however many there are."""
        for key in list(self._troubled):
            log = self._partitions.get(key)
            del self._troubled[key]
            if log is not None and not self._is_mended(key, log):
                self._troubled[key] = None
                return

    def _is_mended(self, key: PartitionKey, log: PartitionLog) -> bool:
        if key in self._stuck:
            if not self._apply_to(key, self._held_end(key)):
                return False
            self._release(lambda other: other == key)
        end = self._end(key, log, 0)
        found = survey_log(self._disk, FoundLog(log.topic, log.partition_id, log.directory, end))
        if found.problem is not None:
            log.problem = found.problem
            return False
        log.take_back(found.segments, self._files)
        self._damaged.pop(key, None)
        _log.info("%s:%d can be used again", log.topic, log.partition_id)
        return True

    def _held_end(self, key: PartitionKey) -> int:
        runs = [run for block in self._held for run in block.runs if (run.topic, run.partition_id) == key]
        return runs[-1].end_ordinal

    def _release(self, of: Callable[[PartitionKey], bool]) -> None:
        """Nothing of these partitions is held any more."""
        self._stuck = {key: None for key in self._stuck if not of(key)}
        held = [kept for block in self._held if (kept := block.only(self._stuck)).runs]
        with self._lock:
            self.unapplied_bytes -= sum(block.cost_bytes for block in self._held)
            self.unapplied_bytes += sum(block.cost_bytes for block in held)
            self._held = held
            if not held and self._behind_held is not None:
                self._reached = self._behind_held

    def _is_due(self) -> bool:
        reached = self._reached
        return reached is not None and (
            reached.journal - self._last.journal >= _CHECKPOINT_FILES
            or self._since_checkpoint >= self._checkpoint_bytes
            or (self._is_urgent and reached.journal > self._last.journal)
        )

    def _checkpoint(self, *, without: str | None = None, dropped: Mapping[PartitionKey, int] | None = None) -> None:
        """Write down how far the logs reach, but for those of a topic that goes and for segments that do."""
        dropped = dropped or {}
        last, reached = self._last, self._reached
        lost = self._flush()
        with self._lock:
            confirmed = {key: offset for key, offset in self._confirmed.items() if key[1] != without}
            windows = self._windows.snapshot(without=without)
            newest_journal, newest_flushed = self._newest_journal, self._newest_flushed
            known_sequence = self._known_sequence
        if newest_journal and not newest_flushed:
            # The checkpoint must not know more than the journal does after a power loss: all that was confirmed or
            # numbered when positions and windows were copied is on the device now (older journal files were flushed
            # when they were closed).
            with_journal = open_file(self._disk, journal_path(self._root / "journal", newest_journal))
            try:
                with_journal.fdatasync()
            finally:
                with_journal.close()
        logs = list(self._partitions.items())
        ends = {
            key: self._end(key, log, dropped.get(key, 0))
            for key, log in logs
            if log.applied_ordinal and log.topic != without
        }
        fences = [fence for fence in self._fences.all() if fence.topic != without]
        if without is not None and self._held:  # of nothing else
            reached = self._behind_held
        if reached is None:  # nothing was applied since the last one
            reached = _Place(last.journal, last.journal_position, last.next_sequence, last.last_message_id)
        made = Checkpoint(*reached, known_sequence, ends, confirmed, windows, fences)
        write_checkpoint(self._disk, self._root, made)
        for number in range(last.journal, made.journal):
            with suppress(OSError):  # what stays behind is removed when the store is opened next
                self._disk.unlink(journal_path(self._root / "journal", number))
        made.forget()
        self._last, self._reached, self._since_checkpoint = made, None, 0
        self._dirty = Dirty(lost)
        self._is_urgent = False
        self.checkpoints += 1
        PARTITION.tell("checkpoint", journal=made.journal, partitions=len(ends), positions=len(confirmed))

    def _flush(self) -> dict[Segment, PartitionLog]:
        """See that everything written into the logs since the last checkpoint is on the device; returns what is not,
        as its files are not to be had. It is flushed when they are."""
        dirty = self._dirty
        lost: dict[Segment, PartitionLog] = {}
        files = 2 * len(dirty.segments) + len(dirty.directories)
        if files >= self._whole_disk_from and self._disk.sync_all(self._root):
            return lost
        for segment, log in sorted(dirty.segments.items(), key=lambda item: item[0].log_name):
            try:
                for path in (segment.log_name, segment.index_name):
                    with self._files.borrow(path) as file:
                        file.fdatasync()
            except LostFileError as error:
                if segment in log.segments:
                    self._set_aside(log, error.text)
                    lost[segment] = log
        for directory in sorted(dirty.directories):
            try:
                flush_directory(self._disk, directory)
            except (FileNotFoundError, NotADirectoryError):
                for log in set(dirty.segments.values()):
                    if directory in (log.directory, log.directory.parent):
                        self._set_aside(log, f"{directory} is missing")
        return lost

    def _end(self, key: PartitionKey, log: PartitionLog, dropped: int) -> LogEnd:
        known = self._damaged.get(key)
        return known if known is not None and known.ordinal == log.applied_ordinal else log.end_without(dropped)
