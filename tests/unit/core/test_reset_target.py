"""Where a group goes, in words."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core.reset_target import ResetTarget, ResetTo, parse_reset_target, time_target, utc, with_zone
from pytubemq.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", ResetTarget(ResetTo.EARLIEST)),
        (" Latest ", ResetTarget(ResetTo.LATEST)),
        ("offset:28", ResetTarget(ResetTo.OFFSET, offset=28)),
        ("number:3", ResetTarget(ResetTo.OFFSET, offset=84, asked="number:3")),
        ("-10m", ResetTarget(ResetTo.TIME, time_ms=NOW_MS - 600_000, asked="-10m")),
        (" -2D", ResetTarget(ResetTo.TIME, time_ms=NOW_MS - 172_800_000, asked="-2d")),
        ("1970-01-01T00:00:01Z", ResetTarget(ResetTo.TIME, time_ms=1000)),
        ("1970-01-01T01:00:00.250+01:00", ResetTarget(ResetTo.TIME, time_ms=250)),
        ("1970-01-02T00:00:00+00:00", ResetTarget(ResetTo.TIME, time_ms=86_400_000)),
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
    with pytest.raises(BadRequestError, match="not a reset target") as error:
        parse_reset_target(text, now_ms=NOW_MS)
    assert "earliest, latest, a time" in (error.value.hint or "")


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00", "2026-01-31"])
def test_a_text_without_a_zone_is_refused_since_it_would_mean_another_moment_elsewhere(text: str) -> None:
    with pytest.raises(BadRequestError, match="not a time") as error:
        parse_reset_target(text, now_ms=NOW_MS)
    assert "give its zone" in (error.value.hint or "")


@pytest.fixture
def shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine's clock is eight hours ahead."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CST-8")
        time.tzset()
        yield
    time.tzset()


def test_a_time_without_a_zone_is_one_of_this_machines_clock(shanghai: None) -> None:
    assert time_target(datetime(1970, 1, 1, 8, 0, 1)).time_ms == 1000
    assert with_zone(datetime(1970, 1, 1, 8)) == datetime(1970, 1, 1, tzinfo=UTC)
    assert with_zone(datetime(1970, 1, 1, tzinfo=UTC)).tzinfo is UTC


@pytest.mark.parametrize("end", [datetime.min, datetime.max])
def test_the_ends_of_time_need_no_zone(end: datetime, shanghai: None) -> None:
    assert (time_target(end).time_ms == 0) == (end is datetime.min)


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)), st.integers(-23, 23))
def test_a_time_is_the_same_moment_in_every_zone(moment: datetime, hours: int) -> None:
    there = moment.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=hours)))
    target = time_target(there)
    assert target == time_target(moment.replace(tzinfo=UTC))
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
    assert parse_reset_target("number:5", now_ms=NOW_MS).text == "number:5 (offset 140)"
    assert parse_reset_target("-10m", now_ms=600_001).text == "-10m (time 1970-01-01T00:00:00.001Z)"


@pytest.mark.parametrize(
    ("target", "asked", "text"),
    [
        (ResetTarget(ResetTo.OFFSET, offset=140), "number:5", "number:5 (offset 140)"),
        (ResetTarget(ResetTo.OFFSET, offset=140), "number:6", "offset 140"),
        (ResetTarget(ResetTo.OFFSET, offset=140), "-10m", "offset 140"),
        (ResetTarget(ResetTo.TIME, time_ms=1), "-10m", "-10m (time 1970-01-01T00:00:00.001Z)"),
        (ResetTarget(ResetTo.LATEST), "\x1b[2J", "latest"),
    ],
)
def test_a_history_is_told_only_words_that_can_mean_the_place(target: ResetTarget, asked: str, text: str) -> None:
    assert target.asked_as(asked).text == text


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [(-1, "1970-01-01T00:00:00.000Z"), (2**63 - 1, "9999-12-31T23:59:59.999Z"), (1, "1970-01-01T00:00:00.001Z")],
)
def test_a_time_that_a_peer_said_can_be_shown_whatever_it_is(time_ms: int, text: str) -> None:
    assert utc(time_ms) == text
