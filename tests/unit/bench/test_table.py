"""The table in which a comparison ends."""

from __future__ import annotations

from bench.harness.decisions import Row, at_least, at_most, failed_row
from bench.harness.table import summary, table

ROWS = [
    Row("single", "ours : java", "msg/s", 100_000.0, 50_000.0, at_least(2.0), "cores: 1.2\nno failures"),
    Row("latency", "p50", "ms", 2.5, 1.4, at_most(2.0)),
    Row("workers", "2 : 1", "msg/s", 150.0, 100.0),
]


def test_the_table_has_a_line_for_every_row_and_its_notes_below_it() -> None:
    lines = table(ROWS).splitlines()
    assert lines[2].startswith("single ")
    assert lines[3:5] == ["    cores: 1.2", "    no failures"]
    assert lines[5].startswith("latency ")
    assert lines[6].startswith("workers ")


def test_a_line_shows_figures_ratio_target_and_verdict() -> None:
    shown = table(ROWS).splitlines()
    single, latency, workers = (shown[at].split() for at in (2, 5, 6))
    assert single[-5:] == ["2.00", ">=", "2", "x", "yes"]
    assert latency[-5:] == ["1.79", "<=", "2", "ms", "NO"]
    assert workers[-3:] == ["1.50", "-", "-"]


def test_columns_stand_below_each_other() -> None:
    lines = [line for line in table(ROWS).splitlines() if line.startswith(("measure", "single", "latency", "workers"))]
    at = lines[0].index("unit")
    assert [line[at - 2 : at] for line in lines] == ["  "] * 4


def test_the_summary_counts_targets_and_names_each_missed_measure_once() -> None:
    assert summary(ROWS) == "1 of 2 targets met; missed in: latency"
    assert summary(ROWS[:1]) == "1 of 1 targets met"
    assert summary([*ROWS, failed_row("latency", "x")]) == "1 of 3 targets met; missed in: latency"
