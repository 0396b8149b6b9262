"""The proof: the table that Spark wrote, compared with the source data.

The invariant: every difference counts as a mismatch and is named; a check that finds nothing to compare is a mismatch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Carrier:
    """A carrier's row of the chart, computed from the table that was written."""

    name: str
    flights: int
    mean_delay_min: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the comparison; `mismatches` has one sentence for each difference."""

    rows: int
    duplicates: int
    mismatches: tuple[str, ...]
    carriers: tuple[Carrier, ...]


def read_written(table: Path) -> Any:
    """Return the rows of a Parquet table in directories `batch=.../month=N`, as a `pyarrow.Table`."""
    if not table.is_dir():
        return pa.table({})
    directories = ds.partitioning(pa.schema([("batch", pa.string()), ("month", pa.int32())]), flavor="hive")
    found = ds.dataset(table, format="parquet", partitioning=directories).to_table()
    return found.drop_columns(["batch"]) if found.num_columns else found


def compare(source: Any, written: Any) -> Verdict:
    """Check the written rows against the source: their number, by carrier, their distance, and then row for row."""
    if written.num_columns == 0:
        return Verdict(0, 0, (f"rows: {source.num_rows:,} expected, no table was written",), ())
    distinct = written.group_by(["producer", "sequence"]).aggregate([]).num_rows
    duplicates = written.num_rows - distinct
    mismatches = [
        *_unequal("rows", source.num_rows, written.num_rows),
        *_carrier_mismatches(source, written),
        *_unequal("sum of distance", _total(source), _total(written)),
        *_unequal("duplicate rows", 0, duplicates),
    ]
    if source.num_rows == written.num_rows:
        mismatches += _row_mismatches(source, written)
    return Verdict(written.num_rows, duplicates, tuple(mismatches), _carriers(written))


def _unequal(what: str, expected: int, found: int) -> list[str]:
    return [] if expected == found else [f"{what}: {expected:,} expected, {found:,} found"]


def _total(table: Any) -> int:
    return int(pc.sum(table["distance"]).as_py() or 0)


def _by_carrier(table: Any) -> dict[str, int]:
    return {entry["values"]: entry["counts"] for entry in pc.value_counts(table["carrier"]).to_pylist()}


def _carrier_mismatches(source: Any, written: Any) -> list[str]:
    expected, found = _by_carrier(source), _by_carrier(written)
    return [
        mismatch
        for carrier in sorted(expected.keys() | found.keys(), key=str)
        for mismatch in _unequal(f"rows of carrier {carrier}", expected.get(carrier, 0), found.get(carrier, 0))
    ]


def _row_mismatches(source: Any, written: Any) -> list[str]:
    """Return the differences row by row; the sequence number of a message is its row in the source."""
    ordered = written.sort_by("sequence")
    mismatches = []
    for name in source.column_names:
        theirs = source[name].combine_chunks()
        ours = ordered[name].cast(theirs.type).combine_chunks()
        if not ours.equals(theirs):
            differ = pc.or_kleene(pc.not_equal(ours, theirs), pc.xor(ours.is_null(), theirs.is_null()))
            count = pc.sum(differ).as_py()
            first = pc.index(differ, True).as_py()
            mismatches.append(
                f"column {name}: {count:,} rows differ, the first is row {first}: "
                f"{theirs[first].as_py()!r} expected, {ours[first].as_py()!r} found"
            )
    return mismatches


def _carriers(written: Any) -> tuple[Carrier, ...]:
    groups = written.group_by("carrier").aggregate([("carrier", "count"), ("dep_delay", "mean")])
    rows = [
        Carrier(row["carrier"], row["carrier_count"], row["dep_delay_mean"] or 0.0)
        for row in groups.to_pylist()
        if row["carrier"] is not None
    ]
    return tuple(sorted(rows, key=lambda carrier: -carrier.flights))
