"""Where a group goes, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core.reset_target import ResetTarget, ResetTo, parse_reset_target, time_target, utc
from pytubemq.errors import BadRequestError

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", ResetTarget(ResetTo.EARLIEST)),
        (" Latest ", ResetTarget(ResetTo.LATEST)),
        ("offset:28", ResetTarget(ResetTo.OFFSET, offset=28)),
        ("number:3", ResetTarget(ResetTo.OFFSET, offset=84)),
        ("-10m", ResetTarget(ResetTo.TIME, time_ms=NOW_MS - 600_000)),
        ("-2d", ResetTarget(ResetTo.TIME, time_ms=NOW_MS - 172_800_000)),
        ("1970-01-01T00:00:01", ResetTarget(ResetTo.TIME, time_ms=1000)),
        ("1970-01-01T01:00:00.250+01:00", ResetTarget(ResetTo.TIME, time_ms=250)),
        ("1970-01-02", ResetTarget(ResetTo.TIME, time_ms=86_400_000)),
        ("1969-12-31T23:59:59Z", ResetTarget(ResetTo.TIME, time_ms=0)),
    ],
)
def test_places_in_words(text: str, target: ResetTarget) -> None:
    assert parse_reset_target(text, now_ms=NOW_MS) == target


@pytest.mark.parametrize(
    "text",
    ["", "now", "10m", "+10m", "-10", "-10w", "offset", "offset:", "offset:-1", "number:999999999999999999",
     "28", "2026-13-01", "yesterday", "number:1.5"],
)  # fmt: skip
def test_what_is_no_place_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(BadRequestError, match="not a place to go to") as error:
        parse_reset_target(text, now_ms=NOW_MS)
    assert "earliest, latest, a time" in (error.value.hint or "")


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)), st.integers(-23, 23))
def test_a_time_is_the_same_moment_in_every_zone(moment: datetime, hours: int) -> None:
    there = moment.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=hours)))
    target = time_target(there)
    assert target == time_target(moment)
    assert target.time_ms is not None
    assert parse_reset_target(utc(target.time_ms), now_ms=NOW_MS) == target
    assert parse_reset_target(there.isoformat(), now_ms=NOW_MS) == target


def test_a_target_says_itself_in_words() -> None:
    targets = [
        ResetTarget(ResetTo.EARLIEST),
        ResetTarget(ResetTo.OFFSET, offset=56),
        ResetTarget(ResetTo.TIME, None, 1),
    ]
    assert [target.text for target in targets] == ["earliest", "offset 56", "time 1970-01-01T00:00:00.001Z"]
