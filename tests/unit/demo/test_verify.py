"""The demo's proof must catch what it is there to catch: each kind of damage is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from pytubemq.demo.verify import Carrier, compare, read_written

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = pa.table(
    {
        "month": pa.array([1, 1, 2, 2], pa.int64()),
        "carrier": ["UA", "UA", "AA", "B6"],
        "dep_delay": pa.array([2, 4, None, -3], pa.int64()),
        "distance": pa.array([100, 200, 300, 400], pa.int64()),
    }
)


def written(rows: list[int], **changes: pa.Array) -> pa.Table:
    """The given rows of the source as Spark would have written them, in another order and with some columns changed."""
    table = SOURCE.append_column("sequence", pa.array(range(4), pa.int64()))
    table = table.append_column("producer", pa.array(["p"] * 4)).take(rows)
    for name, values in changes.items():
        table = table.set_column(table.column_names.index(name), name, values)
    return table


def test_the_same_rows_in_another_order_are_right() -> None:
    verdict = compare(SOURCE, written([2, 0, 3, 1]))
    assert verdict.mismatches == ()
    assert (verdict.rows, verdict.duplicates) == (4, 0)
    assert verdict.carriers[0] == Carrier("UA", 2, 3.0)


def test_a_missing_row_is_named_by_count_carrier_and_distance() -> None:
    verdict = compare(SOURCE, written([0, 1, 2]))
    assert verdict.mismatches == (
        "rows: 4 expected, 3 found",
        "rows of carrier B6: 1 expected, 0 found",
        "sum of distance: 1,000 expected, 600 found",
    )


def test_a_row_that_stands_twice_is_a_duplicate() -> None:
    verdict = compare(SOURCE, written([0, 1, 2, 3, 3]))
    assert verdict.duplicates == 1
    assert "duplicate rows: 0 expected, 1 found" in verdict.mismatches


def test_a_row_lost_and_another_twice_does_not_even_out() -> None:
    verdict = compare(SOURCE, written([0, 0, 2, 3]))
    assert verdict.duplicates == 1
    assert any(mismatch.startswith("sum of distance") for mismatch in verdict.mismatches)


def test_a_changed_value_is_found_in_its_column_and_row() -> None:
    verdict = compare(SOURCE, written([0, 1, 2, 3], dep_delay=pa.array([2, 5, None, -3], pa.int64())))
    assert verdict.mismatches == ("column dep_delay: 1 rows differ, the first is row 1: 4 expected, 5 found",)


def test_a_null_that_should_be_a_value_is_found() -> None:
    verdict = compare(SOURCE, written([0, 1, 2, 3], dep_delay=pa.array([None, 4, 0, -3], pa.int64())))
    assert verdict.mismatches == ("column dep_delay: 2 rows differ, the first is row 0: 2 expected, None found",)


def test_no_table_at_all_is_a_mismatch(tmp_path: Path) -> None:
    verdict = compare(SOURCE, read_written(tmp_path / "none"))
    assert verdict.mismatches == ("rows: 4 expected, no table was written",)


def test_the_table_is_read_from_the_directories_of_whole_batches_and_no_others(tmp_path: Path) -> None:
    table = written([0, 1, 2, 3])
    for batch, month in (("batch=q1-000000", 1), ("batch=q1-000001", 2), ("_staging/q1-000002", 2)):
        directory = tmp_path / "a table" / batch / f"month={month}"
        directory.mkdir(parents=True)
        rows = [index for index in range(4) if table["month"][index].as_py() == month]
        pq.write_table(table.take(rows).drop_columns(["month"]), directory / "part.parquet")
    (tmp_path / "a table" / "_schema.json").write_text("{}")
    assert compare(SOURCE, read_written(tmp_path / "a table")).mismatches == ()
