"""Units that a sender carries to its Broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pytubemq.client.producer.messages.plain_batch import PlainBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytubemq.client.producer.messages.pending_message import PendingMessage
    from pytubemq.client.producer.messages.record_batch import RecordBatch

    SendUnit: TypeAlias = PendingMessage | PlainBatch | RecordBatch
    """One message, plain messages that were submitted one after the other, or a record batch of messages that were
    submitted together."""


def split_plain_batches(units: Iterable[SendUnit]) -> Iterator[PendingMessage | RecordBatch]:
    """Yield the units, with the messages of plain batches each on their own."""
    for unit in units:
        if isinstance(unit, PlainBatch):
            yield from unit.messages()
        else:
            yield unit
