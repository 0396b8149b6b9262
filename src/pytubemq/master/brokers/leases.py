"""Leases that consumers have at Brokers which come back to a Master that has just started.

The consumers come back as well, and their partitions must not be assigned to a newcomer meanwhile, or they would move
twice. Nothing of this is stored: the Brokers know it. The invariant: a reported lease is forgotten when the grace
period is over.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING

from pytubemq.errors import FormatError
from pytubemq.master.brokers.slices import slices
from pytubemq.model.limits import MAX_REPORTED_LEASES
from pytubemq.wire.text.partition_strings import parse_subscribe_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.model.ids import Partition
    from pytubemq.wire.text.partition_strings import SubscribeInfo

logger = logging.getLogger(__name__)


async def read_leases(texts: Iterable[str]) -> tuple[SubscribeInfo, ...]:
    """Return the leases that a Broker reports, read in slices between which the loop runs.

    A text that is no subscription keeps nobody out: it is logged and left out.
    """
    found = []
    problem, bad = "", 0
    async for some in slices(islice(texts, MAX_REPORTED_LEASES)):
        for text in some:
            try:
                found.append(parse_subscribe_info(text))
            except FormatError as error:
                problem, bad = problem or error.message, bad + 1
    if bad:
        logger.warning("a Broker reports %d leases that cannot be read, the first because %s", bad, problem)
    return tuple(found)


class Leases:
    """Reported leases that no group has used yet, by group."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[Partition, str]] = {}
        self._until_s = 0.0

    def record(self, leases: Iterable[SubscribeInfo], *, until_s: float) -> None:
        """Record the leases that a Broker reports."""
        for info in leases:
            self._by_group.setdefault(info.group, {})[info.partition] = info.consumer_id
        self._until_s = max(self._until_s, until_s)

    def take(self, group: str) -> tuple[Mapping[Partition, str], float]:
        """Remove and return a group's leases, consumers by partition, and the time until which they count."""
        return self._by_group.pop(group, {}), self._until_s

    def expire(self, now_s: float) -> None:
        """Forget all leases once the grace period is over."""
        if now_s >= self._until_s:
            self._by_group.clear()
