"""The move of published messages from memory into their partitions' logs; one background thread.

The invariants: a message leaves memory only when it is in its log; what waits is counted to the byte, and dropped as
it is written, however long a round over thousands of partitions takes; a checkpoint comes only when all before its
place in the journal is in the logs. Whatever fails half-way is done again by the next call.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from pytubemq.errors import StorageError
from pytubemq.model.limits import MAX_UNAPPLIED_BYTES, MIB
from pytubemq.storage.disk.file_cache import LostFileError
from pytubemq.storage.journal.checkpoints import Checkpoints, JournalPosition
from pytubemq.storage.journal.recovery import make_missing_indexes
from pytubemq.storage.journal.staging import RUN_COST_BYTES
from pytubemq.storage.log.retention import roll_at
from pytubemq.storage.log.survey import FoundLog, damage_text, survey_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytubemq.model.policy import RetentionPolicy
    from pytubemq.storage.format.checkpoint import Checkpoint
    from pytubemq.storage.format.record import LogEnd, PartitionKey
    from pytubemq.storage.journal.staging import Prepared
    from pytubemq.storage.journal.store_state import StoreState
    from pytubemq.storage.log.partition_log import PartitionLog
    from pytubemq.storage.log.retention import Roll
    from pytubemq.storage.log.segment import Segment
    from pytubemq.storage.store_settings import StoreSettings

_log = logging.getLogger(__name__)

_PARTITION_BYTES: Final = 16 * 1024
"""So much for each partition makes a round worth its cost, within these two bounds."""
_LEAST_BYTES: Final = 8 * MIB
_MOST_BYTES: Final = MAX_UNAPPLIED_BYTES // 2
_MEANWHILE_BYTES: Final = 16 * MIB
"""Bytes that may come while a round is under way; with more, large ones are written first."""
_LARGE_BYTES: Final = 256 * 1024
"""Bytes of one partition that are large in this sense."""


@dataclass(slots=True, eq=False)
class _Owed:
    """The messages of a partition that are not in its log yet, or have just been written there."""

    end: int
    """Up to this message."""
    size_bytes: int
    runs: int
    is_held: bool = False
    """True if it cannot be written for now: then nobody waits for it."""

    @property
    def cost_bytes(self) -> int:
        """Its size in memory."""
        return self.size_bytes + RUN_COST_BYTES * self.runs

    def add(self, newer: _Owed) -> None:
        """Take what came behind it."""
        self.end = newer.end
        self.size_bytes += newer.size_bytes
        self.runs += newer.runs


class Applier:
    """The applier of a store: the messages that are published and not yet in the logs, and the checkpoint behind them.

    `apply` and `checkpoint` belong to one thread at a time (they take turns by a lock of their own); `add` is called
    with the store's lock held.
    """

    def __init__(
        self,
        state: StoreState,
        settings: StoreSettings,
        *,
        checkpoint: Checkpoint,
        damaged: Mapping[PartitionKey, LogEnd],
    ) -> None:
        """Begin with the ends (`damaged`) of logs whose files are not all there: such an end stays until something is
        added."""
        self._state = state
        self._lock = state.lock
        self._turn = Lock()
        self._segment_bytes = settings.segment_bytes
        self._last_roll: tuple[RetentionPolicy | None, Roll] = None, roll_at(None, settings.segment_bytes)
        """Policy and bounds of the topic that was written last: others mostly have the same."""
        self._checkpoints = Checkpoints(state, settings, last=checkpoint, damaged=damaged)
        self._owed: dict[PartitionKey, _Owed] = {}
        """Messages published since the round under way began."""
        self._newest: JournalPosition | None = None
        """Behind what was published last, if that was since then."""
        self._meanwhile_bytes = 0
        """Bytes published since then, or since it was looked at last."""
        self._round: dict[PartitionKey, _Owed] = {}
        """Messages that the round under way has still to write."""
        self._queued_bytes = 0
        """Bytes that both of these have to write."""
        self._unusable = dict.fromkeys(damaged)
        """Partitions of which the files cannot be used, the one first that is to be looked at next."""
        self._stuck: dict[PartitionKey, _Owed] = {}
        """Damaged ones that cannot even begin another segment: their published messages are nowhere but in memory
        and in the journal."""
        self._behind_stuck: JournalPosition | None = None
        """The position that is reached as soon as nothing is stuck."""
        self._reached: JournalPosition | None = None
        """Up to where all is in the logs, if that is more than when the last checkpoint was made."""
        self.unapplied_bytes = 0
        self.applied_bytes = 0

    @property
    def checkpoints(self) -> int:
        """The number of checkpoints written."""
        return self._checkpoints.made

    @property
    def is_worth_it(self) -> bool:
        """See `BrokerStore.worth_applying`."""
        # Between the two bounds, so that few partitions are not written in drops, and many do not fill the memory.
        enough = len(self._owed) * _PARTITION_BYTES
        return self._queued_bytes >= min(max(enough, _LEAST_BYTES), _MOST_BYTES)

    def add(self, block: Prepared) -> None:
        """Record a published block, of which nothing is kept but that; the caller holds the store's lock."""
        self._newest = JournalPosition(block.journal, block.journal_end, block.next_sequence, block.last_message_id)
        self._checkpoints.record_publication(block)
        # Done for every run of every block with the readers' lock held, so it is kept short.
        owes = self._owed
        total = 0
        for run in block.runs:
            key = run.topic, run.partition_id
            size = len(run.index) + len(run.entries)
            total += size
            owed = owes.get(key)
            if owed is None:
                owes[key] = _Owed(run.base_ordinal + run.count, size, 1)
            else:
                owed.end = run.base_ordinal + run.count
                owed.size_bytes += size
                owed.runs += 1
        self._queued_bytes += total
        self._meanwhile_bytes += total
        self.unapplied_bytes += total + RUN_COST_BYTES * len(block.runs)

    def make_urgent(self) -> None:
        """Make the next checkpoint due as soon as it lets a journal file go."""
        self._checkpoints.make_urgent()

    def apply(self) -> int:
        """Write all that is published now into the logs, and make a checkpoint if one is due; returns bytes applied.

        Raises:
            OSError: nothing is lost; call again.
        """
        with self._turn:
            # First, so that the round already writes into files that are back.
            self._retry_unusable()
            total = self._apply_round()
            if self._checkpoints.is_due(self._reached):
                self._checkpoint()
            return total

    def checkpoint(self) -> None:
        """Make a checkpoint now unless nothing happened since the last one. Raises OSError."""
        with self._turn:
            if self._reached is not None or self._checkpoints.has_losses:
                self._checkpoint()

    def drop(self, topic: str) -> None:
        """Forget a topic's partitions and all positions in them, by a checkpoint that knows nothing of them: from then
        on no start brings them back, and a start removes their files. The caller sees to it that nothing of the topic
        is on its way but positions that are forgotten; other topics may get partitions meanwhile.

        Raises:
            OSError: nothing was changed; call again.
        """
        with self._turn:
            self._apply_round()
            if any(key[0] != topic for key in self._stuck):
                # A start replays the journal from before the checkpoint then, with what it has of the topic.
                raise StorageError(
                    f"topic {topic} cannot be removed while the journal is kept for others",
                    hint="it is retried automatically; see which partitions cannot be used",
                )
            # Of a copy, as other topics may get partitions meanwhile.
            logs = [log for log in list(self._state.partitions.values()) if log.topic == topic]
            with self._lock:
                positions = [key for key in self._state.confirmed if key[1] == topic]
            # Else neither a checkpoint nor the journal behind it knows of the topic.
            if positions or self._stuck or any(log.applied_ordinal for log in logs):
                self._checkpoint(without=topic)
                self._release(lambda key: key[0] == topic)
            # Memory comes last: if the checkpoint fails, all is as it was.
            with self._lock:
                for log in logs:
                    del self._state.partitions[topic, log.partition_id]
                for key in positions:
                    self._state.confirmed.pop(key, None)
                self._state.windows.forget(topic)

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
            # Before anything is forgotten: a crash from here on leaves
            # files below the beginning, which a start removes.
            self._checkpoint(dropped=counts)
            with self._lock:
                return [(log := self._state.partitions[key], log.drop_first(count)) for key, count in counts.items()]

    def _checkpoint(self, *, without: str | None = None, dropped: Mapping[PartitionKey, int] | None = None) -> None:
        # What is stuck is all of the topic that goes, if one does.
        reached = self._behind_stuck if without is not None and self._stuck else self._reached
        self._checkpoints.make(reached, self._mark_unusable, without=without, dropped=dropped)
        self._reached = None

    # --- a round -----------------------------------------------------------------------------------------------------

    def _apply_round(self) -> int:
        """Write what is published now; the most of a partition first, as that leaves memory soonest."""
        with self._lock:
            # Swapped under the lock: what is published from here on belongs to the next round.
            self._round, self._owed = self._owed, {}
            place, self._newest = self._newest, None
            published_s = self._checkpoints.published_s
            self._meanwhile_bytes = 0
        before = self.applied_bytes
        try:
            for key, _ in sorted(self._round.items(), key=_size, reverse=True):
                # `_take_large` may have written it already.
                if key in self._round:
                    self._settle(key)
                if self._meanwhile_bytes >= _MEANWHILE_BYTES:
                    self._take_large()
        except BaseException:
            # What was written stays so; the rest, and the place behind it, waits for the next call.
            with self._lock:
                self._put_back()
                self._newest = self._newest or place
            raise
        if place is not None:
            # While a partition is stuck only the journal has its messages, so no checkpoint may go further.
            self._behind_stuck = place
            if not self._stuck:
                self._reached = place
                self._checkpoints.record_reach(published_s)
        return self.applied_bytes - before

    def _take_large(self) -> None:
        """Write what came meanwhile for partitions that get much, so that a round over many others, of which each may
        have to make its files, does not keep it in memory."""
        with self._lock:
            self._meanwhile_bytes = 0
            large = [key for key, owed in self._owed.items() if owed.size_bytes >= _LARGE_BYTES]
            for key in large:
                newer = self._owed.pop(key)
                owed = self._round.setdefault(key, newer)
                if owed is not newer:
                    owed.add(newer)
        for key in large:
            self._settle(key)

    def _put_back(self) -> None:
        # Behind what the round has left, so that the order stays.
        for key, newer in self._owed.items():
            owed = self._round.setdefault(key, newer)
            if owed is not newer:
                owed.add(newer)
        self._round, self._owed = {}, self._round

    def _settle(self, key: PartitionKey) -> None:
        """Write what the round has of a partition, or hold it if its files do not let it be written."""
        owed = self._round[key]
        # What is stuck comes before this, and a log has no gaps.
        is_written = key not in self._stuck and self._apply_to(key, owed)
        with self._lock:
            del self._round[key]
            if is_written:
                self.unapplied_bytes -= owed.cost_bytes
                return
            self._queued_bytes -= owed.size_bytes
            owed.is_held = True
            if key in self._stuck:
                self._stuck[key].add(owed)
            else:
                self._stuck[key] = owed

    def _apply_to(self, key: PartitionKey, owed: _Owed) -> bool:
        """Write what a partition is owed; False if its files do not let it. Raises OSError."""
        log = self._state.partitions[key]
        roll = self._roll_of(log.topic)
        dirty = self._checkpoints.dirty
        for _ in range(2):  # in another segment, if the one begun cannot be written on
            try:
                while log.applied_ordinal < owed.end:
                    self._written(owed, log.apply_some(owed.end, self._state.files, dirty, roll))
                return True
            except LostFileError as error:
                self._mark_unusable(log, error.text)
        return False

    def _roll_of(self, topic: str) -> Roll:
        policy = self._state.retention.get(topic)
        # By identity, as it is compared for every partition of a round; a policy that was set anew is another object.
        if self._last_roll[0] is not policy:
            self._last_roll = policy, roll_at(policy, self._segment_bytes)
        return self._last_roll[1]

    def _written(self, owed: _Owed, size_bytes: int) -> None:
        self.applied_bytes += size_bytes
        self._checkpoints.record_applied(size_bytes)
        # The thread that publishes adds to the same counters.
        with self._lock:
            owed.size_bytes -= size_bytes
            self.unapplied_bytes -= size_bytes
            if not owed.is_held:
                self._queued_bytes -= size_bytes

    # --- partitions whose files cannot be used -----------------------------------------------------------------------

    def _mark_unusable(self, log: PartitionLog, text: str) -> None:
        # Logged once, not with every round that meets it.
        if log.problem is None:
            _log.error("%s:%d cannot be used: %s", log.topic, log.partition_id, text)
        log.mark_unusable(text, self._state.files)
        self._unusable.setdefault((log.topic, log.partition_id))

    def _retry_unusable(self) -> None:
        """Use partitions again whose files are back. The first one without its files ends this, so it costs little."""
        for key in list(self._unusable):
            log = self._state.partitions.get(key)
            del self._unusable[key]
            if log is not None and not self._is_repaired(key, log):
                self._unusable[key] = None
                return

    def _is_repaired(self, key: PartitionKey, log: PartitionLog) -> bool:
        # Where a segment can be made again, what is held goes first: the survey below then finds all of it.
        if key in self._stuck:
            if not self._apply_to(key, self._stuck[key]):
                return False
            self._release(lambda other: other == key)
        end = self._checkpoints.end_of(key, log)
        found = survey_log(self._state.disk, FoundLog(log.topic, log.partition_id, log.directory, end))
        if found.problem is None:
            make_missing_indexes(self._state.disk, found)
        if found.problem is not None:
            log.problem = found.problem
            return False
        log.mark_usable(found.segments, self._state.files)
        log.damage = damage_text(found)
        self._checkpoints.is_whole(key)
        _log.info("%s:%d can be used again", log.topic, log.partition_id)
        return True

    def _release(self, of: Callable[[PartitionKey], bool]) -> None:
        """Release what is held of these partitions."""
        released = [key for key in self._stuck if of(key)]
        with self._lock:
            for key in released:
                self.unapplied_bytes -= self._stuck.pop(key).cost_bytes
        if not self._stuck and self._behind_stuck is not None:
            self._reached = self._behind_stuck


def _size(item: tuple[PartitionKey, _Owed]) -> int:
    return item[1].size_bytes
