"""Welch's t, and the measure of what the time of a refusal tells."""

from __future__ import annotations

import math
import random

import pytest

from bench.harness.welch import BOUND, KEPT, uninterrupted, welch_t
from bench.timing import checks, compare, measure, wrong_texts


def test_t_is_that_of_the_textbook() -> None:
    one = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4]
    other = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 24.4]
    mean, most = sum(one) / 15, sum(other) / 15
    spread = sum((x - mean) ** 2 for x in one) / 14 / 15 + sum((x - most) ** 2 for x in other) / 14 / 15
    assert welch_t(one, other) == pytest.approx((mean - most) / math.sqrt(spread))
    assert welch_t(one, other) == pytest.approx(-welch_t(other, one))


def test_what_does_not_vary_differs_wholly_or_not_at_all() -> None:
    assert welch_t([1.0, 1.0], [1.0, 1.0]) == 0.0
    assert welch_t([2.0, 2.0], [1.0, 1.0]) == math.inf
    assert welch_t([1.0, 1.0], [2.0, 2.0]) == -math.inf


def test_equal_sources_are_within_the_bound_and_others_beyond_it() -> None:
    rng = random.Random(1)
    one, same = ([rng.gauss(1_000, 50) for _ in range(5_000)] for _ in range(2))
    assert abs(welch_t(one, same)) < BOUND
    assert abs(welch_t(one, [time + 10 for time in same])) > BOUND


def test_interrupted_ones_are_left_out_by_the_same_limit_on_both_sides() -> None:
    one, other = uninterrupted([1] * 95 + [10_000] * 5, [1] * 98 + [500, 9_000])
    assert max(one + other) <= 500
    assert len(one) + len(other) >= int(200 * KEPT)


def test_the_texts_are_wrong_and_differ_at_their_ends() -> None:
    late, early = wrong_texts("head.ABC", 5)
    assert late == "head.ABA"
    assert early == "head.BAA"
    for check, texts in list(checks().values())[:2]:
        assert not any(check(text) for text in texts)


def test_the_measure_notices_a_comparison_that_leaks() -> None:
    check, texts = checks()["control"]
    assert abs(compare(check, texts, pairs=2_000, rng=random.Random(1))) > BOUND


def test_its_result_has_a_row_for_each_check() -> None:
    result = measure(pairs=100, seed=1)
    assert [row["what"] for row in result["rows"]] == ["signature", "token", "control"]  # type: ignore[attr-defined]
