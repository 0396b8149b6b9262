"""Records of messages: what stands between unwrapping a message and decoding what is in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytubemq.spark.decode.columns import Column
    from pytubemq.spark.decode.rejected import Rejection


@dataclass(slots=True)
class Records:
    """Records of some messages of one batch.

    `data` is a binary array; `rows` tells of each the message's row in the batch, in rising order (None: record i is
    message i, whole). `leading` are text arrays for the first columns, `extra` arrays for the
    wrapper's own columns, both a value for each record; `attributes` are the wrapper's, by record.
    """

    data: Any
    rows: Any = None
    leading: Sequence[Any] = ()
    extra: Sequence[Any] = ()
    attributes: Sequence[Mapping[str, str]] | None = None
    groups: Any = None
    """Of each record, the position in `attributes`."""
    rejections: list[Rejection] = field(default_factory=list)
    """Messages that were not taken apart."""


class Wrapper(Protocol):
    """Takes messages apart."""

    columns: tuple[Column, ...]
    """What it adds to each row."""
    needs: tuple[str, ...]

    def records(self, batch: Any, first_row: int) -> Iterator[Records]:
        """The records of a batch's messages, in bounded portions; rows are counted from `first_row`."""
        ...


def in_lines(records: Records, delimiter: str) -> Records:
    """Each record cut at a delimiter; what the last one ends is no record of its own."""
    mark = delimiter.encode()
    trimmed = records.data
    ended = pc.ends_with(trimmed, mark)
    if pc.any(ended).as_py():
        trimmed = pc.if_else(ended, pc.binary_slice(trimmed, 0, -len(mark)), trimmed)
    lists = pc.split_pattern(trimmed, mark)
    parents = pc.list_parent_indices(lists).cast(pa.int64())
    data = pc.list_flatten(lists)
    if delimiter == "\n":
        returns = pc.ends_with(data, b"\r")
        if pc.any(returns).as_py():
            data = pc.if_else(returns, pc.binary_slice(data, 0, -1), data)
    rows = parents if records.rows is None else pc.take(records.rows, parents)
    return Records(
        data=data,
        rows=rows,
        leading=[pc.take(each, parents) for each in records.leading],
        extra=[pc.take(each, parents) for each in records.extra],
        attributes=records.attributes,
        groups=None if records.groups is None else pc.take(records.groups, parents),
        rejections=records.rejections,
    )


def numbers_within(rows: Any) -> list[int]:
    """Of records in the order of their messages' rows, the number of each within its message, from 0."""
    numbers: list[int] = []
    last, number = -1, 0
    for row in rows.to_pylist():
        number = number + 1 if row == last else 0
        last = row
        numbers.append(number)
    return numbers
