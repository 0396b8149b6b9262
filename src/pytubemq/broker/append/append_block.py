"""The submissions of one journal write, from their staging to their completion.

The invariant: each submission is completed once, with its own results, whatever errors others raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.broker import tracing
from pytubemq.observe.trace_events import MESSAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.broker.append.submission import Submission
    from pytubemq.broker.append.waiters import PartitionKey
    from pytubemq.storage.store.store import BrokerStore


class AppendBlock:
    """The submissions of one journal write. Event loop only, but for `prepared`, which the writer is given."""

    def __init__(
        self,
        store: BrokerStore,
        submissions: Sequence[Submission],
        wall_ms: int,
        on_fault: Callable[[Exception], None],
    ) -> None:
        """Stage and number all of them.

        Args:
            on_fault: called with the error that a submission raises when it is completed.

        Raises: what staging and preparing raise; nothing has changed then.
        """
        self._store = store
        self._on_fault = on_fault
        staging = store.staging()
        self.submissions = submissions
        self.size_bytes = sum(submission.size_bytes for submission in submissions)
        """The sum of the submissions' `size_bytes`."""
        self.void = False
        """True if the block before it failed, so that it is not written and its submissions go into another."""
        # Numbers of a staging are consecutive, so a count for each submission finds its results again.
        self._counts = [submission.stage(staging) for submission in submissions]
        self.prepared = store.prepare(staging, wall_ms)
        self.partitions: frozenset[PartitionKey] = frozenset(
            (run.topic, run.partition_id) for run in self.prepared.runs
        )
        """The partitions with new messages. (The runs leave the block when they are in their logs.)"""
        self._settled_early: frozenset[int] = frozenset()

    def publish_early(self) -> bool:
        """Publish the messages promised from memory, and complete the submissions that are published as a whole.

        For the block that is published next. Returns True if any submission was completed.
        """
        early, appended = self.prepared.early, self.prepared.appended
        if not early:
            return False
        # Readable before any response: a caller may fetch what it has sent as soon as it knows that it is stored.
        self._store.publish_early(self.prepared)
        if MESSAGE.on:
            tracing.record_early_publication(self.prepared)
        done: list[int] = []
        at = 0
        for position, (submission, count) in enumerate(zip(self.submissions, self._counts, strict=True)):
            # All or nothing, as a caller gets one response. One without numbers, a confirm, waits for the block.
            if count and early.issuperset(range(at, at + count)):
                # Before it is called: one that raises is not called again with the others.
                done.append(position)
                try:
                    submission.complete(appended[at : at + count])
                except Exception as fault:
                    self._on_fault(fault)
            at += count
        self._settled_early = frozenset(done)
        return bool(done)

    def complete(self) -> None:
        """Complete all other submissions."""
        if MESSAGE.on:
            try:
                tracing.record_write(self.prepared, self.prepared.readable)
            except Exception as fault:
                self._on_fault(fault)
        # In the order in which they came, and one that raises keeps no other from its response.
        appended, already = self.prepared.appended, self._settled_early
        at = 0
        for position, (submission, count) in enumerate(zip(self.submissions, self._counts, strict=True)):
            if position not in already:
                try:
                    submission.complete(appended[at : at + count])
                except Exception as fault:
                    self._on_fault(fault)
            at += count

    @property
    def promised(self) -> list[Submission]:
        """The submissions that were completed early."""
        return [submission for at, submission in enumerate(self.submissions) if at in self._settled_early]

    @property
    def unreported(self) -> list[Submission]:
        """The submissions that were not completed early."""
        return [submission for at, submission in enumerate(self.submissions) if at not in self._settled_early]
