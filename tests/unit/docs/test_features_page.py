"""The page of features: what the data and the run say, all rows, and no mark without what shows it."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from tests.interop.features import (
    CLIENTS,
    MARKS,
    RESULTS,
    SHOWN,
    Cell,
    Claim,
    PageError,
    Results,
    _claim,
    dump_results,
    every_cell,
    failed,
    load_features,
    load_results,
    mark,
    page,
    results_of,
)
from tests.interop.rows import ROWS, columns_of
from tests.interop.system import COLUMNS

ROOT = Path(__file__).parents[3]
FEATURES = load_features()
CLAIMS = [
    pytest.param(one.claims[client], id=f"{CLIENTS[client]}: {one.name}") for one in FEATURES for client in CLIENTS
]
NODE = re.compile(r"(tests/[\w/]+\.py)::(\w+)")


def a_run() -> list[dict[str, Any]]:
    """A whole run as the tests write it, all passed."""
    return [
        {"row": row, "column": column, "passed": True, "seconds": 12.3, "numbers": {"messages": 7}, "error": ""}
        for row, column in every_cell()
    ]


def test_there_are_24_features() -> None:
    assert len({one.name for one in FEATURES}) == len(FEATURES) == 24


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_mark_stands_only_beside_what_shows_it(claim: Claim) -> None:
    assert claim.mark in MARKS
    assert bool(claim.shown) == (claim.mark in SHOWN)
    assert claim.how or claim.mark == "not shown"
    assert set(claim.rows) <= set(ROWS)
    for test in claim.tests:
        found = NODE.fullmatch(test)
        assert found is not None, test
        path, name = found.groups()
        source = (ROOT / path).read_text("utf-8")
        assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), test


def test_java_marks_rest_on_the_official_client_and_other_marks_on_no_row_of_it() -> None:
    for one in FEATURES:
        claims = one.claims
        assert claims["java"].mark not in SHOWN or claims["java"].rows
        assert not claims["cpp"].rows
        assert not claims["go"].rows
        for client in ("cpp", "go"):
            assert all(test.startswith("tests/scenario/peers/") for test in claims[client].tests)
        assert not any(row.startswith("Java ") for row in claims["pytubemq"].rows)
        assert not any(row.startswith("pytubemq ") for row in claims["java"].rows)


def test_the_run_that_is_kept_has_every_cell() -> None:
    results = load_results()
    assert list(results.cells) == list(every_cell())
    assert dump_results(results) == RESULTS.read_text("utf-8")


def test_what_is_kept_of_a_run() -> None:
    run = a_run()
    for one in run:
        if one["row"] == "A new group's first message":
            one["numbers"]["first_message_s"] = [0.0712, 0.96, 13.08]
        if one["row"] == "The Broker restarts":
            one["numbers"] |= {"back_s": 2.9, "repeats": 3}
    results = results_of(run, date="2026-11-21")
    assert results.cells["A new group's first message", COLUMNS[0]] == Cell(
        True, 7, {"first_message_s": [0.07, 0.96, 13.1]}
    )
    assert results.cells["The Broker restarts", COLUMNS[0]] == Cell(True, 7, {"back_s": [2.9]})
    assert "0.07, 0.96, 13.1" in page(FEATURES, results)


def test_the_order_of_a_run_and_its_duration_change_nothing() -> None:
    run = a_run()
    other = copy.deepcopy(run)[::-1]
    for one in other:
        one["seconds"] += 100.0
    assert dump_results(results_of(run, date="d")) == dump_results(results_of(other, date="d"))


def test_a_run_of_a_part_is_refused() -> None:
    with pytest.raises(PageError, match="1 cells were not run"):
        results_of(a_run()[1:], date="2026-11-21")


def test_a_run_of_a_part_is_put_into_another() -> None:
    before = results_of(a_run(), date="2026-11-21")
    part = [{**a_run()[0], "passed": False}]
    results = results_of(part, date="2026-11-22", before=before)
    assert [cell for cell, found in results.cells.items() if not found.passed] == [next(every_cell())]
    times = [one for one in a_run() if one["row"] == "The Broker restarts"]
    assert results_of(times, date="2026-11-22", before=before).cells == before.cells
    with pytest.raises(PageError, match="'The Broker restarts' are compared"):
        results_of(times[1:], date="2026-11-22", before=before)


def test_a_row_that_failed_anywhere_takes_the_mark_and_says_where() -> None:
    row = "Java push consumer"
    claim = Claim("yes", "how", (row,))
    good = results_of(a_run(), date="2026-11-21")
    assert mark(claim, good) == "✔"
    assert failed(claim, good) == []
    for column in columns_of(row):
        bad = Results(good.date, {**good.cells, (row, column): Cell(False)})
        assert mark(claim, bad) == "✘"
        assert failed(claim, bad) == [f"{row} ({column})"]
        assert f"**failed: {row} ({column})**" in page(FEATURES, bad)
    assert mark(claim, Results("", {})) == "✘", "a row that did not run shows nothing"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"mark": "maybe"}, "the mark 'maybe' is none of"),
        ({"mark": "yes"}, "name what shows it"),
        ({"mark": "no", "shown": ["Java push consumer"]}, "name what shows it"),
        ({"mark": "yes", "shown": ["Java pull"]}, "the matrix has no row 'Java pull'"),
    ],
)
def test_claims_that_cannot_be(told: dict[str, Any], said: str) -> None:
    with pytest.raises(PageError, match=said):
        _claim("TLS", "java", told)
