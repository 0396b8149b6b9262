"""Batches of messages of one partition, in order.

The invariant: a batch is settled at most once, and only while it is held; after that `confirm` says why it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.model.ids import Partition
    from pytubemq.model.message import Message


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
    """The settlement of batches, as a batch needs it."""

    def holds(self, ticket: int) -> bool:
        """True if the batch can still be settled."""
        ...

    async def confirm(self, ticket: int, *, up_to: int | None = None, messages: int | None = None) -> None:
        """Confirm the batch, or only its messages below the offset `up_to`."""
        ...

    async def reject(self, ticket: int) -> None:
        """Have the batch come again."""
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
        """The offset at which this batch begins; None if the Broker does not report it."""
        self.next_offset = next_offset
        """The offset at which the next one begins; None if the Broker does not report it (Java Brokers)."""
        self.settled = False
        """True if it was confirmed or rejected."""
        self._holder = holder
        self.ticket = ticket

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        count = "1 message" if len(self.messages) == 1 else f"{len(self.messages)} messages"
        return f"Batch({self.partition}, {count} from {self.start_offset})"

    @property
    def held(self) -> bool:
        """True if it can still be confirmed or rejected, as far as this client knows."""
        return self._holder.holds(self.ticket)

    async def confirm(self, *, up_to: int | None = None) -> None:
        """Tell the Broker that all of this batch is handled, so that it never comes again.

        With `up_to` only the messages below that offset are, and the others come again; the batch is settled.

        Raises:
            StaleBatchError: it is not held any more: settled before, given back after its time, reassigned, or its
                group was moved.
            TransportError: no Broker took it and nobody took the partition away for 300 s; the batch comes again. Until
                then a Broker that is away is waited for, but for a Java Broker, which cannot be asked twice.
            RefusedError: the Broker refuses it; the batch comes again after a pause.
            ConfigError: `up_to` lies outside of the batch, or its Broker takes no part of one (Java Brokers).
        """
        if up_to is None:
            await self._holder.confirm(self.ticket)
        else:
            await self._holder.confirm(self.ticket, up_to=up_to, messages=self._below(up_to))
        self.settled = True

    def _below(self, up_to: int) -> int:
        """Return the number of messages below an offset."""
        start, end = self.start_offset, self.next_offset
        if start is None or end is None:
            raise ConfigError(
                f"the Broker of {self.partition} cannot confirm part of a batch: it does not report offsets",
                hint="confirm the whole batch, or reject it",
            )
        if not start <= up_to <= end:
            raise ConfigError(
                f"up_to is {up_to}, and the batch of {self.partition} goes from {start} to {end}",
                hint="give the offset of the first message that is not handled",
            )
        return sum(message.offset is not None and message.offset < up_to for message in self.messages)

    async def reject(self) -> None:
        """Have the same messages come again, to this consumer or, after a rebalance, to another.

        Raises:
            StaleBatchError: as for `confirm`.
        """
        await self._holder.reject(self.ticket)
        self.settled = True
