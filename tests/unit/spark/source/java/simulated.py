"""A Java Broker's store in memory: one index for all partitions, fetches that end where they like, no message's offset.

It does what the original does: a registration's offset is moved into what is there, a fetch looks through some entries
and skips those of other partitions, and what was fetched counts when it is confirmed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytubemq.client.reader.range_group import FetchedRange, PartitionPosition
from pytubemq.errors import ConnectionLostError, NotRegisteredError, OccupiedError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.batch.checksum import check_sum
from pytubemq.wire.batch.stored import StoredMessage

if TYPE_CHECKING:
    from collections.abc import Callable


def record(number: int, payload: bytes | None = None) -> StoredMessage:
    """A message as a Java Broker tells it."""
    body = str(number).encode() if payload is None else payload
    return StoredMessage(number, check_sum(body), body, 0, None, None, None, None, None)


@dataclass
class Store:
    """The index of a store: which partition each entry belongs to, and its message."""

    entries: list[tuple[int, StoredMessage]] = field(default_factory=list)
    kept_from: int = 0
    owners: dict[str, object] = field(default_factory=dict)
    steps: Callable[[], int] = lambda: 3
    """How many entries the next fetch looks through."""
    before_call: Callable[[str], None] = lambda _: None
    """Called before each question; may change the store, or raise."""
    skips_rest: bool = False
    """Whether a fetch goes to the end at once where nothing of the partition follows, as in memory."""

    def append(self, partition_id: int, message: StoredMessage | None = None) -> None:
        self.entries.append((partition_id, message or record(len(self.entries))))

    def lose(self, entries: int) -> None:
        """Killed: what was in memory only is gone, and so is every registration."""
        del self.entries[len(self.entries) - entries :]
        self.owners.clear()

    @property
    def ends(self) -> tuple[int, int]:
        return self.kept_from * OFFSET_UNIT, len(self.entries) * OFFSET_UNIT

    def between(self, partition_id: int, start: int, end: int) -> list[int]:
        """The ids of a partition's messages in [start, end): the truth."""
        return [
            message.message_id
            for place, (owner, message) in enumerate(self.entries)
            if owner == partition_id and max(start, self.ends[0]) <= place * OFFSET_UNIT < end
        ]

    def hold(self, partition_id: int, group: str) -> SimulatedHold:
        return SimulatedHold(self, partition_id, group)


class SimulatedHold:
    """What `client.range_group.GroupRange` is at a real Broker."""

    def __init__(self, store: Store, partition_id: int, group: str) -> None:
        self._store = store
        self._partition_id = partition_id
        self._group = group
        self._at = 0
        self._broken = False

    async def begin(self, offset: int) -> PartitionPosition:
        self._call("begin")
        if self._store.owners.get(self._group, self) is not self:
            raise OccupiedError("another client holds it", code=410)
        self._store.owners[self._group] = self
        low, high = self._store.ends
        self._at = min(max(offset, low), high)
        return PartitionPosition(self._at, high)

    async def fetch(self) -> FetchedRange:
        self._call("fetch")
        store = self._store
        if store.owners.get(self._group) is not self:
            raise NotRegisteredError("it is not registered", code=411)
        low, high = store.ends
        start = max(self._at, low)
        first = start // OFFSET_UNIT
        seen = store.entries[first : first + max(store.steps(), 1)]
        records = tuple(message for owner, message in seen if owner == self._partition_id)
        end = start + len(seen) * OFFSET_UNIT
        if store.skips_rest and all(owner != self._partition_id for owner, _ in store.entries[first:]):
            end = high
        self._at = end
        return FetchedRange(records, start, end, high)

    async def end(self) -> None:
        if self._store.owners.get(self._group) is self:
            del self._store.owners[self._group]

    def _call(self, what: str) -> None:
        if self._broken:
            raise ConnectionLostError("the connection is gone")
        try:
            self._store.before_call(what)
        except ConnectionLostError:
            self._broken = True
            raise
