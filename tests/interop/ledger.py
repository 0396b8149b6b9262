"""What was sent and what came: where they differ is said in a line each.

The order expected in a partition is that of the offsets that Brokers gave in their receipts, so it holds for messages
of several producers, and for sends that overtook each other on their way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from .message_set import expected

MAX_FAULTS = 10

Index = tuple[str, int]
"""Set and number of a message."""


@dataclass
class Sent:
    """The receipts of one topic."""

    topic: str
    partitions: dict[str, list[tuple[int, Index]]] = field(default_factory=lambda: defaultdict(list))
    doubtful: set[Index] = field(default_factory=set)
    """Sent more than once, because an answer was lost or bad: they may be there more than once."""

    def add(self, set_name: str, index: int, partition: str, offset: int, tries: int = 1) -> None:
        """Enter a receipt."""
        self.partitions[partition].append((offset, (set_name, index)))
        if tries > 1:
            self.doubtful.add((set_name, index))

    @property
    def count(self) -> int:
        """How many messages."""
        return sum(map(len, self.partitions.values()))

    def order(
        self, wanted: frozenset[str] = frozenset(), starts: dict[str, int] | None = None
    ) -> dict[str, list[Index]]:
        """Per partition what a reader gets, from given offsets on, with these filter items (none: everything)."""
        found: dict[str, list[Index]] = {}
        for partition, receipts in self.partitions.items():
            start = (starts or {}).get(partition, 0)
            found[partition] = [
                index
                for offset, index in sorted(receipts)
                if offset >= start and (not wanted or expected(*index)[1] in wanted)
            ]
        return found


@dataclass
class Received:
    """What one group got, per partition in order of arrival."""

    partitions: dict[str, list[Index]] = field(default_factory=lambda: defaultdict(list))
    faults: list[str] = field(default_factory=list)
    seen: set[Index] = field(default_factory=set)
    by_member: Counter[str] = field(default_factory=Counter)

    def add(self, member: str, partition: str, messages: list[tuple[str | None, str | None, str]]) -> None:
        """Enter a batch: set, number and digest of each message."""
        arrived = self.partitions[partition]
        for set_name, number, digest in messages:
            if set_name is None or number is None:
                self._fault(f"{partition}: a message without its attributes, digest {digest}")
                continue
            index = (set_name, int(number))
            if expected(*index)[0] != digest:
                self._fault(f"{partition}: message {index} is not as it was sent")
            arrived.append(index)
            self.seen.add(index)
        self.by_member[member] += len(messages)

    def _fault(self, text: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(text)

    @property
    def repeats(self) -> int:
        """Messages that came again."""
        return sum(map(len, self.partitions.values())) - len(self.seen)


def compare(
    order: dict[str, list[Index]], got: Received, *, doubtful: set[Index], may_repeat: bool = False
) -> list[str]:
    """The differences; none means that every message came, as sent, in order, and no more often than allowed."""
    faults = list(got.faults)
    for partition, wanted in order.items():
        arrived = got.partitions.get(partition, [])
        first: dict[Index, None] = dict.fromkeys(arrived)
        lost = [index for index in wanted if index not in first]
        if lost:
            faults.append(f"{partition}: {len(lost)} of {len(wanted)} did not come, the first {lost[:3]}")
        strange = first.keys() - set(wanted) - doubtful
        if strange:
            faults.append(f"{partition}: {len(strange)} came that were not to, such as {sorted(strange)[:3]}")
        came = [index for index in first if index not in strange and index not in doubtful]
        if not lost and came != [index for index in wanted if index not in doubtful]:
            at = next(n for n, pair in enumerate(zip(came, wanted, strict=False)) if pair[0] != pair[1])
            faults.append(f"{partition}: out of order at {at}: {came[at : at + 3]} instead of {wanted[at : at + 3]}")
        repeated = [index for index, times in Counter(arrived).items() if times > 1 and index not in doubtful]
        if repeated and not may_repeat:
            faults.append(f"{partition}: {len(repeated)} came more than once, such as {repeated[:3]}")
    for partition in got.partitions.keys() - order.keys():
        if set(got.partitions[partition]) - doubtful:
            faults.append(f"{partition}: nothing was expected there")
    return faults[:MAX_FAULTS]
