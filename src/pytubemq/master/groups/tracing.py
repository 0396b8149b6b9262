"""The Master's orders to consumers in the log and in the traces of groups and partitions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytubemq.observe.trace_events import GROUP, PARTITION

if TYPE_CHECKING:
    from pytubemq.core.balance.facts import SendEvent

logger = logging.getLogger(__name__)


def record_event(group: str, action: SendEvent) -> None:
    """Record an event that assigns partitions to a consumer, or revokes them."""
    event, member = action.event, action.member
    logger.info(
        "group %s: event %d for %s: %s, %d partitions",
        group,
        event.rebalance_id,
        member,
        event.op.name,
        len(event.partitions),
    )
    if not (GROUP.on or PARTITION.on):
        return
    GROUP.record(
        "assigned", group=group, member=member, order=event.op.name, event_id=event.rebalance_id,
        partitions=" ".join(map(str, event.partitions)),
    )  # fmt: skip
    for partition in event.partitions:
        PARTITION.record(
            "owner", topic=partition.topic, partition=partition.partition_id, broker=partition.broker_id,
            order=event.op.name, group=group, member=member,
        )  # fmt: skip
