"""The choice of a topic's partition for each row.

The invariant: in idempotent mode it follows from the identity, the row and the list of partitions alone, not from what
works at the moment, so that a retry goes where the first try went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytubemq.model.ids import Partition
    from pytubemq.spark.sink.identity import Identity

STRIPE_ROWS: Final = 4096
"""So many rows of a task stay together: enough for a pack of usual messages."""


def for_key(key: bytes, partitions: Sequence[Partition]) -> Partition:
    """Return the partition of a key, as producers choose it: CRC-32 over all partitions, in order."""
    return partitions[crc32(key) % len(partitions)]


class Stripes:
    """Rows of a task that may go anywhere, by their number: stripe by stripe to one partition after the other."""

    def __init__(self, identity: Identity, partitions: Sequence[Partition]) -> None:
        self._partitions = partitions
        # tasks begin at different partitions, and small batches do not all go to the same one
        self._first = crc32(f"{identity.query}\0{identity.part}".encode()) + identity.batch

    def place(self, row: int) -> Partition:
        """Return the partition of the row with that number in its task."""
        return self._partitions[(self._first + row // STRIPE_ROWS) % len(self._partitions)]

    def divide(self, first: int, count: int) -> Iterator[tuple[Partition, range]]:
        """Divide `count` rows from number `first` on by where they go; rows are counted from 0."""
        at = 0
        while at < count:
            stop = min(count, ((first + at) // STRIPE_ROWS + 1) * STRIPE_ROWS - first)
            yield self.place(first + at), range(at, stop)
            at = stop
