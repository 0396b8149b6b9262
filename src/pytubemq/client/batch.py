"""What a fetch brought: the messages of one partition, in order.

The invariant: a batch is settled at most once, and only while it is held; after that `confirm` says why it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pytubemq.errors import FormatError
from pytubemq.model.message import Message
from pytubemq.wire.attributes import parse_attributes
from pytubemq.wire.checksum import check_sum
from pytubemq.wire.payload import decode_payload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytubemq.model.ids import Partition
    from pytubemq.wire.hot import StoredMessage


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """Messages read by a reader. `next_offset` is where the next batch begins.

    `malformed` holds the positions of messages whose payload does not contain the attributes that it claims; the
    whole payload is their body. It is empty unless the reader was made with `on_malformed="raw"`.
    """

    partition: Partition
    messages: tuple[Message, ...]
    start_offset: int
    next_offset: int
    malformed: frozenset[int] = frozenset()

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


class Holder(Protocol):
    """Who a batch is settled with."""

    def holds(self, ticket: int) -> bool:
        """Whether the batch can still be settled."""
        ...

    async def confirm(self, ticket: int) -> None:
        """The batch was handled."""
        ...

    async def reject(self, ticket: int) -> None:
        """The batch shall come again."""
        ...


class Batch:
    """Messages handed to a consumer. It is held for this consumer until confirmed, rejected, or its time is over."""

    __slots__ = ("_holder", "messages", "next_offset", "partition", "settled", "start_offset", "ticket")

    def __init__(
        self,
        partition: Partition,
        messages: tuple[Message, ...],
        start_offset: int | None,
        next_offset: int | None,
        *,
        holder: Holder,
        ticket: int,
    ) -> None:
        self.partition = partition
        self.messages = messages
        self.start_offset = start_offset
        """Where this batch begins; None if the Broker does not tell."""
        self.next_offset = next_offset
        """Where the next one begins; None if the Broker does not tell (Java Brokers)."""
        self.settled = False
        """Whether it was confirmed or rejected."""
        self._holder = holder
        self.ticket = ticket

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        return f"Batch({self.partition}, {len(self.messages)} messages from {self.start_offset})"

    @property
    def held(self) -> bool:
        """Whether it can still be confirmed or rejected, as far as this client knows."""
        return self._holder.holds(self.ticket)

    async def confirm(self) -> None:
        """Tell the Broker that all of this batch is handled, so that it never comes again.

        Raises:
            StaleBatchError: it is not held any more: settled before, given back after its time, or reassigned.
            TransportError: the Broker could not be told; the batch comes again.
        """
        await self._holder.confirm(self.ticket)
        self.settled = True

    async def reject(self) -> None:
        """Have the same messages come again, to this consumer or, after a rebalance, to another.

        Raises:
            StaleBatchError: as for `confirm`.
        """
        await self._holder.reject(self.ticket)
        self.settled = True


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that fails its check."""

    offset: int | None
    reason: str


def read_messages(
    partition: Partition,
    stored: Sequence[StoredMessage],
    wanted: frozenset[str] | None = None,
    *,
    malformed: set[int] | None = None,
) -> tuple[list[Message], list[Unreadable]]:
    """Messages as a user sees them, and those that cannot be read.

    `wanted` filters again by text: Brokers choose by a hash that different items may share. As in the original's
    Java client a message without a type is not among those wanted. With `malformed` given, messages whose attributes
    cannot be read are handed out raw instead, and their positions put there.
    """
    found: list[Message] = []
    unreadable: list[Unreadable] = []
    for item in stored:
        payload = item.payload
        if item.check_sum != check_sum(payload):
            unreadable.append(Unreadable(item.offset, "its checksum does not match"))
            continue
        attributes: dict[str, str] = {}
        msg_type = msg_time = None
        body = payload
        if item.flag:
            try:
                body, text = decode_payload(payload, item.flag)
                if text:
                    attributes, msg_type, msg_time = parse_attributes(text)
            except FormatError as error:
                if malformed is None:
                    unreadable.append(Unreadable(item.offset, error.message))
                    continue
                malformed.add(len(found))
                body, attributes, msg_type, msg_time = payload, {}, None, None
        if wanted is not None and msg_type not in wanted:
            continue
        found.append(
            Message(partition, body, attributes, item.offset, item.append_time, item.message_id, msg_type, msg_time)
        )
    return found, unreadable
