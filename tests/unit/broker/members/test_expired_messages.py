"""What retention took from groups: counted for each, logged seldom."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytubemq.broker.members import expired_messages as module
from pytubemq.broker.members.expired_messages import LOG_PERIOD_S, ExpiredMessages
from pytubemq.broker.registration_key import RegistrationKey

if TYPE_CHECKING:
    import pytest


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


def test_a_group_of_many_partitions_is_logged_once_a_period_and_nothing_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    expired = ExpiredMessages()
    for number in range(2_000):
        expired.record(RegistrationKey("g", "demo", number), 3, now_s=100.0 + number / 1_000)
    assert len(lines(caplog)) == 1
    expired.log_due(100.0 + LOG_PERIOD_S + 1)
    (text,) = lines(caplog)
    assert text.startswith(f"group g: retention removed {2_000 * 3 - 3} messages of topic demo")
    expired.log_due(1_000.0)
    assert lines(caplog) == []
    assert (expired.total, expired.by_group()) == (6_000, {("g", "demo"): 6_000})


def test_many_groups_are_some_lines_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    expired = ExpiredMessages()
    for turn in (0.0, 1.0):
        for number in range(20):
            expired.record(RegistrationKey(f"g{number}", "demo", 0), 5, now_s=turn)
    lines(caplog)
    expired.log_due(LOG_PERIOD_S + 1)
    found = lines(caplog)
    assert len(found) == 9
    assert "60 more messages that 12 other groups" in found[-1]


def test_groups_beyond_the_bound_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_GROUPS_COUNTED", 2)
    expired = ExpiredMessages()
    for number in range(5):
        expired.record(RegistrationKey(f"g{number}", "demo", 0), 1, now_s=0.0)
    assert expired.by_group() == {("g0", "demo"): 1, ("g1", "demo"): 1, ("other", "other"): 3}
