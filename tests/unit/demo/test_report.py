"""The report: at most 30 lines in all, the last one a command; JSON with the names that scripts rely on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytubemq.demo.report import Measured, bar, print_json, print_report
from pytubemq.demo.verify import Carrier, Verdict

BAR_LINES = 3


def measured(*mismatches: str, kills: int | None = None, carriers: int = 16) -> Measured:
    rows = tuple(Carrier(f"C{n}", 1000 - n, 12.5 - n) for n in range(carriers))
    return Measured(
        rows_produced=336_776,
        produce_msgs_per_s=61_234.5,
        first_message_s=0.12345,
        spark_rows_per_s=20_000.4,
        spark_start_s=5.0,
        batches=4,
        total_s=61.23,
        repeats=17,
        kills=kills,
        verdict=Verdict(336_776, 0, mismatches, rows),
        report=Path("/tmp/pytubemq-demo-report-k3v9q2xw/report.html"),
    )


@pytest.mark.parametrize("kills", [None, 3])
@pytest.mark.parametrize("wrong", [0, 1, 40])
def test_the_report_is_short_and_ends_with_a_command(
    capsys: pytest.CaptureFixture[str], kills: int | None, wrong: int
) -> None:
    found = measured(*[f"rows of carrier C{n}: 1 expected, 0 found" for n in range(wrong)], kills=kills, carriers=30)
    print_report(found, color=False, next_command="pytubemq dev")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) + BAR_LINES <= 30
    assert lines[-1] == "Next:  pytubemq dev"
    assert any("MISMATCH" in line for line in lines) == bool(wrong)


def test_json_is_one_line_with_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(measured(kills=3))
    text = capsys.readouterr().out
    assert text.count("\n") == 1
    assert json.loads(text) == {
        "rows_produced": 336_776,
        "rows_written": 336_776,
        "duplicates": 0,
        "mismatches": 0,
        "produce_msgs_per_s": 61_234,
        "spark_rows_per_s": 20_000,
        "first_message_s": 0.123,
        "total_s": 61.2,
        "kills": 3,
        "repeats": 17,
    }


def test_a_bar_is_as_long_as_its_value() -> None:
    assert bar(10, 10, 4) == "████"
    assert bar(5, 10, 4) == "██"
    assert bar(0.1, 10, 4) == "▏"
    assert bar(-1, 10, 4) == ""
    assert bar(1, 0, 4) == ""
