"""The demo as a user runs it: real cluster, real data, real Spark; and the same while the Broker is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.scenario, pytest.mark.spark, pytest.mark.timeout(300)]


def run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytubemq", "demo", *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        env=os.environ | {"COLUMNS": "120"},
        check=False,
    )


def last_object(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_rows_in_are_rows_out(tmp_path: Path) -> None:
    found = last_object(run_demo("--rows", "5000", "--json", "--data", str(tmp_path)))
    assert list(found) == [
        "rows_produced",
        "rows_written",
        "duplicates",
        "mismatches",
        "produce_msgs_per_s",
        "spark_rows_per_s",
        "first_message_s",
        "total_s",
    ]
    assert (found["rows_produced"], found["rows_written"]) == (5000, 5000)
    assert (found["duplicates"], found["mismatches"]) == (0, 0)
    assert all(found[rate] > 0 for rate in ("produce_msgs_per_s", "spark_rows_per_s", "first_message_s", "total_s"))
    months = {path.name for path in (tmp_path / "run-1" / "table").glob("batch=*/month=*")}
    assert "month=1" in months
    page = (tmp_path / "run-1" / "report.html").read_text("utf-8")
    assert "5,000" in page
    assert "exactly once" in page


def test_killing_the_broker_changes_nothing() -> None:
    found = last_object(run_demo("--rows", "20000", "--chaos", "-o", "json"))
    assert (found["rows_produced"], found["rows_written"]) == (20000, 20000)
    assert (found["duplicates"], found["mismatches"]) == (0, 0)
    assert found["kills"] == 3
    assert found["repeats"] >= 0


def test_the_report_fits_a_screen_and_says_how_to_go_on(tmp_path: Path) -> None:
    ended = run_demo("--rows", "2000", "--data", str(tmp_path / "new" / "directory"))
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert len(lines) + len(ended.stderr.splitlines()) <= 30
    assert lines[-1].startswith("Next:  pytubemq ")
    assert lines[-2] == f"Report {tmp_path / 'new' / 'directory' / 'run-1' / 'report.html'}"
    assert any(line.startswith("UA ") and "█" in line for line in lines)


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ended = run_demo("--rows", "10", "--data", str(tmp_path / "file" / "below"))
    assert ended.returncode != 0
    assert str(tmp_path / "file" / "below") in ended.stderr
    assert "--data" in ended.stderr
