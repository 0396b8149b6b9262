"""Groups whose unconfirmed messages retention removes soon: found, logged and measured before it happens.

The invariants: one scan per pass of retention, over at most MAX_WATCHED_POSITIONS positions, and none if nothing
expires soon. A group is logged when it first appears, and every REPEAT_S while it has a consumer. A group without a
consumer that has lost messages already is left out: it has been logged, and nobody waits for its messages.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.model.limits import MAX_WATCHED_POSITIONS
from pytubemq.model.offset import to_ordinal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pytubemq.broker.state import BrokerState
    from pytubemq.storage.log.retention import Expiring, ExpiringPartition

logger = logging.getLogger(__name__)

REPEAT_S: Final = 600.0
_MOST_LINES: Final = 8
"""Groups that one scan names in the log; one more line counts the others."""

GroupTopic = tuple[str, str]


@dataclass(slots=True)
class NearLoss:
    """The messages of a topic that a group is about to lose."""

    messages: int = 0
    partitions: int = 0
    left_s: float = float("inf")
    """Time until the first of them is removed."""
    is_read: bool = False
    """True if one of the partitions is assigned to a consumer of the group."""


class Growth(NamedTuple):
    """A partition's growth in bytes a second between two scans."""

    end_position: int
    looked_s: float
    bytes_per_s: float | None


def near_losses(
    positions: Mapping[tuple[str, str, int], int],
    expiring: Mapping[tuple[str, int], ExpiringPartition],
    growth: Mapping[tuple[str, int], Growth],
    held: Collection[RegistrationKey],
) -> dict[GroupTopic, NearLoss]:
    """Return the groups that have not confirmed messages which expire soon, by group and topic."""
    found: dict[GroupTopic, NearLoss] = {}
    for (group, topic, partition_id), offset in positions.items():
        partition = expiring.get((topic, partition_id))
        if partition is None:
            continue
        ordinal = to_ordinal(offset)
        is_held = RegistrationKey(group, topic, partition_id) in held
        if ordinal < partition.first_ordinal and not is_held:
            continue
        first = max(ordinal, partition.first_ordinal)
        measured = growth[topic, partition_id].bytes_per_s
        rate = partition.bytes_per_s if measured is None else measured
        parts = [(part, left_s) for part in partition.parts if (left_s := _left_s(part, rate)) is not None]
        unread = [(part, left_s) for part, left_s in parts if part.end_ordinal > first]
        if not unread:
            continue
        near = found.setdefault((group, topic), NearLoss())
        near.messages += unread[-1][0].end_ordinal - first
        near.partitions += 1
        near.left_s = min(near.left_s, unread[0][1])
        near.is_read = near.is_read or is_held
    return found


def _left_s(part: Expiring, bytes_per_s: float | None) -> float | None:
    """Return the time until it is removed in s; None if that depends on growth and the partition does not grow."""
    by_size = None
    if part.left_bytes is not None and bytes_per_s:
        by_size = max(0.0, part.left_bytes / bytes_per_s)
    known = [left_s for left_s in (part.left_s, by_size) if left_s is not None]
    return min(known, default=None)


class RetentionWarnings:
    """The groups that will soon lose messages, as of the last pass of retention. Event loop only."""

    def __init__(self, state: BrokerState) -> None:
        self.near: dict[GroupTopic, NearLoss] = {}
        self._state = state
        self._growth: dict[tuple[str, int], Growth] = {}
        self._logged_s: dict[GroupTopic, float] = {}

    async def look(self, expiring: Mapping[tuple[str, int], ExpiringPartition]) -> None:
        """Find the groups about to lose some of these messages, and log those that are due."""
        state = self._state
        now_s = state.clock.now_s()
        self._growth = {key: self._grown(key, one.end_position, now_s) for key, one in expiring.items()}
        if expiring and state.store.position_count <= MAX_WATCHED_POSITIONS:
            held = {
                registration.key
                for registration in state.registry.registrations()
                if registration.lease_until_s > now_s
            }
            self.near = await asyncio.to_thread(near_losses, state.store.positions(), expiring, self._growth, held)
        else:
            self.near = {}
        self._log(now_s)

    def _grown(self, key: tuple[str, int], end_position: int, now_s: float) -> Growth:
        before = self._growth.get(key)
        if before is None:
            return Growth(end_position, now_s, None)
        if now_s <= before.looked_s:
            return before
        return Growth(end_position, now_s, (end_position - before.end_position) / (now_s - before.looked_s))

    def _log(self, now_s: float) -> None:
        logged = {name: self._logged_s[name] for name in self.near if name in self._logged_s}
        due = [
            name
            for name, near in self.near.items()
            if name not in logged or (near.is_read and now_s - logged[name] >= REPEAT_S)
        ]
        due.sort(key=lambda name: self.near[name].left_s)
        for group, topic in due[:_MOST_LINES]:
            near = self.near[group, topic]
            logger.warning(
                "group %s: retention removes %d unconfirmed messages of topic %s, in %d partition(s), the first in %s; "
                "%s",
                group, near.messages, topic, near.partitions, _duration_text(near.left_s),
                "raise the topic's retention, or add consumers" if near.is_read else "no consumer reads them",
            )  # fmt: skip
        if len(due) > _MOST_LINES:
            logger.warning("retention removes unconfirmed messages of %d more groups soon", len(due) - _MOST_LINES)
        self._logged_s = logged | dict.fromkeys(due, now_s)


def _duration_text(seconds: float) -> str:
    """Return the time in one unit, such as `12 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
