"""The result of an import: what it took, and what it did not.

The invariant: every message of the source is counted once: as taken, as damaged, or with its topic as left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.model.ids import STORE_BASE

if TYPE_CHECKING:
    from pathlib import Path


MAX_LISTED: Final = 10_000
"""Damaged places; those beyond are counted."""


class BadRecord(NamedTuple):
    """Something in a Java data file that was not taken."""

    path: Path
    position: int
    size_bytes: int
    what: str


@dataclass(slots=True)
class ImportedPartition:
    """One partition as it is in the store now; offsets begin at 0."""

    topic: str
    partition_id: int
    messages: int = 0
    size_bytes: int = 0
    first_time_ms: int | None = None
    last_time_ms: int | None = None
    times_lifted: int = 0
    """Messages that came before the one before them, and got its time."""


class ImportedPosition(NamedTuple):
    """A group's place in a partition, before and after."""

    group: str
    topic: str
    partition_id: int
    java_offset: int
    offset: int


@dataclass(slots=True)
class Imported:
    """The result of one import."""

    partitions: list[ImportedPartition] = field(default_factory=list)
    positions: list[ImportedPosition] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)
    """The first ones, at most MAX_LISTED."""
    bad_places: int = 0
    """The number of all of them."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Topics that were not taken, and why."""
    positions_left_out: int = 0
    """Positions in topics that were not taken."""

    @property
    def messages(self) -> int:
        """All that were taken."""
        return sum(partition.messages for partition in self.partitions)

    def topics(self) -> dict[str, tuple[int, int]]:
        """Return the settings that each topic needs: partitions in a store, and stores, as far as its messages show."""
        found: dict[str, tuple[int, int]] = {}
        for partition in self.partitions:
            # A Java partition's id is 10,000 times its store's number, plus its number in there.
            store, number = divmod(partition.partition_id, STORE_BASE)
            partitions, stores = found.get(partition.topic, (0, 0))
            found[partition.topic] = max(partitions, number + 1), max(stores, store + 1)
        return found
