"""Repeats in a partition: each identity once, however the log is cut into ranges and whoever reads them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.model.ids import Partition
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.spark.source.planning.plan import OffsetRange
from pytubemq.spark.source.read.dedup import deduplicated, identities

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITION = Partition(1, "demo", 0)
MAP = pa.map_(pa.string(), pa.string())


class Log:
    """A partition: one message for each number, the same number being a repeat; None is a message without identity."""

    def __init__(self, numbers: list[int | None], *, tells_offsets: bool = True) -> None:
        self._numbers = numbers
        self._tells_offsets = tells_offsets
        self.read: list[OffsetRange] = []

    def batches(self, wanted: OffsetRange, rows: int = 7) -> Iterator[Any]:
        self.read.append(wanted)
        for start in range(wanted.start // OFFSET_UNIT, wanted.end // OFFSET_UNIT, rows):
            stop = min(start + rows, wanted.end // OFFSET_UNIT)
            some = self._numbers[start:stop]
            offsets = [n * OFFSET_UNIT if self._tells_offsets else None for n in range(start, stop)]
            maps = [None if n is None else {"qid": "q", "bid": "1", "pid": "0", "seq": str(n), "x": "y"} for n in some]
            yield pa.RecordBatch.from_pydict(
                {
                    "n": pa.array([-1 if n is None else n for n in some], pa.int64()),
                    "attributes": pa.array([None if m is None else list(m.items()) for m in maps], MAP),
                    "offset": pa.array(offsets, pa.int64()),
                }
            )

    def seen(self, start: int, stop: int, *, rows: int, scope: object) -> list[int]:
        wanted = OffsetRange(PARTITION, start * OFFSET_UNIT, stop * OFFSET_UNIT)
        found: list[int] = []
        for batch in deduplicated(self.batches(wanted), wanted, scope=scope, look_back=self.batches, rows=rows):
            found += batch.column("n").to_pylist()
        return found


@given(st.data())
def test_the_same_rows_are_new_whether_a_process_remembers_or_looks_back(data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.one_of(st.none(), st.integers(0, 12)), min_size=1, max_size=60))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(numbers)), max_size=5)) | {0, len(numbers)})
    rows = data.draw(st.integers(1, 70))
    log = Log(numbers)
    ranges = list(pairwise(cuts))
    one = object()
    remembering = [log.seen(start, stop, rows=rows, scope=one) for start, stop in ranges]
    for n, (start, stop) in enumerate(ranges):
        assert log.seen(start, stop, rows=rows, scope=object()) == remembering[n]
        for at, number in enumerate(numbers[start:stop], start):
            before = numbers[max(0, start - rows) : at]
            assert (number is None or number not in before) or remembering[n].count(number) <= 1
    if rows >= len(numbers):
        flat = [number for part in remembering for number in part if number != -1]
        assert sorted(flat) == sorted({number for number in numbers if number is not None})
    assert sum(part.count(-1) for part in remembering) == numbers.count(None)


def test_a_process_that_read_what_lies_before_does_not_look_back() -> None:
    log, one = Log([1, 2, 2, 3, 1, 4]), object()
    assert log.seen(0, 3, rows=10, scope=one) == [1, 2]
    assert log.seen(3, 6, rows=10, scope=one) == [3, 4]
    assert [(part.start, part.end) for part in log.read] == [(0, 84), (84, 168)]
    assert log.seen(3, 6, rows=10, scope=object()) == [3, 4]
    assert [(part.start, part.end) for part in log.read[2:]] == [(0, 84), (84, 168)]


def test_where_offsets_are_not_told_it_looks_back_each_time() -> None:
    log, one = Log([1, 2, 2, 3, 1, 4], tells_offsets=False), object()
    assert log.seen(0, 3, rows=10, scope=one) == [1, 2]
    assert log.seen(3, 6, rows=10, scope=one) == [3, 4]
    assert [(part.start, part.end) for part in log.read] == [(0, 84), (0, 84), (84, 168)]


def test_what_lies_further_back_than_asked_for_is_not_known() -> None:
    assert Log([1, 2, 1, 2]).seen(2, 4, rows=1, scope=object()) == [1]


def test_an_identity_is_by_number_or_by_key_and_whole() -> None:
    maps = [
        {"qid": "q", "bid": "1", "pid": "2", "seq": "3"},
        {"qid": "q", "bid": "1", "kid": "k"},
        {"qid": "q", "bid": "1"},
        {"n": "1"},
    ]
    column = pa.array([*(list(each.items()) for each in maps), None], MAP)
    assert json.dumps(identities(column).to_pylist()) == '["q.1.2.3", "q:1:k", null, null, null]'
