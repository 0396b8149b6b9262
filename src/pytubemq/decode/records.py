"""Records of messages: the result of unwrapping, and the input of decoding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from pytubemq.decode.rejection import Rejection
from pytubemq.model.limits import MAX_RECORDS_PER_MESSAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytubemq.decode.columns import Column

LINES_REASON: Final = "decode.lines"


@dataclass(slots=True)
class Records:
    """Records of some messages of one batch.

    `data` is a binary array; `rows` has of each the message's row in the batch, in rising order (None: record i is
    message i, whole). `leading` are text arrays for the first columns, `extra` arrays for the
    wrapper's own columns, both a value for each record; `attributes` are the wrapper's, by record.
    """

    data: Any
    rows: Any = None
    leading: Sequence[Any] = ()
    extra: Sequence[Any] = ()
    attributes: Sequence[Mapping[str, str]] | None = None
    groups: Any = None
    """The position of each record in `attributes`."""
    first_number: int = 0
    """The number of the first record within its message, which may have begun in a portion before."""
    rejections: list[Rejection] = field(default_factory=list)
    """Messages that were not taken apart."""

    def part(self, begin: int, end: int) -> Records:
        """Return some of the records, with nothing rejected."""
        count = end - begin
        return Records(
            data=self.data.slice(begin, count),
            rows=None if self.rows is None else self.rows.slice(begin, count),
            leading=[each.slice(begin, count) for each in self.leading],
            extra=[each.slice(begin, count) for each in self.extra],
            attributes=self.attributes,
            groups=None if self.groups is None else self.groups.slice(begin, count),
        )


class Wrapper(Protocol):
    """Takes messages apart."""

    columns: tuple[Column, ...]
    """The columns that it adds to each row."""
    needs: tuple[str, ...]

    def records(self, batch: Any, first_row: int) -> Iterator[Records]:
        """Return the records of a batch's messages, in bounded portions; rows are counted from `first_row`."""
        ...


def in_lines(records: Records, delimiter: str, first_row: int) -> Iterator[Records]:
    """Cut each record at a delimiter, in portions of bounded count; what the last one ends is no record of its own.

    Where the records have no rows, they are counted from `first_row`. A record of more than `MAX_RECORDS_PER_MESSAGE`
    lines is rejected.
    """
    mark = delimiter.encode()
    if records.rows is None:
        records.rows = pa.array(range(first_row, first_row + len(records.data)), pa.int64())
    counts = pc.count_substring(records.data, mark).to_pylist()
    begun, lines = 0, 0
    for at, count in enumerate(counts):
        if count is None:
            records.rejections.append(Rejection(records.rows[at].as_py(), None, LINES_REASON, "there is no body", None))
            continue
        lines += count + 1
        if lines > MAX_RECORDS_PER_MESSAGE:
            yield _cut(records.part(begun, at), mark)
            begun, lines = at, count + 1
            if lines > MAX_RECORDS_PER_MESSAGE:
                detail = f"{lines} records, more than the {MAX_RECORDS_PER_MESSAGE} allowed"
                row, data = records.rows[at].as_py(), records.data[at].as_py()
                records.rejections.append(Rejection(row, None, LINES_REASON, detail, data))
                begun, lines = at + 1, 0
    last = _cut(records.part(begun, len(counts)), mark)
    last.rejections = records.rejections
    yield last


def _cut(records: Records, mark: bytes) -> Records:
    trimmed = records.data
    ended = pc.ends_with(trimmed, mark)
    if pc.any(ended).as_py():
        trimmed = pc.if_else(ended, pc.binary_slice(trimmed, 0, -len(mark)), trimmed)
    lists = pc.split_pattern(trimmed, mark)
    parents = pc.list_parent_indices(lists).cast(pa.int64())
    data = pc.list_flatten(lists)
    if mark == b"\n":
        returns = pc.ends_with(data, b"\r")
        if pc.any(returns).as_py():
            data = pc.if_else(returns, pc.binary_slice(data, 0, -1), data)
    return Records(
        data=data,
        rows=pc.take(records.rows, parents),
        leading=[pc.take(each, parents) for each in records.leading],
        extra=[pc.take(each, parents) for each in records.extra],
        attributes=records.attributes,
        groups=None if records.groups is None else pc.take(records.groups, parents),
    )


class Numbering:
    """The numbers of records within their messages, from 0, where a message's records come in several portions."""

    def __init__(self) -> None:
        self._row = -1
        self._next = 0

    def first(self, rows: Any) -> int:
        """Return the number of a portion's first record; to be called once for each portion, in order.

        `rows` are the rows of the records' messages, rising.
        """
        if rows is None or not len(rows):
            return 0
        begun, ended = rows[0].as_py(), rows[-1].as_py()
        first = self._next if begun == self._row else 0
        of_last = len(rows) - pc.index(rows, ended).as_py()
        self._row, self._next = ended, of_last + (first if begun == ended else 0)
        return first


def numbers_within(rows: Any, first: int = 0) -> list[int]:
    """Number each record within its message, for records in the order of their messages' rows.

    The first one is `first`.
    """
    numbers: list[int] = []
    last, number = -1, first
    for row in rows.to_pylist():
        number = number + 1 if row == last else (0 if numbers else first)
        last = row
        numbers.append(number)
    return numbers
