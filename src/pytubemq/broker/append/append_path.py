"""The append path: submissions that arrive during one write go out together in the next.

The invariants: the journal is written one block after the other, and while one is being written the next may be
prepared behind it, so that neither the disk nor the loop waits for the other; if a block fails, the one behind it is
prepared again. A submission is completed only after its messages are as durable as its topic promises and readable (at
once where that is memory), and those of equal durability are completed in the order they came; the waiting ones are
bounded in bytes; one whose deadline passes before its turn is dropped, not written. A fault in this program affects
only the submissions concerned, is remembered, and never leaves the others waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytubemq.broker.append.append_block import AppendBlock
from pytubemq.broker.append.submission import Barrier
from pytubemq.broker.append.write_errors import WriteErrors, fatal_refusal
from pytubemq.core.refusal import Refusal
from pytubemq.errors import Code, DiskFailedError, DiskFullError, TubeError
from pytubemq.model.limits import MAX_JOURNAL_WRITE_BYTES, MAX_STAGED_BYTES, MAX_UNAPPLIED_BYTES
from pytubemq.observe.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytubemq.broker.append.submission import Submission
    from pytubemq.broker.append.waiters import PartitionKey
    from pytubemq.net.clock import Clock
    from pytubemq.storage.journal.staging import Prepared
    from pytubemq.storage.store.store import BrokerStore

logger = logging.getLogger(__name__)

# How soon expired submissions go meanwhile; it does not delay what can be written.
_CONGESTED_S = 0.1
# The store prepares one block behind the one that is being written, and no more (`BrokerStore.prepare`).
_MOST_UNDER_WAY: Final = 2
_AHEAD_BYTES: Final = 64 * 1024
"""The least size in bytes of a block that is prepared behind one that is being written; less goes into one flush."""
_CLOSING = Refusal(Code.SERVICE_UNAVAILABLE, "this Broker is stopping; send to another Broker, or retry later")


@dataclass(slots=True)
class AppendStats:
    """Counters since start."""

    messages: int = 0
    confirmations: int = 0
    writes: int = 0
    failed_writes: int = 0
    expired: int = 0
    """Submissions whose caller gave up before their turn came."""
    overflows: int = 0
    """Submissions refused because too much was waiting."""
    write_s: Histogram = field(default_factory=Histogram)
    """Writes of the journal that succeeded, with their flush if they had one."""


class AppendPath:
    """The collector of submissions, which it writes to the journal, one batch after the other. Event loop only."""

    def __init__(
        self,
        store: BrokerStore,
        *,
        clock: Clock,
        on_published: Callable[[Iterable[PartitionKey]], None],
        on_written: Callable[[], None],
        backlog_error: Callable[[], BaseException | None] = lambda: None,
        max_staged_bytes: int = MAX_STAGED_BYTES,
        max_write_bytes: int = MAX_JOURNAL_WRITE_BYTES,
        max_unapplied_bytes: int = MAX_UNAPPLIED_BYTES,
    ) -> None:
        """Call `on_published` with the partitions that have new messages, `on_written` after every successful write.

        `backlog_error` returns the reason why the journal's backlog does not shrink; None if nothing is wrong there.
        """
        self.stats = AppendStats()
        self.staged_bytes = 0
        self.errors = WriteErrors()
        self._store = store
        self._clock = clock
        self._on_published = on_published
        self._on_written = on_written
        self._backlog_error = backlog_error
        self._max_staged_bytes = max_staged_bytes
        self._max_write_bytes = max_write_bytes
        self._max_unapplied_bytes = max_unapplied_bytes
        self._queue: deque[Submission] = deque()
        self._owes = False
        """True if the store keeps messages that were promised from memory and could not be written."""
        self._loop = asyncio.get_running_loop()
        # One thread: the journal takes blocks in the order in which they were prepared.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="pytubemq-journal")
        self._under_way: deque[AppendBlock] = deque()
        """The block that is being written, and the one behind it."""
        self._alone = 0
        """The number of waiting submissions that are written individually, as they could not be prepared together."""
        self._next_turn: asyncio.Handle | None = None
        """The next scheduled turn, at once or after a pause."""
        self._closing = False
        self._idle = asyncio.Event()
        self._idle.set()

    # --- what the handlers call -----------------------------------------------------------------------------

    def submit(self, submission: Submission) -> None:
        """Queue a submission, or refuse it at once."""
        refusal = self._refusal(submission.size_bytes)
        if refusal is not None:
            submission.refuse(refusal)
            return
        self._queue.append(submission)
        self.staged_bytes += submission.size_bytes
        self._idle.clear()
        self._schedule()

    def grow(self, submission: Submission, size_bytes: int) -> bool:
        """Count an addition to a submission; False if there is no room, or it is not the last in the queue."""
        queue = self._queue
        staged_bytes = self.staged_bytes + size_bytes
        # Only the last one: what came behind another must not be written before what would be added to it.
        if not queue or queue[-1] is not submission or staged_bytes > self._max_staged_bytes:
            return False
        self.staged_bytes = staged_bytes
        return True

    def resume(self) -> None:
        """Continue after the backlog behind the journal has shrunk."""
        # With a block under way its end starts the next one.
        if self._queue and not self._under_way:
            self._turn_at(self._loop.call_soon(self._turn))

    def writable_again(self) -> None:
        """Accept writes again, since the reason against them is gone."""
        self.errors.clear_passing()
        if self._owes:
            self._owes = False
            self.submit(Barrier(lambda _: None))  # the store adds its unwritten messages to the next block

    @property
    def congested(self) -> bool:
        """True if writes wait for the journal's backlog."""
        return self._store.unapplied_bytes > self._max_unapplied_bytes

    async def close(self, *, timeout_s: float) -> None:
        """Accept no more, write the queue for at most `timeout_s`, refuse the rest. Idempotent."""
        self._closing = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            logger.warning("%d requests still waited for the journal and were refused", len(self._queue))
        self._refuse_all(_CLOSING)
        self._writer.shutdown(wait=not self._under_way)  # a disk that hangs must not hold up the stop

    # --- inside ---------------------------------------------------------------------------------------------

    def _refusal(self, size_bytes: int) -> Refusal | None:
        # Reasons that last come before the one that passes.
        if self._closing:
            return _CLOSING
        fatal = self.errors.fatal
        if fatal is not None:
            return fatal_refusal(fatal)
        stuck = self._stuck()
        if stuck is not None:
            return stuck
        # A request larger than the whole bound is accepted when nothing waits: no request is refused for ever.
        waits = self._queue or len(self._under_way) > 1
        if waits and self.staged_bytes + size_bytes > self._max_staged_bytes:
            self.stats.overflows += 1
            return Refusal(
                Code.SERVER_RECEIVE_OVERFLOW,
                f"{self.staged_bytes} bytes already wait to be written, more than this Broker's disk can write "
                "in time; retry later",
            )
        return None

    def _stuck(self) -> Refusal | None:
        """Return a refusal if waiting is useless: the journal's backlog is full and does not shrink."""
        error = self._backlog_error() if self.congested else None
        if error is None:
            return None
        what = error.message if isinstance(error, TubeError) else f"{type(error).__name__}: {error}"
        code = Code.SERVER_RECEIVE_OVERFLOW if isinstance(error, DiskFullError) else Code.SERVICE_UNAVAILABLE
        return Refusal(code, f"this Broker cannot move messages from its journal: {what}")

    def _schedule(self) -> None:
        # At the end of the loop turn, so that all that arrives in it goes into one block.
        if self._next_turn is None and (not self._under_way or self._is_worth_ahead()):
            self._turn_at(self._loop.call_soon(self._turn))

    def _turn_at(self, handle: asyncio.Handle) -> None:
        if self._next_turn is not None:
            # One turn at a time, or the end of a pause would start another write beside it.
            self._next_turn.cancel()
        self._next_turn = handle

    def _turn(self) -> None:
        self._next_turn = None
        self._go_on()

    def _go_on(self) -> None:
        """Start the next write; if that fails, refuse everyone who waits, since nothing would ever start another."""
        try:
            if not self._under_way:
                self._write_next()
            elif self._is_worth_ahead():
                self._write_ahead()
        except Exception as error:
            self._stop_for_good(error)

    def _is_worth_ahead(self) -> bool:
        """True if the next block is worth preparing now: it would not be much smaller than the one being written."""
        under_way = self._under_way
        if len(under_way) >= _MOST_UNDER_WAY or under_way[-1].void or self._alone:
            return False
        size_bytes = under_way[-1].size_bytes
        # A small block right behind a large one would cost a flush of its own for little; what waits meanwhile joins
        # it.
        return self.staged_bytes - size_bytes >= max(_AHEAD_BYTES, size_bytes // 2)

    def _write_ahead(self) -> AppendBlock | None:
        """Start the next write before the callers of the one that ended are notified.

        Nothing is refused here; submissions that cannot be written are left to `_write_next`.
        """
        if not self._queue or self.congested:
            return None
        submissions: list[Submission] = []
        try:
            submissions = self._next_batch(refuse=False)
            block = self._prepare(submissions) if submissions else None
        except Exception:
            self._queue.extendleft(reversed(submissions))
            return None
        return block if block is not None and self._start(block) else None

    def _write_next(self) -> None:
        """Start the next write, if there is anything to write and nothing prevents it."""
        if not self._queue:
            self._idle.set()
            return
        if self.congested:
            stuck = self._stuck()
            if stuck is not None:
                self._refuse_all(stuck)
                return
            self._drop_expired()
            # `resume` comes sooner if the backlog shrinks; this only drops expired submissions meanwhile.
            self._turn_at(self._loop.call_later(_CONGESTED_S, self._turn))
            return
        submissions = self._next_batch()
        if not submissions:
            self._schedule()
            return
        try:
            block = self._prepare(submissions)
        except DiskFailedError as error:  # in the background; nothing more can be written
            self._settle_failed(submissions, self.errors.record(error))
            return
        except Exception as error:  # nothing was changed yet; whatever it is, the callers must not hang
            self.errors.record_fault(error, "messages could not be prepared for the journal")
            if len(submissions) > 1:  # it may be the fault of one of them: the others must not pay for it
                self._queue.extendleft(reversed(submissions))
                # One by one from here, so that the one at fault is found and refused alone.
                self._alone = len(submissions)
                self._schedule()
                return
            self._settle_failed(
                submissions, Refusal(Code.INTERNAL_SERVER_ERROR, f"this Broker failed at the request: {error}")
            )
            return
        # What memory promises is readable at once only from the block that is published next; one prepared behind
        # it waits for its turn.
        if self._start(block):
            self._publish_early(block)

    def _start(self, block: AppendBlock) -> bool:
        """Hand a block to the writer; False if there was no thread for it, after which the path is broken."""
        try:
            # One thread, so blocks are written in the order in which they are handed over; the loop goes on meanwhile.
            future = self._loop.run_in_executor(self._writer, self._write, block.prepared)
        except Exception as error:
            # The store must know that it is not written, or its offsets would be a hole.
            self._store.abandon(block.prepared)
            self._fail(block, error)
            return False
        self._under_way.append(block)
        # On the loop, and for blocks in the order in which they were handed over.
        future.add_done_callback(self._finish_block)
        return True

    def _write(self, prepared: Prepared) -> None:
        """Write a block, on the writer's thread."""
        began_s = self._clock.now_s()
        self._store.write(prepared)
        self.stats.write_s.add(self._clock.now_s() - began_s)

    def _next_batch(self, *, refuse: bool = True) -> list[Submission]:
        """Remove and return the next submissions; with `refuse` unset, stop before one that must not be written."""
        now_s = self._clock.now_s()
        batch: list[Submission] = []
        size_bytes = 0
        queue = self._queue
        try:
            # 0 lets one submission through at a time, whatever its size.
            most_bytes = 0 if self._alone else self._max_write_bytes
            # At least one goes, or a submission above the bound would wait for ever.
            while queue and (not batch or size_bytes + queue[0].size_bytes <= most_bytes):
                submission = queue[0]
                # Its caller has given up and may have sent the same again.
                late = submission.deadline_s <= now_s
                # one before it may have failed since it arrived
                broken = submission.order.find_refusal() if submission.order is not None else None
                if (late or broken is not None) and not refuse:
                    break
                queue.popleft()
                self._alone = max(0, self._alone - 1)
                if late:
                    self._expire(submission)
                elif broken is not None:
                    self._refuse(submission, broken)
                else:
                    size_bytes += submission.size_bytes
                    batch.append(submission)
        except Exception:
            queue.extendleft(reversed(batch))  # a fault here must not lose submissions
            raise
        return batch

    def _prepare(self, submissions: list[Submission]) -> AppendBlock:
        return AppendBlock(self._store, submissions, self._clock.wall_ms(), self.errors.record_missed_callback)

    def _finish_block(self, done: asyncio.Future[None]) -> None:
        block = self._under_way.popleft()  # the writer handles them in order
        error = done.exception()
        # The store refused to write it, and its submissions are back in the queue since the block before it failed.
        if block.void:
            self._go_on()
            return
        prepared = block.prepared
        try:
            if error is None:
                self._store.publish(prepared)
            else:
                self._store.abandon(prepared)
        except Exception as fault:
            error = fault
        if error is not None:
            # The probe for space tries as much, or it would succeed where the same write fails again.
            self.errors.refused_bytes = max(self.errors.refused_bytes, prepared.size_bytes)
            for behind in self._under_way:
                # It was numbered behind the failed block, so its offsets would leave a hole: its submissions are
                # numbered again.
                behind.void = True
                self._queue.extendleft(reversed(behind.submissions))
            self._fail(block, error)
            return
        self._owes = False
        # The write has shown that there is space; what the store owed went along with it.
        self.writable_again()
        self.stats.writes += 1
        # The next write starts before this one's callers are notified: the disk and the loop work side by side.
        ahead = self._under_way[0] if self._under_way else self._write_ahead()
        self._complete(block)
        if ahead is not None:
            self._publish_early(ahead)
        self._go_on()
        try:
            self._on_written()
        except Exception as fault:
            self.errors.record_fault(fault, "the steps after a write failed")

    def _publish_early(self, block: AppendBlock) -> None:
        """Complete submissions whose messages are all promised from memory, while the rest is being written."""
        try:
            if block.publish_early():
                self._wake(block)
        except Exception as fault:  # they are completed when it is written, like the others
            self.errors.record_missed_callback(fault)

    def _complete(self, block: AppendBlock) -> None:
        # Room is made before anybody is notified, since callers send more at once.
        for submission in block.submissions:
            self.staged_bytes -= submission.size_bytes
            self.stats.confirmations += submission.confirmations
        self.stats.messages += block.prepared.messages
        block.complete()
        if block.partitions:
            self._wake(block)

    def _wake(self, block: AppendBlock) -> None:
        try:
            self._on_published(block.partitions)
        except Exception as fault:
            self.errors.record_missed_callback(fault)

    def _fail(self, block: AppendBlock, error: BaseException) -> None:
        """Refuse the callers of a failed write; its error decides whether there will be another."""
        self.stats.failed_writes += 1
        refusal = self.errors.record(error)
        for submission in block.promised:  # the store keeps their messages for the next write
            self.staged_bytes -= submission.size_bytes
            self._owes = True
        # The others have had their response, and the store owes their messages.
        self._settle_failed(block.unreported, refusal)

    def _stop_for_good(self, error: Exception) -> None:
        """Stop writing for good after a fault in this program."""
        # Nobody starts another write from here on, so whoever waits would wait for ever.
        self._refuse_all(self.errors.record_stop(error))

    def _settle_failed(self, submissions: list[Submission], refusal: Refusal) -> None:
        for submission in submissions:
            self._refuse(submission, refusal)
        if self.errors.fatal is not None:
            self._refuse_all(refusal)
        elif self._queue:
            self._schedule()
        elif not self._under_way:
            self._idle.set()

    def _drop_expired(self) -> None:
        """Drop expired submissions while the journal waits for its backlog."""
        now_s = self._clock.now_s()
        # All of the queue, since deadlines are not in the order of arrival.
        waiting = list(self._queue)
        self._queue.clear()
        for submission in waiting:
            if submission.deadline_s <= now_s:
                self._expire(submission)
            else:
                self._queue.append(submission)

    def _expire(self, submission: Submission) -> None:
        self.stats.expired += 1
        self.staged_bytes -= submission.size_bytes
        try:
            submission.expire()
        except Exception as fault:
            self.errors.record_missed_callback(fault)

    def _refuse(self, submission: Submission, refusal: Refusal) -> None:
        self.staged_bytes -= submission.size_bytes
        try:
            submission.refuse(refusal)
        except Exception as fault:
            self.errors.record_missed_callback(fault)

    def _refuse_all(self, refusal: Refusal) -> None:
        while self._queue:
            self._refuse(self._queue.popleft(), refusal)
        if not self._under_way:
            self._idle.set()
