"""One request's share of a journal write: what it wants written, and how it learns what became of it.

The invariant: exactly one of `written`, `refused` and `expired` is called, once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytubemq.errors import Code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.broker.send_order import SendOrder
    from pytubemq.broker.waiters import PartitionKey
    from pytubemq.storage.staging import Appended

ENTRY_OVERHEAD_BYTES = 64
"""What a staged message is counted for beside its payload, so that a flood of tiny ones is bounded too."""


class Entry(NamedTuple):
    """A message that has passed every check."""

    partition_id: int
    payload: bytes
    flag: int
    key_code: int
    sequence: int | None = None


class Refusal(NamedTuple):
    """Why something was not done."""

    code: Code
    text: str


class Confirmation(NamedTuple):
    """A group's position that is to be made durable."""

    group: str
    topic: str
    partition_id: int
    offset: int


class Submission(Protocol):
    """What the append path takes."""

    @property
    def deadline_s(self) -> float:
        """After this nobody waits for the outcome any more."""
        ...

    @property
    def size_bytes(self) -> int:
        """What it counts against the bound on staged bytes."""
        ...

    @property
    def topic(self) -> str:
        """The topic of all entries."""
        ...

    @property
    def entries(self) -> Sequence[Entry]:
        """Messages to append, in order."""
        ...

    @property
    def producer(self) -> tuple[int | None, int | None]:
        """Producer id and epoch of all entries."""
        ...

    @property
    def partitions(self) -> frozenset[PartitionKey]:
        """What the entries touch."""
        ...

    @property
    def confirmation(self) -> Confirmation | None:
        """A position to write, if that is what this is."""
        ...

    @property
    def order(self) -> SendOrder | None:
        """Its place among its producer's batches, if the producer cares; looked at again when its turn comes."""
        ...

    def written(self, appended: Sequence[Appended]) -> None:
        """It is durable and readable; one `Appended` per entry."""
        ...

    def refused(self, refusal: Refusal) -> None:
        """Nothing of it was written."""
        ...

    def expired(self) -> None:
        """Its time ran out before its turn came; nothing of it was written."""
        ...


class Barrier:
    """Writes nothing, and ends when all that came before it has. Never dropped for its age."""

    __slots__ = ("_done",)

    deadline_s = math.inf
    size_bytes = ENTRY_OVERHEAD_BYTES
    topic = ""
    entries: Sequence[Entry] = ()
    producer: tuple[int | None, int | None] = (None, None)
    partitions: frozenset[PartitionKey] = frozenset()
    order: SendOrder | None = None
    confirmation: Confirmation | None = None

    def __init__(self, done: Callable[[Refusal | None], None]) -> None:
        self._done = done

    def written(self, appended: Sequence[Appended]) -> None:
        self._done(None)

    def refused(self, refusal: Refusal) -> None:
        self._done(refusal)

    def expired(self) -> None:
        """Never called: the deadline is infinite."""
        self._done(Refusal(Code.INTERNAL_SERVER_ERROR, "it was not written in time"))


class ConfirmSubmission(Barrier):
    """Makes one position durable."""

    __slots__ = ("confirmation",)

    def __init__(self, confirmation: Confirmation, done: Callable[[Refusal | None], None]) -> None:
        super().__init__(done)
        self.confirmation = confirmation
