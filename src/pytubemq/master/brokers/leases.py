"""Who reads from the Brokers that come back to a Master which has just started.

Its consumers are on their way back, too, and what they read must not be given to a newcomer meanwhile: it would move,
and come back. Nothing of this is stored: the Brokers know it. The invariant: what is kept is forgotten when the grace
is over.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING

from pytubemq.errors import FormatError
from pytubemq.master.slices import slices
from pytubemq.model.limits import MAX_REPORTED_LEASES
from pytubemq.wire.text.strings import parse_subscribe_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.model.ids import Partition
    from pytubemq.wire.text.strings import SubscribeInfo

logger = logging.getLogger(__name__)


async def read_leases(texts: Iterable[str]) -> tuple[SubscribeInfo, ...]:
    """Who reads from a Broker, as it says, read in slices between which the loop runs.

    What is no subscription keeps nobody out: it is logged and left out.
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
    """What was said and not yet taken, by group."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[Partition, str]] = {}
        self._until_s = 0.0

    def record(self, leases: Iterable[SubscribeInfo], *, until_s: float) -> None:
        """Record the leases that a Broker reports."""
        for info in leases:
            self._by_group.setdefault(info.group, {})[info.partition] = info.consumer_id
        self._until_s = max(self._until_s, until_s)

    def take(self, group: str) -> tuple[Mapping[Partition, str], float]:
        """Who reads what in a group, and until when that counts; told once."""
        return self._by_group.pop(group, {}), self._until_s

    def expire(self, now_s: float) -> None:
        """Forget what does not count any more."""
        if now_s >= self._until_s:
            self._by_group.clear()
