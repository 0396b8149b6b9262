"""One request's part of a journal write: the messages or positions to write, and the callbacks for its outcome.

The invariant: exactly one of `complete`, `refuse` and `expire` is called, once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from pytubemq.core.refusal import Refusal
from pytubemq.errors import Code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.broker.append.send_order import SendOrder
    from pytubemq.storage.journal.staging import Appended, AppendedRun, Staging

Result: TypeAlias = "Appended | AppendedRun"
"""The outcome of one message, or of several."""
ENTRY_OVERHEAD_BYTES: Final = 512
"""Size of a message staged individually, beside its payload: bounds its objects, and lets a block of the smallest be
prepared, or answered, in 50 ms."""
RUN_ENTRY_OVERHEAD_BYTES: Final = 64
"""Size of a message of a run beside its payload; it is staged with the others."""
PARTITION_OVERHEAD_BYTES: Final = 4096
"""Size of each partition of a request beside its messages: the partition's part of the block, its index entries
and the producer's window take so much, and the time of ten messages."""
CONFIRM_OVERHEAD_BYTES: Final = 512
"""Size of a position that is to be confirmed."""
RECORD_BATCH_OVERHEAD_BYTES: Final = 2048
"""Size of a record batch beside its payload: the views of its columns take so much, however small it is."""


class Confirmation(NamedTuple):
    """A group's position that is to be made durable."""

    group: str
    topic: str
    partition_id: int
    offset: int


class Submission(Protocol):
    """One request's part of a journal write, as the append path sees it."""

    @property
    def deadline_s(self) -> float:
        """The deadline after which nobody waits for the outcome."""
        ...

    @property
    def size_bytes(self) -> int:
        """The bytes that it counts against the bound on staged bytes."""
        ...

    @property
    def order(self) -> SendOrder | None:
        """Its position among its producer's batches, if the producer counts refusals; checked when its turn comes."""
        ...

    @property
    def confirmations(self) -> int:
        """The number of positions that it confirms."""
        ...

    def stage(self, staging: Staging) -> int:
        """Add its content to a journal block; return how many consecutive numbers of the staging it used.

        It may be called again, with another staging, if the first one could not be prepared.
        """
        ...

    def complete(self, results: Sequence[Result]) -> None:
        """Complete it: it is as durable as its topic requires, and readable. One result for each number it used."""
        ...

    def refuse(self, refusal: Refusal) -> None:
        """Refuse it: nothing of it was written."""
        ...

    def expire(self) -> None:
        """End it because its time ran out before its turn came; nothing of it was written."""
        ...


class Barrier:
    """A submission without content that completes when all earlier ones have. Never dropped for its age."""

    __slots__ = ("_done",)

    # Others wait for it to be through; given up in between it would let them go on too early.
    deadline_s = math.inf
    size_bytes = CONFIRM_OVERHEAD_BYTES
    # It is no batch, so no earlier refusal concerns it.
    order: SendOrder | None = None
    confirmations = 0

    def __init__(self, done: Callable[[Refusal | None], None]) -> None:
        self._done = done

    def stage(self, staging: Staging) -> int:
        return 0

    def complete(self, results: Sequence[Result]) -> None:
        self._done(None)

    def refuse(self, refusal: Refusal) -> None:
        self._done(refusal)

    def expire(self) -> None:
        """Refuse it; never called, as the deadline is infinite."""
        # Answered all the same, should that change: whoever waits for a barrier waits for ever otherwise.
        self._done(Refusal(Code.INTERNAL_SERVER_ERROR, "it was not written in time"))


class ConfirmSubmission(Barrier):
    """A submission that makes one position durable."""

    __slots__ = ("confirmation",)

    confirmations = 1

    def __init__(self, confirmation: Confirmation, done: Callable[[Refusal | None], None]) -> None:
        super().__init__(done)
        self.confirmation = confirmation

    def stage(self, staging: Staging) -> int:
        # No number in the staging: a position has no result of its own, it counts when the block does.
        staging.confirm(*self.confirmation)
        return 0
