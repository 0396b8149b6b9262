"""Who reads from this Broker, for a Master that has just started: what they read it gives to nobody else then."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from pytubemq.model.ids import Partition
from pytubemq.model.limits import MAX_TOLD_LEASES
from pytubemq.wire.strings import SubscribeInfo, format_subscribe_info

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.broker.registry import Hold
    from pytubemq.model.ids import BrokerInfo


def told_leases(holds: Iterable[Hold], broker: BrokerInfo, *, now_s: float) -> tuple[str, ...]:
    """The holds that have not run out, at most `MAX_TOLD_LEASES`, each as a subscription."""
    live = (hold for hold in holds if hold.lease_until_s > now_s)
    return tuple(
        format_subscribe_info(
            SubscribeInfo(
                hold.consumer_id,
                hold.key.group,
                broker,
                Partition(broker.broker_id, hold.key.topic, hold.key.partition_id),
            )
        )
        for hold in islice(live, MAX_TOLD_LEASES)
    )
