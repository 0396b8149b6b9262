"""What a format makes of records, between the formats and the decoder."""

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
    """A record that the format cannot decode, by its position among the records given."""

    record: int
    detail: str


@dataclass(slots=True)
class Made:
    """Columns of equal length, and what was rejected.

    `records` tells of each row the record it came from; None: row i is record i, one for each.
    """

    arrays: list[Any]
    records: Any = None
    faults: list[Fault] = field(default_factory=list)


class RecordFormat(Protocol):
    """Makes columns of records."""

    columns: tuple[Column, ...]

    def decode(self, data: Any, *, leading: Sequence[Any] = ()) -> Made:
        """Rows of a binary array; `leading` are text arrays that already hold the first columns."""
        ...


def without(made: Made, bad_rows: Collection[int]) -> Made:
    """The same without some rows."""
    if not bad_rows:
        return made
    count = len(made.arrays[0])
    mask = pa.array([row not in bad_rows for row in range(count)], pa.bool_())
    records = made.records if made.records is not None else pa.array(range(count), pa.int64())
    return Made([pc.filter(each, mask) for each in made.arrays], pc.filter(records, mask), made.faults)


def merged(parts: Sequence[Made], kinds: Sequence[Any]) -> Made:
    """Parts that each tell their records, as one, in the order of the records."""
    faults = [fault for part in parts for fault in part.faults]
    filled = [part for part in parts if part.arrays and len(part.arrays[0])]
    if not filled:
        return Made([pa.nulls(0, kind) for kind in kinds], pa.array([], pa.int64()), faults)
    if len(filled) == 1:
        return Made(filled[0].arrays, filled[0].records, faults)
    records = pa.concat_arrays([part.records for part in filled])
    order = pc.sort_indices(records)
    arrays = [pc.take(pa.concat_arrays([part.arrays[at] for part in filled]), order) for at in range(len(kinds))]
    return Made(arrays, pc.take(records, order), faults)
