"""What a comparison decides from its readings."""

from __future__ import annotations

import json
import math

import pytest

from bench.harness.decisions import (
    Row,
    Target,
    alternating,
    at_least,
    at_most,
    exit_code,
    failed_row,
    figure,
    median,
    ratio,
)


def test_the_median_of_an_odd_number_of_readings_is_the_middle_one() -> None:
    assert median([5.0, 1.0, 3.0]) == 3.0


def test_the_median_of_an_even_number_lies_between_the_two_in_the_middle() -> None:
    assert median([1.0, 2.0, 4.0, 100.0]) == 3.0


def test_nothing_has_no_median() -> None:
    assert median([]) is None


@pytest.mark.parametrize(
    ("ours", "peer"), [(None, 1.0), (1.0, None), (1.0, 0.0), (math.nan, 1.0), (1.0, math.inf), (math.inf, 1.0)]
)
def test_a_ratio_of_what_says_nothing_is_none(ours: float | None, peer: float | None) -> None:
    assert ratio(ours, peer) is None


def test_a_ratio_is_ours_divided_by_the_peers() -> None:
    assert ratio(6.0, 4.0) == 1.5


def test_a_ratio_that_just_reaches_its_target_meets_it() -> None:
    assert Row("a", "b", "msg/s", 400.0, 100.0, at_least(4.0)).met is True
    assert Row("a", "b", "msg/s", 399.9, 100.0, at_least(4.0)).met is False


def test_a_figure_that_must_stay_below_a_bound_is_judged_without_the_peer() -> None:
    assert Row("a", "b", "ms", 2.0, None, at_most(2.0)).met is True
    assert Row("a", "b", "ms", 2.1, 9.0, at_most(2.0)).met is False


@pytest.mark.parametrize("target", [at_least(0.0), at_most(1e9)])
@pytest.mark.parametrize("ours", [None, math.nan, math.inf])
def test_a_missing_figure_meets_no_target(ours: float | None, target: Target) -> None:
    assert Row("a", "b", "ms", ours, None, target).met is False


def test_a_row_without_a_target_is_neither_met_nor_missed() -> None:
    assert Row("a", "b", "ms", 1.0, 1.0).met is None


def test_a_ratio_without_a_peer_meets_no_target() -> None:
    assert Row("a", "b", "msg/s", 1.0, None, at_least(0.5)).met is False


def test_sides_take_turns_and_every_other_round_goes_backwards() -> None:
    assert alternating(("x", "y"), 3) == [(0, "x"), (0, "y"), (1, "y"), (1, "x"), (2, "x"), (2, "y")]


def test_every_side_runs_as_often_as_was_asked_for() -> None:
    order = alternating(("x", "y", "z"), 5)
    assert {side: sum(one == side for _, one in order) for side in "xyz"} == {"x": 5, "y": 5, "z": 5}


def test_the_exit_code_tells_met_missed_and_not_measured() -> None:
    met = Row("a", "", "", 2.0, 1.0, at_least(1.0))
    shown = Row("a", "", "", 2.0, 1.0)
    missed = Row("a", "", "", 0.5, 1.0, at_least(1.0))
    assert exit_code([met, shown]) == 0
    assert exit_code([met, missed]) == 1
    assert exit_code([missed, failed_row("a", "it broke")]) == 2


def test_a_row_as_json_has_the_fields_that_readers_ask_for() -> None:
    row = Row("consume", "x : y", "msg/s", 350_123.4, 100_000.0, at_least(4.0), "a note", {"ours": [350_123.4]})
    found = json.loads(json.dumps(row.as_json()))
    assert found == {
        "measure": "consume", "what": "x : y", "unit": "msg/s", "ours": 350_100.0, "peer": 100_000.0, "ratio": 3.501,
        "target": 4.0, "target_is": "ratio_at_least", "met": False, "note": "a note", "runs": {"ours": [350_100.0]},
    }  # fmt: skip


def test_a_measure_that_failed_is_a_row_that_says_why_and_is_not_met() -> None:
    found = failed_row("consume", "java is missing").as_json()
    assert found["met"] is False
    assert found["ours"] is None
    assert "java is missing" in found["note"]


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (1_234_567.8, "1,234,568"), (99.96, "100"), (12.345, "12.3"), (0.01234, "0.0123")]
)
def test_figures_are_written_with_three_digits_or_whole(value: float | None, text: str) -> None:
    assert figure(value) == text
