"""The queue of a sender, with the number of its messages and their bytes.

The invariant: the two counts are those of what is in the queue, and the messages of a partition leave it in order,
except those that `take_all` selects.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.model.limits import MAX_RECORD_BATCH_BYTES, MAX_RECORD_BATCH_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytubemq.client.producer.messages.record_batch import RecordBatch
    from pytubemq.model.ids import Partition


class DueBatches(NamedTuple):
    """Batches that were taken out of the queue."""

    ready: list[RecordBatch]
    """Those to send, at most one for neighbours of a partition that are alike."""
    unwanted: list[RecordBatch]
    """Those whose results nobody waits for."""


class SendQueue:
    """Batches that wait to be sent, in order."""

    __slots__ = ("_batches", "messages", "size_bytes")

    def __init__(self) -> None:
        self._batches: deque[RecordBatch] = deque()
        self.messages = 0
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    def __iter__(self) -> Iterator[RecordBatch]:
        return iter(self._batches)

    def append(self, batch: RecordBatch) -> None:
        """Add a batch at the end."""
        self._batches.append(batch)
        self.messages += batch.count
        self.size_bytes += batch.size_bytes

    def put_back(self, batches: Sequence[RecordBatch]) -> None:
        """Put batches back in front, in the order given."""
        self._batches.extendleft(reversed(batches))
        for batch in batches:
            self.messages += batch.count
            self.size_bytes += batch.size_bytes

    def clear(self) -> list[RecordBatch]:
        """Remove and return all batches."""
        left, self._batches = list(self._batches), deque()
        self.messages = self.size_bytes = 0
        return left

    def take_all(self, wanted: Callable[[RecordBatch], bool]) -> list[RecordBatch]:
        """Remove and return the batches that `wanted` selects; of one with cancelled messages, parts of it."""
        ready: list[RecordBatch] = []
        kept: deque[RecordBatch] = deque()
        for batch in self._batches:
            for part in batch.split_by_wanted() if batch.is_partly_unwanted else (batch,):
                (ready if wanted(part) else kept).append(part)
        if ready:
            self._batches = kept
            self._subtract(ready)
        return ready

    def take_request(self) -> DueBatches:
        """Remove what fits into one request of record batches."""
        due = self._take(MAX_RECORD_BATCH_MESSAGES, MAX_RECORD_BATCH_BYTES)
        if not due.ready and self._batches:  # a message that is larger than a batch should be
            due.ready.append(self._batches.popleft())
            self._subtract(due.ready)
        return due

    def take_messages(self, max_messages: int) -> DueBatches:
        """Remove the first messages, at most `max_messages`."""
        due = self._take(max_messages, None)
        left = max_messages - sum(batch.count for batch in due.ready)
        if left and self._batches:
            # Single messages leave as far as there is room; a batch need not fit as a whole.
            due.ready.append(self._split_first(left))
        return due

    def _take(self, max_messages: int, max_bytes: int | None) -> DueBatches:
        """Remove the first batches that fit; neighbours of a partition are merged."""
        batches = self._batches
        due = DueBatches([], [])
        latest: dict[Partition, RecordBatch] = {}
        messages = size_bytes = 0
        while batches:
            batch = batches[0]
            # Looked at as it leaves, so that cancelling a message costs nothing.
            if batch.is_partly_unwanted:
                batches.popleft()
                if batch.is_unwanted:
                    due.unwanted.append(batch)
                    self._subtract((batch,))
                else:
                    # The parts take its place, and each is looked at again.
                    batches.extendleft(reversed(batch.split_by_wanted()))
                continue
            messages += batch.count
            size_bytes += batch.size_bytes
            if messages > max_messages or (max_bytes is not None and size_bytes > max_bytes):
                break
            batches.popleft()
            self._subtract((batch,))
            # The one before of the same partition, with those of others perhaps between them in the queue.
            before = latest.get(batch.partition)
            if before is None or not before.merge(batch):
                latest[batch.partition] = batch
                due.ready.append(batch)
        return due

    def _split_first(self, count: int) -> RecordBatch:
        """Remove the first messages of the first batch, which has more."""
        first = self._batches[0]
        head = first.part(0, count)
        self._batches[0] = first.part(count, first.count)
        first.mark_sent()  # before its other half, which must not go elsewhere now
        self._subtract((head,))
        return head

    def _subtract(self, batches: Iterable[RecordBatch]) -> None:
        for batch in batches:
            self.messages -= batch.count
            self.size_bytes -= batch.size_bytes
