"""The number of consumers that must be there before a group gets its first partitions.

A bound group waits for as many as its first member counted. Every group waits until no consumer would have to read from
more Brokers than it may (`alwdBrokerClientRate` of the group's record). Both apply only until they are met once.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pytubemq.model.limits import MAX_BROKERS_PER_CLIENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.core.balance.consistency import Terms
    from pytubemq.model.ids import Partition
    from pytubemq.model.records import GroupRecord


def needed_members(terms: Terms, available: Iterable[Partition], record: GroupRecord | None) -> int:
    """Return how many consumers the group must have.

    Args:
        terms: what its members agree on.
        available: the partitions that can be read now, or one for each topic on a Broker.
        |        record: the group's settings; None = the defaults.
    """
    return max(terms.total_count if terms.bound else 1, members_for_rate(available, record))


def members_for_rate(available: Iterable[Partition], record: GroupRecord | None) -> int:
    """Return how many consumers it takes so that none has more Brokers than allowed, by the topic with most Brokers."""
    places: dict[str, set[int]] = defaultdict(set)
    for partition in available:
        places[partition.topic].add(partition.broker_id)
    brokers = max(map(len, places.values()), default=0)
    allowed = record.alwd_broker_client_rate if record is not None else 0
    # The original divides without rest: with 5 Brokers and 2 consumers each has 2.
    return brokers // ((allowed if allowed > 0 else MAX_BROKERS_PER_CLIENT) + 1) + 1


def one_of_each(parts: Iterable[frozenset[Partition]]) -> list[Partition]:
    """Return one partition of each set: only their topics and Brokers count here."""
    return [next(iter(part)) for part in parts if part]
