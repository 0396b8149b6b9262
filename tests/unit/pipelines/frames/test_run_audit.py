"""Counts of a batch, from the groups that Spark gives: their sums, and their bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.pipelines.frames import audit
from pytubemq.pipelines.frames.audit import OTHERS

if TYPE_CHECKING:
    import pytest


def group(minute: int | None, rows: int, *, reason: str | None = None, newest: int | None = None) -> dict[str, Any]:
    return {"stream": "s", "minute": minute, "reason": reason, "rows": rows, "newest": newest}


def test_groups_of_one_minute_are_one_line() -> None:
    found = audit._summed([group(1, 5, newest=7_000), group(1, 2, reason="decode.json"), group(None, 1)])
    assert (found.rows, found.rejected, found.reasons, found.newest_s) == (8, 2, {"decode.json": 2}, 7.0)
    assert found.lines == [
        {"stream": "s", "minute": None, "read": 1, "rejected": 0},
        {"stream": "s", "minute": "1970-01-01T00:01Z", "read": 7, "rejected": 2},
    ]


def test_a_time_that_is_garbage_leaves_the_sums_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_LINES", 2)
    largest = [group(1, 5), group(2, 4), group(3, 3, reason="r")]
    sums = [group(None, 100, newest=9_000), group(None, 7, reason="r", newest=8_000)]
    found = audit._summed(largest, sums)
    assert (found.rows, found.rejected, found.newest_s) == (107, 7, 9.0)
    assert len(found.lines) == 3
    assert found.lines[-1] == {"stream": OTHERS, "minute": None, "read": 98, "rejected": 7}
    assert sum(line["read"] for line in found.lines) == 107


def test_a_sink_s_rows_are_told_by_topic_where_they_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[dict[str, Any]] = [{"stream": "a", "minute": 1, "rows": 2}, {"stream": None, "minute": 1, "rows": 3}]
    lines = audit._bounded(audit._out_lines(groups), {"rows": 0})
    assert lines == [
        {"minute": "1970-01-01T00:01Z", "rows": 3},
        {"stream": "a", "minute": "1970-01-01T00:01Z", "rows": 2},
    ]
    monkeypatch.setattr(audit, "MAX_LINES", 1)
    assert audit._bounded(lines, {"rows": 4})[-1] == {"stream": OTHERS, "minute": None, "rows": 6}
