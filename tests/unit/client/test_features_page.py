"""The page of features: all rows, and no mark without a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/reference/features.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| feature")
]


def test_there_are_24_features() -> None:
    assert len(ROWS) == 24
    assert len({row[0] for row in ROWS}) == 24


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_mark_stands_only_beside_a_test_that_is_there(row: list[str]) -> None:
    _, mark, how, shown = row
    assert mark in ("✔", "in part", "no")
    assert how
    named = re.findall(r"`(tests/[\w/.]+)::(\w+)`", shown)
    assert bool(named) == (mark != "no")
    for path, name in named:
        assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), name
