"""Leases of this Broker's readers, reported to a Master that has just started so that it assigns those partitions to
nobody else.

The invariant: a registration fits into a frame, however many readers there are and however long their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.model.ids import Partition
from pytubemq.model.limits import MAX_REPORTED_LEASES
from pytubemq.wire.text.partition_strings import SubscribeInfo, format_subscribe_info

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.broker.members.consumer_registry import Hold
    from pytubemq.model.ids import BrokerInfo

_ITEM_BYTES: Final = 8
"""The most bytes that protobuf puts before one text: its field number and its length."""


def reported_leases(holds: Iterable[Hold], broker: BrokerInfo, *, now_s: float, room_bytes: int) -> tuple[str, ...]:
    """Return the leases that have not expired, as subscriptions: at most `MAX_REPORTED_LEASES`, in `room_bytes`."""
    found: list[str] = []
    for hold in holds:
        if hold.lease_until_s <= now_s:
            continue
        partition = Partition(broker.broker_id, hold.key.topic, hold.key.partition_id)
        text = format_subscribe_info(SubscribeInfo(hold.consumer_id, hold.key.group, broker, partition))
        room_bytes -= len(text.encode()) + _ITEM_BYTES
        if room_bytes < 0 or len(found) == MAX_REPORTED_LEASES:
            break
        found.append(text)
    return tuple(found)
