"""Requests that carry messages to a Broker, and the batches in them.

The invariants: messages of one partition leave in the order they were queued in; a message that has left with a number
leaves with the same one again, and the numbers within a batch follow each other.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, cast

from pytubemq.client.producer.messages.plain_batch import PlainBatch
from pytubemq.client.producer.messages.record_batch import RecordBatch
from pytubemq.client.producer.messages.send_unit import split_plain_batches
from pytubemq.model.filters import NO_FILTER_CODE, filter_code
from pytubemq.wire.batch.record_batch import encode_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.producer.messages.pending_message import PendingMessage
    from pytubemq.client.producer.messages.send_unit import SendUnit
    from pytubemq.client.producer.sequence_numbers import SequenceNumbers
    from pytubemq.model.ids import Partition
    from pytubemq.net.client.connection import RpcConnection

_code_of = lru_cache(maxsize=1024)(filter_code)


class OutgoingBatch(NamedTuple):
    """Messages of one partition that are sent as one record batch. They are one `RecordBatch`, or plain batches or
    single messages in order."""

    units: list[PendingMessage] | list[PlainBatch] | list[RecordBatch]
    columns: bytes

    @property
    def entry(self) -> tuple[int, bytes, int | None]:
        """Return the partition, the columns and the first sequence number, as a request contains them."""
        first = self.units[0]
        return first.partition.partition_id, self.columns, first.sequence


class InFlightRequest(NamedTuple):
    """A request that has no response yet."""

    units: Sequence[SendUnit]
    connection: RpcConnection
    counts_refusal: bool
    """True if the Broker counts its refusal; it does not count those of single messages."""
    is_probe: bool
    """True if it was sent to find out how many refusals the Broker has counted."""
    batches: list[OutgoingBatch]
    """Empty if the request contains no record batches."""


def make_batches(units: Sequence[SendUnit], numbers: SequenceNumbers) -> list[OutgoingBatch]:
    """Build record batches of these units; each partition's in order, with consecutive sequence numbers in each
    batch."""
    batches: list[OutgoingBatch] = []
    filling: dict[Partition, list[PendingMessage | PlainBatch]] = {}
    latest: Partition | None = None
    group: list[PendingMessage | PlainBatch] = []
    for unit in units:
        if isinstance(unit, RecordBatch):
            partition = unit.partition
            unit.batch_send.started = True
            _close(batches, partition, filling.pop(partition, None), numbers)
            latest = None
            numbers.assign(partition, (unit,))
            batches.append(OutgoingBatch([unit], unit.columns))
            continue
        if unit.partition is not latest:
            latest = unit.partition
            group = filling.setdefault(latest, [])
        group.append(unit)
    for partition, group in filling.items():
        _close(batches, partition, group, numbers)
    return batches


def _close(
    batches: list[OutgoingBatch],
    partition: Partition,
    group: list[PendingMessage | PlainBatch] | None,
    numbers: SequenceNumbers,
) -> None:
    if not group:
        return
    numbers.assign(partition, group)
    kinds = set(map(type, group))
    if kinds == {PlainBatch}:
        plain = cast("list[PlainBatch]", group)
        following = plain[0].sequence
        for batch in plain:
            if batch.sequence != following:
                break
            following = None if following is None else following + batch.count
        else:
            batches.append(_batch_of_plain_batches(plain))
            return
    messages = list(split_plain_batches(group)) if PlainBatch in kinds else group
    _close_messages(batches, cast("list[PendingMessage]", messages))


def _close_messages(batches: list[OutgoingBatch], group: list[PendingMessage]) -> None:
    first = group[0].sequence
    if first is None or [one.sequence for one in group] == list(range(first, first + len(group))):
        batches.append(_pack(group))
        return
    # what is sent again may have been partly taken meanwhile: a pack's numbers follow each other
    for _, run in groupby(enumerate(group), lambda item: (item[1].sequence or 0) - item[0]):
        batches.append(_pack([one for _, one in run]))


def _batch_of_plain_batches(group: list[PlainBatch]) -> OutgoingBatch:
    payloads = group[0].payloads if len(group) == 1 else [payload for batch in group for payload in batch.payloads]
    return OutgoingBatch(group, encode_columns(payloads, 0, NO_FILTER_CODE))


def _pack(group: list[PendingMessage]) -> OutgoingBatch:
    flags = {one.flag for one in group}
    types = {one.msg_type for one in group}
    return OutgoingBatch(
        group,
        encode_columns(
            [one.payload for one in group],
            flags.pop() if len(flags) == 1 else [one.flag for one in group],
            _code(types.pop()) if len(types) == 1 else [_code(one.msg_type) for one in group],
        ),
    )


def _code(msg_type: str | None) -> int:
    return NO_FILTER_CODE if not msg_type or msg_type.isspace() else _code_of(msg_type)
