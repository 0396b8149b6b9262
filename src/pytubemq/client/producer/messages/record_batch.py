"""Messages of one partition that go together, between submit and receipt: what a sender queues, sends and retries.

The invariants: messages are in the order of their submission and have consecutive sequence numbers; a part of a batch
has the state of the whole, so that the messages of a batch may have different outcomes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Partition

Header: TypeAlias = tuple[int, str | None, str | None]
"""Flag, type and time of a message."""
PLAIN: Header = (0, None, None)


class RecordBatch(ABC):
    """Messages without a result. `order` says which of two batches of a partition came first; a part's is higher by
    the number of messages before it."""

    __slots__ = (
        "cause",
        "count",
        "deadline_s",
        "order",
        "partition",
        "refused_since_s",
        "sequence",
        "size_bytes",
        "tries",
        "uncertain",
    )

    def __init__(self, partition: Partition, deadline_s: float, order: int, count: int, size_bytes: int) -> None:
        self.partition = partition
        self.deadline_s = deadline_s
        self.order = order
        self.count = count
        """Number of messages."""
        self.size_bytes = size_bytes
        """Bytes of the messages, without those that the batch adds."""
        self.sequence: int | None = None
        """The sequence number of the first message, set when it is first sent."""
        self.tries = 0
        self.cause: BaseException | None = None
        self.refused_since_s: float | None = None
        """When the first of the refusals in a row came of which the latest is its last failure; None: it is another."""
        self.uncertain = False
        """True if it was sent and its outcome is unknown: the Broker may have it."""

    # --- where it may go ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def may_move(self) -> bool:
        """True if it may go to any partition."""

    @property
    @abstractmethod
    def may_leave_topic_partition(self) -> bool:
        """True if it goes elsewhere when the topic loses its partition."""

    @property
    @abstractmethod
    def key(self) -> bytes | None:
        """The key by which a partition is chosen; None for any partition."""

    def split_by_key(self) -> Sequence[RecordBatch]:
        """Return parts in which all messages have the same key."""
        return (self,)

    def move_to(self, partition: Partition) -> None:
        """Go to another partition, for which this is a new batch: it was surely not accepted where it was."""
        self.partition = partition
        self.sequence = None
        self.tries, self.uncertain = 0, False

    # --- what is sent -------------------------------------------------------------------------------------------

    @abstractmethod
    def columns(self) -> bytes:
        """Return the encoded record batch."""

    @abstractmethod
    def payloads_and_headers(self) -> tuple[Sequence[bytes], Sequence[Header] | None]:
        """Return the messages for requests of their own; without headers if all are `PLAIN`."""

    def mark_sent(self) -> None:  # noqa: B027 - not every batch needs to know
        """Note that it is being sent."""

    @abstractmethod
    def part(self, start: int, stop: int) -> Self:
        """Return the messages from number `start` to before `stop`, as a batch with the same state."""

    def merge(self, following: RecordBatch) -> bool:
        """Take in the messages of the following batch of the partition, if both are alike; return True if done."""
        return False

    @abstractmethod
    def bytes_between(self, start: int, stop: int) -> int:
        """Return the bytes of the messages from number `start` to before `stop`."""

    # --- results ------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_unwanted(self) -> bool:
        """True if nobody waits for any of the results."""

    @property
    @abstractmethod
    def is_partly_unwanted(self) -> bool:
        """True if nobody waits for one or more of the results."""

    def split_by_wanted(self) -> Sequence[RecordBatch]:
        """Return parts of which each is either wanted or unwanted as a whole."""
        return (self,)

    @abstractmethod
    def fail(self, error: TubeError) -> int:
        """Fail all messages with `error`; return how many were waited for."""

    @abstractmethod
    def deliver(
        self,
        start: int,
        count: int,
        message_id: int,
        offset: int | None,
        time_ms: int | None,
        *,
        repeated: bool = False,
    ) -> None:
        """Deliver the receipts of `count` messages from number `start` on, which were accepted one after the other.

        Without `offset` the Broker does not report where they are; `message_id` 0 is none.
        """

    def _copy_state(self, whole: RecordBatch, start: int) -> None:
        """Take over the state of the batch of which this is the part from number `start` on."""
        self.sequence = None if whole.sequence is None else whole.sequence + start
        self.tries, self.cause, self.uncertain = whole.tries, whole.cause, whole.uncertain
        self.refused_since_s = whole.refused_since_s
