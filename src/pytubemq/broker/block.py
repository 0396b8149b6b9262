"""The submissions of one journal write, from their staging to the answers.

The invariant: each submission is told once, with the results that are its own, whatever becomes of the others' telling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.broker import told
from pytubemq.observe.story import MESSAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.broker.submission import Submission
    from pytubemq.broker.waiters import PartitionKey
    from pytubemq.storage.store import BrokerStore


class Block:
    """What one write takes along. Event loop only, but for `prepared`, which the writer is given."""

    def __init__(
        self,
        store: BrokerStore,
        submissions: Sequence[Submission],
        wall_ms: int,
        on_fault: Callable[[Exception], None],
    ) -> None:
        """Stage and number all of them.

        Args:
            on_fault: gets what a submission raises when it is told.

        Raises: what staging and preparing raise; nothing has changed then.
        """
        self._store = store
        self._on_fault = on_fault
        staging = store.staging()
        self.submissions = submissions
        self.size_bytes = sum(submission.size_bytes for submission in submissions)
        """What they count against the bound on staged bytes."""
        self.void = False
        """Whether the block before it failed, so that it is not written and its submissions go into another."""
        self._counts = [submission.stage(staging) for submission in submissions]
        self.prepared = store.prepare(staging, wall_ms)
        self.partitions: frozenset[PartitionKey] = frozenset(
            (run.topic, run.partition_id) for run in self.prepared.runs
        )
        """Where there are new messages. (The runs leave the block when they are in their logs.)"""
        self._told: frozenset[int] = frozenset()

    def tell_early(self) -> bool:
        """Make readable what is promised from memory, and tell those of which all messages are; whether there were
        any. For the block that is published next."""
        early, appended = self.prepared.early, self.prepared.appended
        if not early:
            return False
        self._store.publish_early(self.prepared)
        if MESSAGE.on:
            told.early(self.prepared)
        done: list[int] = []
        at = 0
        for position, (submission, count) in enumerate(zip(self.submissions, self._counts, strict=True)):
            if count and early.issuperset(range(at, at + count)):
                done.append(position)
                try:
                    submission.written(appended[at : at + count])
                except Exception as fault:
                    self._on_fault(fault)
            at += count
        self._told = frozenset(done)
        return bool(done)

    def tell(self) -> None:
        """Tell all the others that they are written."""
        if MESSAGE.on:
            try:
                told.written(self.prepared, self.prepared.readable)
            except Exception as fault:
                self._on_fault(fault)
        appended, already = self.prepared.appended, self._told
        at = 0
        for position, (submission, count) in enumerate(zip(self.submissions, self._counts, strict=True)):
            if position not in already:
                try:
                    submission.written(appended[at : at + count])
                except Exception as fault:
                    self._on_fault(fault)
            at += count

    @property
    def promised(self) -> list[Submission]:
        """Those that were told early."""
        return [submission for at, submission in enumerate(self.submissions) if at in self._told]

    @property
    def untold(self) -> list[Submission]:
        """Those that were not."""
        return [submission for at, submission in enumerate(self.submissions) if at not in self._told]
