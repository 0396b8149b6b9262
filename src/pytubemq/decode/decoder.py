"""Decoding of a batch of messages to typed columns and rejected records.

The invariant: every record is a row (or, for a change log, some rows) or is rejected, never both, and the order of rows
is the order of records. A decoder is pickled as the arguments that it was built from, so its parts need not be
picklable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pytubemq.decode.arrow_types import arrow_schema_of
from pytubemq.decode.dead_letter_columns import DEAD_LETTER_ARROW, dead_letter_batch
from pytubemq.decode.records import Numbering, Records, in_lines, numbers_within
from pytubemq.decode.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytubemq.decode.columns import Column
    from pytubemq.decode.record_format import Fault, RecordFormat
    from pytubemq.decode.records import Wrapper

PIECE_BYTES: Final = 16 * 1024 * 1024
"""Bodies decoded together: enough for Arrow's speed, little enough for a worker's memory."""

KEPT_BYTES: Final = 64 * 1024 * 1024
"""Columns kept beside the decoded ones, in the rows returned together: each record repeats its message's."""
_PAIR_BYTES: Final = 32
"""The size at which a key of a map is estimated."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result of a batch."""

    rows: pa.RecordBatch
    """The decoded columns, then those kept."""
    rejected: pa.RecordBatch
    """As `DEAD_LETTER_ARROW`."""
    rejected_rows: pa.Array
    """The row of each rejected record's message in the batch."""


class Decoder:
    """Decodes batches by one format and its options; built by `make_decoder`."""

    def __init__(
        self,
        arguments: tuple[Any, ...],
        name: str,
        record_format: RecordFormat,
        *,
        wrapper: Wrapper | None = None,
        line_delimiter: str | None = None,
        remake: Callable[..., Decoder],
    ) -> None:
        self._arguments = arguments
        self._remake = remake
        self._reason = f"decode.{name}"
        self._format = record_format
        self._wrapper = wrapper
        self._line_delimiter = line_delimiter
        self.columns: tuple[Column, ...] = record_format.columns + (wrapper.columns if wrapper else ())
        """The decoded columns."""
        self.needs: tuple[str, ...] = wrapper.needs if wrapper else ("body",)
        """The source's columns that decoding reads."""
        self._arrow = arrow_schema_of(self.columns)

    def __reduce__(self) -> Any:
        return self._remake, self._arguments

    def decode(self, batch: pa.RecordBatch, *, keep: Sequence[str] = ()) -> Decoded:
        """Decode a whole batch. `keep` names columns of the batch that stay, a value for each row.

        Decompressed messages can be many times the batch; `pieces` bounds the memory.
        """
        done = list(self.pieces(batch, keep=keep))
        if len(done) == 1:
            return done[0]
        return Decoded(
            _concatenated([each.rows for each in done], self._schema_with(batch, keep)),
            _concatenated([each.rejected for each in done], DEAD_LETTER_ARROW),
            pa.concat_arrays([pa.array([], pa.int64()), *(each.rejected_rows for each in done)]),
        )

    def for_records(self) -> Decoder:
        """Return a decoder of records that were taken out of messages before: of rejected ones at the stage `record`.

        Its batches have a record in `body` and, of InLongMsg, the record's attributes in `attributes`.
        """
        return self._remake(*self._arguments, records=True)

    def pieces(self, batch: pa.RecordBatch, *, keep: Sequence[str] = ()) -> Iterator[Decoded]:
        """Decode a batch in portions of bounded size; their rows together are those of `decode`."""
        schema = self._schema_with(batch, keep)
        numbering = Numbering()
        for first, part in _parts(batch):
            for records in self._records(part, first):
                records.first_number = numbering.first(records.rows)
                yield from self._decode_records(batch, records, schema, keep, first, len(part))

    def _records(self, part: Any, first: int) -> Iterator[Records]:
        found = iter([_plain(part)]) if self._wrapper is None else self._wrapper.records(part, first)
        for records in found:
            if self._line_delimiter is None:
                yield records
            else:
                yield from in_lines(records, self._line_delimiter, first)

    def _decode_records(
        self, batch: Any, records: Records, schema: Any, keep: Sequence[str], first: int, count: int
    ) -> Iterator[Decoded]:
        result = self._format.decode(records.data, leading=records.leading)
        extra = records.extra if result.records is None else [pc.take(each, result.records) for each in records.extra]
        arrays = [*result.arrays, *extra]
        rejections = [*records.rejections, *self._rejections(records, result.faults, first)]
        rejections.sort(key=lambda each: each.row)
        rejected = dead_letter_batch(rejections, batch) if rejections else _NONE_REJECTED
        rejected_rows = pa.array([each.row for each in rejections], pa.int64())
        rows = _rows(records.rows, result.records, first)
        for begin, length in _cuts(batch, keep, rows, len(arrays[0])):
            part = [each.slice(begin, length) for each in arrays]
            if rows is None:
                part += [batch.column(name).slice(first, count) for name in keep]
            else:
                part += [pc.take(batch.column(name), rows.slice(begin, length)) for name in keep]
            yield Decoded(pa.RecordBatch.from_arrays(part, schema=schema), rejected, rejected_rows)
            rejected, rejected_rows = _NONE_REJECTED, pa.array([], pa.int64())

    def _rejections(self, records: Records, faults: Sequence[Fault], first: int) -> Iterator[Rejection]:
        if not faults:
            return
        numbers = None if records.rows is None else numbers_within(records.rows, records.first_number)
        for fault in sorted(faults, key=lambda each: each.record):
            at = fault.record
            yield Rejection(
                row=first + at if records.rows is None else records.rows[at].as_py(),
                record=None if numbers is None else numbers[at],
                reason=self._reason,
                detail=fault.detail,
                raw=records.data[at].as_py(),
                attributes=None if records.attributes is None else records.attributes[records.groups[at].as_py()],
            )

    def _schema_with(self, batch: Any, keep: Sequence[str]) -> Any:
        return pa.schema([*self._arrow, *(batch.schema.field(name) for name in keep)])


_NONE_REJECTED: Final = pa.RecordBatch.from_pylist([], DEAD_LETTER_ARROW)


def _plain(part: Any) -> Records:
    data = part.column("body")
    if not pa.types.is_binary(data.type):
        data = data.cast(pa.binary())
    return Records(data)


def _parts(batch: Any) -> Iterator[tuple[int, Any]]:
    """Yield the batch in parts of about `PIECE_BYTES` of bodies, each with the row that it begins at."""
    size = batch.column("body").nbytes
    if size <= PIECE_BYTES or len(batch) < 2:
        yield 0, batch
        return
    step = max(1, len(batch) * PIECE_BYTES // size)
    for first in range(0, len(batch), step):
        yield first, batch.slice(first, step)


def _rows(rows: Any, records: Any, first: int) -> Any:
    """Return the message's row in the batch for each decoded row; None: every message has one row, in order."""
    if rows is None:
        return None if records is None else pc.add(records, first)
    return rows if records is None else pc.take(rows, records)


def _cuts(batch: Any, keep: Sequence[str], rows: Any, count: int) -> Iterator[tuple[int, int]]:
    """Yield begin and length of portions of the rows, as each record repeats the kept columns of its message."""
    costs = None if rows is None else _costs(batch, keep)
    if costs is None or not count:
        yield 0, count
        return
    of_rows = pc.take(costs, rows)
    if pc.sum(of_rows).as_py() <= KEPT_BYTES:
        yield 0, count
        return
    begin = size = 0
    for at, cost in enumerate(of_rows.to_pylist()):
        size += cost
        if size > KEPT_BYTES and at > begin:
            yield begin, at - begin
            begin, size = at, cost
    yield begin, count - begin


def _costs(batch: Any, keep: Sequence[str]) -> Any:
    """Estimate the bytes of the kept columns of varying size in each row of the batch; None: there are none."""
    total = None
    for name in keep:
        column = batch.column(name)
        if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
            size = pc.binary_length(column)
        elif pa.types.is_map(column.type):
            maps = pa.ListArray.from_arrays(column.offsets, pc.binary_length(column.items)).to_pylist()
            size = pa.array([sum(each or 0 for each in lengths) + _PAIR_BYTES * len(lengths) for lengths in maps])
        else:
            continue
        size = pc.fill_null(size.cast(pa.int64()), 0)
        total = size if total is None else pc.add(total, size)
    return total


def _concatenated(batches: Sequence[Any], schema: Any) -> Any:
    table = pa.Table.from_batches(batches, schema).combine_chunks()
    found = table.to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema)
