"""`dedup=true`: messages that a sink marked, and that are in their partition twice, are returned once.

The sink's idempotent mode puts on each message who wrote it (`sink.identity`), the same on each try, and sends it to
the same partition each time. So it is decided within a partition whether a message is a duplicate: it is one if the
same identity is at most so many messages before the range that is read, or in the range before it. The invariant: the
decision follows from the log and the range alone. What a process remembers from the range before is what it would find
by looking back, so it only saves the reading.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.spark.sink.identity import BATCH, KEY, PART, QUERY, SEQUENCE
from pytubemq.spark.source.planning.plan import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from pytubemq.model.ids import Partition

    _Key = tuple[int, Hashable, Partition, int]

NEEDS: Final = ("attributes", "offset")
"""Columns by which duplicates are found."""
MAX_REMEMBERED: Final = 1_000_000
"""Identities that a process remembers of all partitions together, in about 200 MB."""


class Seen:
    """Identities of a partition's messages, with the offset where each was seen last."""

    def __init__(self) -> None:
        self._last: dict[str, int | None] = {}
        self.exact = True
        """True if every offset was known, so that what is too far back can be dropped."""

    def __len__(self) -> int:
        return len(self._last)

    def note(self, identities: Sequence[str | None], offsets: Sequence[int | None]) -> list[bool]:
        """Return which of these messages are new, and remember all of them."""
        last = self._last
        new: list[bool] = []
        for identity, offset in zip(identities, offsets, strict=True):
            if identity is None:
                new.append(True)
                continue
            if identity in last:
                new.append(False)
                del last[identity]  # so that the order stays that of the offsets
            else:
                new.append(True)
            last[identity] = offset
            if offset is None:
                self.exact = False
        return new

    def forget_before(self, offset: int) -> None:
        """Forget the messages before an offset."""
        gone = []
        for identity, at in self._last.items():
            if at is None or at >= offset:
                break
            gone.append(identity)
        for identity in gone:
            del self._last[identity]


def deduplicated(
    batches: Iterator[pa.RecordBatch],
    wanted: OffsetRange,
    *,
    scope: Hashable,
    look_back: Callable[[OffsetRange], Iterator[pa.RecordBatch]],
    rows: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a range without the rows that are duplicates.

    Args:
        batches: with the columns of `NEEDS` among them.
        wanted: the range that they are.
        scope: the cluster and whatever else decides what is read; partitions are remembered apart by it.
        look_back: reads another range of the same partition, with the columns of `NEEDS`; missing rows are left out.
        rows: how many messages before the range are looked at.
    """
    earliest = max(wanted.start - rows * OFFSET_UNIT, 0)
    key: _Key = os.getpid(), scope, wanted.partition, rows
    seen = _remembered.take(key, wanted.start)
    if seen is None:
        seen = Seen()
        if earliest < wanted.start:
            for batch in look_back(OffsetRange(wanted.partition, earliest, wanted.start)):
                _note(seen, batch)
    else:
        seen.forget_before(earliest)
    for batch in batches:
        new = _note(seen, batch)
        yield batch if all(new) else batch.filter(pa.array(new, pa.bool_()))
    if seen.exact:
        seen.forget_before(wanted.end - rows * OFFSET_UNIT)
        _remembered.put(key, wanted.end, seen)


def identities(attributes: Any) -> Any:
    """Extract the identity of each message, as one text; null for messages that have none.

    Args:
        attributes: the source's column, map<string,string>.
    """
    found = {name: pc.map_lookup(attributes, pa.scalar(name), "first") for name in (QUERY, BATCH, PART, SEQUENCE, KEY)}
    by_number = pc.binary_join_element_wise(found[QUERY], found[BATCH], found[PART], found[SEQUENCE], ".")
    by_key = pc.binary_join_element_wise(found[QUERY], found[BATCH], found[KEY], ":")
    return pc.coalesce(by_number, by_key)


def _note(seen: Seen, batch: pa.RecordBatch) -> list[bool]:
    return seen.note(identities(batch.column("attributes")).to_pylist(), batch.column("offset").to_pylist())


class _Remembered:
    """The state of partitions up to where this process read them, the longest unused first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[_Key, tuple[int, Seen]] = OrderedDict()

    def take(self, key: _Key, start: int) -> Seen | None:
        """Return the state of all before `start`, if exactly that is remembered; the caller owns it then."""
        with self._lock:
            end, seen = self._known.pop(key, (None, None))
        return seen if end == start else None

    def put(self, key: _Key, end: int, seen: Seen) -> None:
        """Remember what is known of all before `end`."""
        with self._lock:
            self._known[key] = end, seen
            total = sum(len(known) for _, known in self._known.values())
            while total > MAX_REMEMBERED and self._known:
                _, (_, oldest) = self._known.popitem(last=False)
                total -= len(oldest)


_remembered = _Remembered()
