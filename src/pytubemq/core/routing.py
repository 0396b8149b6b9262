"""The choice of a message's partition.

The invariants: a key always goes to the same partition as long as the set of partitions is the same; messages without
a key go round all partitions of all Brokers that are believed to work; a Broker or a partition that failed is left out
for a while, and a Broker that owes a response for too long until it responds; but when that leaves none, none is left
out, because a guess beats standing still.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.core.retry import Backoff, Rng
from pytubemq.model.limits import UNANSWERED_BROKER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytubemq.model.ids import Partition

# Short at first, since the usual cause is a restart, which takes seconds.
SHIELD: Final = Backoff(first_s=0.25, most_s=30.0, jitter=0.25)
"""Seconds for which a Broker is left out after its n-th failure in a row. (The original waits for six failures in a
minute and then leaves a Broker out for half an hour.)
"""

_NEVER: Final = float("inf")


@dataclass(slots=True)
class _Shield:
    failures: int
    until_s: float


class Router:
    """The choice of partitions for one topic."""

    def __init__(self, *, rng: Rng) -> None:
        """Create the router; `rng` picks the first partition, so that many producers do not begin at the same one."""
        self._rng = rng
        self._partitions: tuple[Partition, ...] = ()
        self._open: tuple[Partition, ...] = ()
        self._open_set: frozenset[Partition] = frozenset()
        self._next_change_s = _NEVER
        self._turn = 0
        self._shields: dict[int, _Shield] = {}
        self._sick: dict[Partition, _Shield] = {}
        self._silent: frozenset[int] = frozenset()
        """Brokers that have owed a response for too long."""

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """All partitions, sorted."""
        return self._partitions

    def update(self, partitions: Iterable[Partition], now_s: float) -> frozenset[Partition]:
        """Take the partitions that the Master names now; returns those that are gone."""
        before = frozenset(self._partitions)
        first = not before
        # Sorted, so that all producers see the same order and a key goes to the same partition from each of them.
        self._partitions = tuple(sorted(set(partitions)))
        if first and self._partitions:
            # Else a fleet that starts together would send its first messages to one partition.
            self._turn = int(self._rng() * len(self._partitions))
        brokers = {partition.broker_id for partition in self._partitions}
        # What was remembered of partitions and Brokers that are gone would else stay for good.
        self._shields = {broker: shield for broker, shield in self._shields.items() if broker in brokers}
        self._sick = {one: shield for one, shield in self._sick.items() if one in self._partitions}
        self._recompute(now_s)
        return before - frozenset(self._partitions)

    def choose(self, now_s: float, key: bytes | None = None) -> Partition | None:
        """Return the partition for the next message; None while no partition is known."""
        if key is not None:
            return self.for_key(key)
        # The set is computed when something changes, or when a shield ends: not for each message.
        if now_s >= self._next_change_s:
            self._recompute(now_s)
        candidates = self._open
        if not candidates:
            return None
        self._turn = turn = (self._turn + 1) % len(candidates)
        return candidates[turn]

    def for_key(self, key: bytes) -> Partition | None:
        """Return the partition of a key: CRC-32 of the key over all partitions, shielded or not."""
        if not self._partitions:
            return None
        # Shielded or not: another partition would break the order of this key's messages.
        return self._partitions[zlib.crc32(key) % len(self._partitions)]

    def record_failure(self, broker_id: int, now_s: float) -> None:
        """Record that a Broker could not be reached or refused to serve."""
        shield = self._shields.setdefault(broker_id, _Shield(0, now_s))
        # Counted until a response comes, so a Broker that fails each time its shield ends is left out for longer and
        # longer.
        shield.failures += 1
        shield.until_s = now_s + SHIELD.delay_s(shield.failures, self._rng)
        self._recompute(now_s)

    def record_partition_failure(self, partition: Partition, now_s: float) -> None:
        """Record that a Broker that serves cannot serve this partition."""
        shield = self._sick.setdefault(partition, _Shield(0, now_s))
        if shield.until_s > now_s:
            return  # each of the messages that left together reports the same failure
        shield.failures += 1
        shield.until_s = now_s + SHIELD.delay_s(shield.failures, self._rng)
        self._recompute(now_s)

    def pass_over_silent(self, awaited: Mapping[int, float], now_s: float) -> bool:
        """Pass over the Brokers that have owed a response for too long; returns True if these are others than before.

        `awaited` has, for each Broker that owes one, the time since when nothing came from it. A Broker that is not in
        it, or has responded meanwhile, gets its share again.
        """
        # Silence is no failure: the requests may still be served, so it has no backoff and ends with the first
        # response.
        silent = frozenset(broker for broker, since_s in awaited.items() if now_s - since_s >= UNANSWERED_BROKER_S)
        if silent == self._silent:
            return False
        self._silent = silent
        self._recompute(now_s)
        return True

    def is_left_out(self, partition: Partition) -> bool:
        """True if messages without a key go elsewhere now."""
        return partition not in self._open_set

    def record_response(self, broker_id: int, now_s: float) -> bool:
        """Record that a Broker responded: forget its failures and its silence; returns True if it had any."""
        silent = broker_id in self._silent
        # Nearly every response: nothing to forget, and nothing to compute anew.
        if self._shields.pop(broker_id, None) is None and not silent:
            return False
        self._silent -= {broker_id}
        self._recompute(now_s)
        return True

    def open_brokers(self, now_s: float) -> frozenset[int]:
        """Return the Brokers that are neither shielded nor silent now."""
        shielded = {broker for broker, shield in self._shields.items() if shield.until_s > now_s}
        return frozenset(partition.broker_id for partition in self._partitions) - shielded - self._silent

    def _recompute(self, now_s: float) -> None:
        shielded = {broker: shield.until_s for broker, shield in self._shields.items() if shield.until_s > now_s}
        sick = {partition: shield.until_s for partition, shield in self._sick.items() if shield.until_s > now_s}
        served = [partition for partition in self._partitions if partition.broker_id not in shielded]
        # A Broker that serves with one partition that does not: the others stay in use.
        sound = [partition for partition in served if partition not in sick]
        prompt = [partition for partition in sound if partition.broker_id not in self._silent]
        # From the strictest choice to the laxest one; the first that is not empty counts.
        self._open = _interleave(prompt or sound or served or self._partitions)
        self._open_set = frozenset(self._open)
        # Silent Brokers have no time at which they come back: a response or `pass_over_silent` brings them.
        self._next_change_s = min([*shielded.values(), *sick.values()], default=_NEVER)


def _interleave(partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """Order partitions in turn by Broker, so that neighbours in the round are on different Brokers."""
    by_broker: dict[int, list[Partition]] = {}
    for partition in partitions:
        by_broker.setdefault(partition.broker_id, []).append(partition)
    found: list[Partition] = []
    # Row by row: with partitions one Broker after the other, a burst would go to a single Broker.
    for row in range(max((len(column) for column in by_broker.values()), default=0)):
        found.extend(column[row] for column in by_broker.values() if row < len(column))
    return tuple(found)
