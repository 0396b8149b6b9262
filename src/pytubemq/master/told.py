"""The Master's orders to consumers, as the log and the stories of groups and partitions tell them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytubemq.observe.story import GROUP, PARTITION

if TYPE_CHECKING:
    from pytubemq.core.balance.facts import Tell

logger = logging.getLogger(__name__)


def tell_event(group: str, told: Tell) -> None:
    """A consumer is told to take, or to give up, partitions."""
    event, member = told.event, told.member
    logger.info(
        "group %s: event %d tells %s to %s %d partitions",
        group,
        event.rebalance_id,
        member,
        event.op.name,
        len(event.partitions),
    )
    if not (GROUP.on or PARTITION.on):
        return
    GROUP.tell(
        "assigned", group=group, member=member, order=event.op.name, event_id=event.rebalance_id,
        partitions=" ".join(map(str, event.partitions)),
    )  # fmt: skip
    for partition in event.partitions:
        PARTITION.tell(
            "owner", topic=partition.topic, partition=partition.partition_id, broker=partition.broker_id,
            order=event.op.name, group=group, member=member,
        )  # fmt: skip
