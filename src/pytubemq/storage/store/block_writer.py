"""Blocks on their way into the journal: prepared, written, and made readable or abandoned.

The invariant: two blocks at most are under way, in the order prepared; what was promised from memory and could not be
written is in the block that comes next.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from pytubemq.errors import DiskFailedError, DiskFullError, StorageError
from pytubemq.storage.format.block import BLOCK_HEADER_BYTES
from pytubemq.storage.journal.block_builder import Carried, build
from pytubemq.storage.journal.journal import block_records
from pytubemq.storage.journal.space import SpaceGuard

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.model.durability import Durability
    from pytubemq.storage.journal.staging import Outcome, Prepared, Staging
    from pytubemq.storage.journal.store_state import StoreState
    from pytubemq.storage.store.condition import Condition
    from pytubemq.storage.store.store_recovery import Recovered

# 41 bits of milliseconds and 22 for a counter: a positive int64, as the protocol has it.
_MESSAGE_ID_SHIFT: Final = 22
_LAST_ID_MS: Final = (1 << 41) - (1 << 36)
"""The milliseconds of an id go no further (July 2037), so that an int64 is never full: from there on ids count up by
one, for which 2^58 are left."""


class BlockWriter:
    """The writer of a store's blocks: its accepting half."""

    def __init__(
        self,
        state: StoreState,
        condition: Condition,
        recovered: Recovered,
        *,
        reserve_bytes: int,
        durability_of: Callable[[str], Durability],
    ) -> None:
        self._state = state
        self._partitions = state.partitions
        self._windows = state.windows
        self._condition = condition
        self._journal = recovered.journal
        self._applier = recovered.applier
        self._last_message_id = recovered.last_message_id
        self._reserve_bytes = reserve_bytes
        self._durability_of = durability_of
        self.writing = Lock()
        """Held while the journal is written, so that closing a store whose disk hangs never writes at the same time."""
        self.space = SpaceGuard(state.disk, state.root, reserve_bytes=reserve_bytes)
        self._carried = Carried()
        self._in_flight: Prepared | None = None
        self._ahead: Prepared | None = None
        """The one prepared behind `_in_flight`, on what that one will leave."""

    def prepare(self, staging: Staging, now_ms: int) -> Prepared:
        """See `BrokerStore.prepare`."""
        self._condition.check()
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
            self._durability_of,
            before=before,
            last_message_id=last,
            now_ms=now_ms,
        )
        # Also if it is abandoned later: an id is never given twice.
        self._last_message_id = prepared.last_message_id
        prepared.before = before
        if before is None:
            self._in_flight = prepared
        else:
            self._ahead = prepared
        return prepared

    def write(self, prepared: Prepared) -> None:
        """See `BrokerStore.write`."""
        with self.writing:
            self._write(prepared)

    def _write(self, prepared: Prepared) -> None:
        self._condition.check()
        if prepared.before is not None and not prepared.before.written:
            raise StorageError("the block before this one was not written", hint="prepare it again")
        # Drop it, or each block would keep all before it, and their messages, in memory.
        prepared.before = None
        # Encoded here, on the writer's thread, which leaves the loop free.
        records = block_records(prepared)
        size = BLOCK_HEADER_BYTES + len(records) + sum(len(run.entries) for run in prepared.runs)
        try:
            # Positions may use some of what messages may not, so that consumers get on; never what is needed to apply.
            needed = self._reserve_bytes // 4 + self._applier.unapplied_bytes
            self.space.take(size, least_bytes=None if prepared.runs else needed)
            self._journal.write(prepared, records)
        except DiskFailedError as error:
            self._condition.failure = error
            raise
        except DiskFullError:
            self._state.stats.full_refusals += 1
            # A checkpoint that lets journal files go is the only thing that makes space here.
            self._applier.make_urgent()
            raise
        prepared.written = True

    def publish_early(self, prepared: Prepared) -> None:
        """See `BrokerStore.publish_early`."""
        if prepared is not self._in_flight:
            raise RuntimeError("only the batch under way can be published")
        with self._state.lock:
            for run in prepared.runs[prepared.readable : prepared.early_runs]:
                self._partitions[run.topic, run.partition_id].publish(run)
            prepared.readable = max(prepared.readable, prepared.early_runs)

    def publish(self, prepared: Prepared) -> list[Outcome]:
        """See `BrokerStore.publish`."""
        if prepared is not self._in_flight or not prepared.written:
            raise RuntimeError("only the batch under way can be published, and only once it is written")
        with self._state.lock:
            # Under the lock that readers take: a message and its place in the queue to the logs come at once.
            self._in_flight, self._ahead, self._carried = self._ahead, None, Carried()
            self._state.publish(prepared)
            self._applier.add(prepared)
        stats = self._state.stats
        stats.blocks += 1
        stats.messages += prepared.messages
        stats.repeats += prepared.repeats
        stats.forgotten_windows = self._windows.forgotten
        stats.journal_bytes += prepared.journal_bytes
        return prepared.appended

    def abandon(self, prepared: Prepared) -> None:
        """See `BrokerStore.abandon`."""
        # Nothing of it was published, so its offsets go to whatever is prepared next.
        if prepared is self._ahead:
            self._ahead = None
        if prepared is not self._in_flight:
            return
        runs = prepared.runs[: prepared.readable]
        # Only what was made readable is promised; the rest is new when its producer sends it again.
        owed = {(run.topic, run.partition_id): run.end_ordinal for run in runs}
        carried = Carried(
            [(self._partitions[run.topic, run.partition_id], run) for run in runs],
            [item for item in prepared.sequences if item.place.ordinal < owed.get((item.topic, item.partition_id), 0)],
        )
        with self._state.lock:
            self._in_flight, self._ahead, self._carried = None, None, carried

    @property
    def owed_messages(self) -> int:
        """See `BrokerStore.owed_messages`."""
        return sum(run.count for _, run in self._carried.runs)

    def forget_owed(self, topic: str) -> None:
        """See `BrokerStore.forget_owed`."""
        runs = [(log, run) for log, run in self._carried.runs if run.topic != topic]
        self._carried = Carried(runs, [item for item in self._carried.sequences if item.topic != topic])

    def is_under_way(self, topic: str) -> bool:
        """True if messages of a topic are in a block under way, or are owed to the next one."""
        with self._state.lock:
            runs = [run for _, run in self._carried.runs]
            for prepared in (self._in_flight, self._ahead):
                runs += prepared.runs if prepared is not None else []
        return any(run.topic == topic for run in runs)

    def write_owed(self, staging: Staging) -> None:
        """Write what was promised from memory and is owed since its block was abandoned: it must not end with the
        process. `staging` is an empty one."""
        if self._in_flight is not None:
            self.abandon(self._in_flight)
        if self._carried.runs:
            # Nothing new is staged, so no time is needed; ids go on behind the last one.
            prepared = self.prepare(staging, 0)
            try:
                self.write(prepared)
            except BaseException:
                self.abandon(prepared)
                raise
            self.publish(prepared)

    def close(self) -> None:
        """Close the journal's file."""
        self._journal.close()
