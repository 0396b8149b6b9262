"""Rows expected against rows that came: which have no partner, and in which columns the nearest one differs.

The rule: an expected row matches a row that has its values in the columns that it names; order does not count, and
each row has one partner. Values are compared as what they mean: 5 and 5.00, a date and its text, bytes and their UTF-8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from pytubemq.errors import ConfigError
from pytubemq.pipelines.check.given_messages import body
from pytubemq.pipelines.sinks.columns import no_column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One expected row without a partner (with the nearest that came), or one that came and was not expected."""

    expected: Row | None
    actual: Row | None
    columns: tuple[str, ...] = ()
    """The columns in which the two differ."""
    unknown: tuple[str, ...] = ()
    """A sentence for each expected column that no row has, with the remedy."""


def compare(expected: Sequence[Row], actual: Sequence[Row], columns: Sequence[str]) -> list[Mismatch]:
    """Return what does not fit; empty if all does. `columns` are those that every actual row has."""
    unknown = dict.fromkeys(name for row in expected for name in row if name not in columns)
    if unknown:
        return [Mismatch(None, None, unknown=tuple(", ".join(no_column(name, columns)) for name in unknown))]
    fits = [[_differing(want, got) == () for got in actual] for want in expected]
    partner = _partners(fits, len(actual))
    free = [index for index in range(len(actual)) if index not in partner]
    alone = [index for index in range(len(expected)) if index not in partner.values()]
    found = []
    for index in alone:
        nearest = min(free, key=lambda at: len(_differing(expected[index], actual[at])), default=None)
        if nearest is None:
            found.append(Mismatch(expected[index], None))
            continue
        free.remove(nearest)
        found.append(Mismatch(expected[index], actual[nearest], _differing(expected[index], actual[nearest])))
    return [*found, *(Mismatch(None, actual[index]) for index in free)]


def equal(expected: Any, actual: Any) -> bool:
    """True if a value of a file equals the actual value."""
    if expected is None or actual is None:
        return expected is None and actual is None
    if isinstance(actual, bool) or isinstance(expected, bool):
        return _word(expected) == _word(actual)
    if isinstance(actual, int | float | Decimal):
        return _same_number(expected, actual)
    if isinstance(actual, datetime):
        return _same_time(expected, actual)
    if isinstance(actual, date):
        return str(expected) == actual.isoformat()
    if isinstance(actual, bytes):
        try:
            return body(expected) == actual
        except ConfigError:
            return False
    if isinstance(actual, dict) or _is_map(expected, actual):
        return _same_fields(expected, dict(actual))
    if isinstance(actual, list | tuple):
        same_length = isinstance(expected, list) and len(expected) == len(actual)
        return same_length and all(equal(want, got) for want, got in zip(expected, actual, strict=True))
    return str(expected) == str(actual)


def _differing(expected: Row, actual: Row) -> tuple[str, ...]:
    return tuple(name for name, value in expected.items() if not equal(value, actual.get(name)))


def _partners(fits: list[list[bool]], count: int) -> dict[int, int]:
    """Find the most pairs of actual and expected rows (augmenting paths)."""
    partner: dict[int, int] = {}

    def find(want: int, seen: set[int]) -> bool:
        for got in range(count):
            if fits[want][got] and got not in seen:
                seen.add(got)
                if got not in partner or find(partner[got], seen):
                    partner[got] = want
                    return True
        return False

    for want in range(len(fits)):
        find(want, set())
    return partner


def _word(value: Any) -> str:
    return str(value).lower()


def _same_number(expected: Any, actual: float | Decimal) -> bool:
    try:
        want = Decimal(str(expected))
        if isinstance(actual, float):
            return math.isclose(float(want), actual, rel_tol=1e-9) or (math.isnan(actual) and want.is_nan())
        return want == Decimal(actual)
    except (InvalidOperation, ValueError, OverflowError):
        return False


def _same_time(expected: Any, actual: datetime) -> bool:
    try:
        want = datetime.fromisoformat(str(expected))
    except ValueError:
        return False
    return _utc(want) == _utc(actual)


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _is_map(expected: Any, actual: Any) -> bool:
    """True if the actual value is a map: Arrow gives it as pairs."""
    return (
        isinstance(expected, dict)
        and isinstance(actual, list)
        and all(isinstance(pair, tuple) and len(pair) == 2 for pair in actual)
    )


def _same_fields(expected: Any, actual: Mapping[Any, Any]) -> bool:
    if not isinstance(expected, dict):
        return False
    named = {str(key): value for key, value in actual.items()}
    return all(name in named and equal(value, named[name]) for name, value in expected.items())
