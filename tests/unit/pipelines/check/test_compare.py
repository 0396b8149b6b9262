"""Expected rows against rows that came."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from pytubemq.pipelines.check.compare import compare, equal


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (5, Decimal("5.00")), ("5.1", Decimal("5.10")), (0.1, 0.1), (1, 1.0), ("NaN", float("nan")), (None, None),
        (True, True), ("2026-01-01", date(2026, 1, 1)), ("2026-01-01T12:00:00Z", datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("2026-01-01 13:00:00+01:00", datetime(2026, 1, 1, 12, tzinfo=UTC)), ("é", "é".encode()),
        ({"hex": "00ff"}, b"\x00\xff"), ({"base64": "AP8="}, b"\x00\xff"), (1, "1"), ([1, 2], [1, 2]),
        ({"a": 1}, {"a": 1, "b": 2}), ({"k": "v"}, [("k", "v"), ("l", "w")]), ([], []),
    ],
)  # fmt: skip
def test_values_that_mean_the_same_are_equal(expected: Any, actual: Any) -> None:
    assert equal(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (5, Decimal("5.01")), ("x", 5), (None, 0), (0, None), (True, False), ("2026-01-02", date(2026, 1, 1)),
        ("noon", datetime(2026, 1, 1, 12, tzinfo=UTC)), ("a", b"b"), ({"hex": "zz"}, b"x"), ([1], [1, 2]), (1, [1]),
        ({"a": 2}, {"a": 1}), ({"c": 1}, {"a": 1}), ("x", {"a": 1}), (1, "2"),
    ],
)  # fmt: skip
def test_values_that_differ_are_not(expected: Any, actual: Any) -> None:
    assert not equal(expected, actual)


def test_order_and_columns_that_are_not_named_do_not_count() -> None:
    actual = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert compare([{"a": 2}, {"b": "x"}], actual, ["a", "b"]) == []


def test_each_row_has_one_partner_even_where_the_first_choice_would_be_wrong() -> None:
    actual = [{"a": 1, "b": 1}, {"a": 1, "b": 2}]
    assert compare([{"a": 1}, {"a": 1, "b": 1}], actual, ["a", "b"]) == []
    assert len(compare([{"a": 1}, {"a": 1}, {"a": 1}], actual, ["a", "b"])) == 1


def test_the_nearest_row_and_the_columns_in_which_it_differs_are_told() -> None:
    actual = [{"a": 9, "b": 9}, {"a": 1, "b": 2}]
    (first, second) = compare([{"a": 1, "b": 3}], actual, ["a", "b"])
    assert (first.actual, first.columns) == ({"a": 1, "b": 2}, ("b",))
    assert (second.expected, second.actual) == (None, {"a": 9, "b": 9})


def test_a_row_that_did_not_come_and_one_too_many_are_told() -> None:
    (missing,) = compare([{"a": 1}], [], ["a"])
    assert (missing.expected, missing.actual) == ({"a": 1}, None)
    (surplus,) = compare([], [{"a": 1}], ["a"])
    assert (surplus.expected, surplus.actual) == (None, {"a": 1})


def test_a_column_that_is_not_there_is_told_once_with_the_nearest() -> None:
    (only,) = compare([{"dy": 1}, {"dy": 2}], [{"day": 1}], ["day"])
    assert only.unknown == ("no row has the column dy, did you mean day?",)
