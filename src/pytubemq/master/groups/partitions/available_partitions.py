"""The partitions that a consumer group can have now, those that are absent, and the leases on them.

The invariant: a group that has not begun, since too few of its consumers are there, has nothing.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from pytubemq.core.balance.facts import Leased, PartitionsChanged
from pytubemq.core.balance.partition_sets import union
from pytubemq.master.groups.partition_metadata import part_meta
from pytubemq.master.groups.readiness import needed_members, one_of_each
from pytubemq.model.ids import Partition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.core.balance.facts import Fact
    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.groups.group import Group
    from pytubemq.master.groups.partition_metadata import PartitionMetadata
    from pytubemq.net.clock import Clock


class AvailablePartitions:
    """The partitions of each group, by the catalogue and the Brokers."""

    def __init__(self, catalogue: Catalogue, brokers: Brokers, clock: Clock) -> None:
        self._catalogue = catalogue
        self._brokers = brokers
        self._clock = clock
        self._shared: WeakValueDictionary[frozenset[str], frozenset[Partition]] = WeakValueDictionary()
        """The available partitions by topics: groups with the same topics share one set."""

    def facts(self, group: Group) -> Iterator[Fact]:
        """Yield the facts for the plan of a server-balanced group; mark the group as begun once it may begin."""
        open_topics = group.terms.topics - self._catalogue.disabled_topics(group.name)
        available_parts, absent_parts = self._brokers.topics.consumable_by_topic(open_topics)
        available = _whole(available_parts, group.available)
        group.available = (available_parts, available)
        absent = frozenset[Partition]().union(*absent_parts)
        if not group.begun and available:
            needs = needed_members(group.terms, one_of_each(available_parts), self._catalogue.groups.get(group.name))
            group.begun = len(group.members) >= needs
            group.needs = 0 if group.begun else needs
        if not group.begun:
            absent, available = union(absent, available), frozenset()
        yield PartitionsChanged(self._share(open_topics, available), absent)
        leases, until_s = self._brokers.leases.take(group.name)
        if leases:
            yield Leased(leases, until_s)

    def _share(self, topics: frozenset[str], found: frozenset[Partition]) -> frozenset[Partition]:
        known = self._shared.get(topics)
        if known == found:
            return known
        self._shared[topics] = found
        return found

    def meta(self, group: Group) -> PartitionMetadata:
        """Return the partition metadata for a client-balanced group, the Brokers' addresses included."""
        return part_meta(
            self._brokers,
            group.terms.topics,
            disabled=self._catalogue.disabled_topics(group.name),
            before=group.meta,
            now_ms=self._clock.wall_ms(),
        )


def _whole(
    parts: list[frozenset[Partition]], before: tuple[list[frozenset[Partition]], frozenset[Partition]]
) -> frozenset[Partition]:
    """Return all partitions of `parts`; the set in `before` if it was made of the same parts.

    A set of 100,000 takes 30 ms to make, and as long to be compared with one that is equal and not the same.
    """
    known, whole = before
    if len(known) == len(parts) and all(map(is_, known, parts)):
        return whole
    return frozenset().union(*parts)
