"""The port of a format: an array of records in, columns and faults out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytubemq.decode.columns import Column


@dataclass(frozen=True, slots=True)
class Fault:
    """A record that the format cannot decode, by its position in the array."""

    record: int
    detail: str


@dataclass(slots=True)
class FormatResult:
    """Columns of equal length, and the records that were rejected.

    `records` is the record that each row came from; None: row i is record i, one for each.
    """

    arrays: list[Any]
    records: Any = None
    faults: list[Fault] = field(default_factory=list)


class RecordFormat(Protocol):
    """Decodes records to columns."""

    columns: tuple[Column, ...]

    def decode(self, data: Any, *, leading: Sequence[Any] = ()) -> FormatResult:
        """Decode a binary array of records; `leading` are text arrays with the first columns already."""
        ...


def without(result: FormatResult, bad_rows: Collection[int]) -> FormatResult:
    """Return a result without some of its rows."""
    if not bad_rows:
        return result
    count = len(result.arrays[0])
    mask = pa.array([row not in bad_rows for row in range(count)], pa.bool_())
    records = result.records if result.records is not None else pa.array(range(count), pa.int64())
    return FormatResult([pc.filter(each, mask) for each in result.arrays], pc.filter(records, mask), result.faults)


def merged(parts: Sequence[FormatResult], kinds: Sequence[Any]) -> FormatResult:
    """Join results that have `records` into one, in the order of the records."""
    faults = [fault for part in parts for fault in part.faults]
    filled = [part for part in parts if part.arrays and len(part.arrays[0])]
    if not filled:
        return FormatResult([pa.nulls(0, kind) for kind in kinds], pa.array([], pa.int64()), faults)
    if len(filled) == 1:
        return FormatResult(filled[0].arrays, filled[0].records, faults)
    records = pa.concat_arrays([part.records for part in filled])
    order = pc.sort_indices(records)
    arrays = [pc.take(pa.concat_arrays([part.arrays[at] for part in filled]), order) for at in range(len(kinds))]
    return FormatResult(arrays, pc.take(records, order), faults)
