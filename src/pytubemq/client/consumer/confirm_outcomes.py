"""Outcomes of the batches of one partition: the reasons why one of them cannot be settled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import StaleBatchError

if TYPE_CHECKING:
    from pytubemq.model.ids import Partition

UNDER_WAY: Final = "its confirm is under way"


class ConfirmOutcomes:
    """The newest outcomes; batches are named by their tickets, which only grow."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._end: tuple[int, str] = (0, "")
        """The last ticket that was settled or given back, and how."""
        self._left: tuple[int, str] = (0, "")
        """The last ticket before reading went on elsewhere, and why it did."""
        self.end_reason: str | None = None
        """The reason why the partition is not consumed any more; None while it is."""

    def is_last(self, ticket: int) -> bool:
        """True if the last outcome is this batch's."""
        return self._end[0] == ticket

    def record(self, ticket: int, how: str) -> None:
        """Record how a batch was settled or given back."""
        self._end = (ticket, how)

    def record_left(self, ticket: int, reason: str) -> None:
        """Record that reading goes on elsewhere than behind this batch."""
        self._left = (ticket, reason)

    def stale_error(self, ticket: int, *, confirm_timeout_s: float | None) -> StaleBatchError:
        """Return the error that says why a batch cannot be settled."""
        if self._is_elsewhere(ticket):  # being faster changes nothing
            hint = "continue with the next batch: it starts at the group's new offset"
        else:
            within = "" if confirm_timeout_s is None else f"confirm within {confirm_timeout_s:g} s and "
            hint = f"{within}settle each batch once; what was not confirmed comes again"
        return StaleBatchError(
            f"this batch of {self._partition} can no longer be settled: {self._reason(ticket)}", hint=hint
        )

    def _is_elsewhere(self, ticket: int) -> bool:
        """True if the batch is void because of the partition or the group, not because of its user."""
        settled = self._outcome_of(ticket)
        if settled is None:
            return self.end_reason is not None or ticket <= self._left[0]
        return settled == self.end_reason or (ticket <= self._left[0] and settled == self._left[1])

    def _reason(self, ticket: int) -> str:
        settled = self._outcome_of(ticket)
        if settled is not None:
            return settled
        if self.end_reason is not None:
            return self.end_reason
        if ticket <= self._left[0]:
            return self._left[1]
        return UNDER_WAY if self._end[0] == ticket else "a later one has been handed out"

    def _outcome_of(self, ticket: int) -> str | None:
        """Return how this batch was settled or given back; None if it was not, or a later one was."""
        return self._end[1] if self._end[0] == ticket and self._end[1] is not UNDER_WAY else None
