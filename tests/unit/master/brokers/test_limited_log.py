"""Lines about what peers may do as often as they like are limited."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytubemq.master.brokers.limited_log import MOST_LINES, LimitedLog

if TYPE_CHECKING:
    import pytest


def test_the_first_lines_of_a_period_are_logged_and_the_others_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    log = LimitedLog(logging.getLogger("x"), "registrations")
    for number in range(1_000):
        log.info(100.0, "broker %d registered", number)
    assert len(caplog.records) == MOST_LINES
    log.log_rest(105.0)
    assert len(caplog.records) == MOST_LINES
    log.log_rest(110.0)
    log.log_rest(120.0)
    assert caplog.records[-1].getMessage() == f"and {1_000 - MOST_LINES} more registrations"
    log.info(121.0, "broker %d registered", 7)
    assert caplog.records[-1].getMessage() == "broker 7 registered"
