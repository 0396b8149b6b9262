"""What a consumer says of messages that retention removed before it had confirmed them."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.client.consumer.skip_report import EXPIRED, EXPIRED_OR_MOVED, SkipReport
from pytubemq.model.ids import Partition
from pytubemq.model.limits import WARNING_PERIOD_S
from pytubemq.wire.protocol.messages.broker import GetMessageResponseB2C

if TYPE_CHECKING:
    from pytubemq.client.session.events import Skipped

P0 = Partition(1, "demo", 0)


def made() -> tuple[SkipReport, list[Skipped], list[int]]:
    events: list[Any] = []
    counts: list[int] = []
    owner: Any = SimpleNamespace(emit=events.append, count=lambda skipped: counts.append(skipped))
    return SkipReport(owner, P0), events, counts


def head(start: int | None, expired: int | None = None) -> GetMessageResponseB2C:
    return GetMessageResponseB2C(success=True, err_code=200, curr_offset=start, expired_messages=expired)


def test_what_the_broker_reports_is_counted_and_said_each_time_and_logged_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    passed, events, counts = made()
    passed.record_expired(head(28), 0.0)
    passed.record_expired(head(2_800, 99), 1.0)
    passed.record_expired(head(-1, 3), 2.0)
    passed.record_expired(head(5_600, 7), WARNING_PERIOD_S + 1.0)
    assert counts == [99, 3, 7]
    assert [(event.messages, event.offset, event.reason) for event in events] == [
        (99, 2_800, EXPIRED),
        (3, None, EXPIRED),
        (7, 5_600, EXPIRED),
    ]
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(" skipped")[0] for line in lines] == [f"{P0}: 99 messages", f"{P0}: 10 messages"]


@pytest.mark.parametrize(("expected", "start"), [(None, 280), (280, None), (280, 280), (280, 28), (-1, 280)])
def test_a_fetch_that_begins_where_it_was_expected_or_nobody_knows_says_nothing(
    expected: int | None, start: int | None
) -> None:
    passed, events, counts = made()
    passed.record_gap(expected, head(start), 0.0)
    assert (events, counts) == ([], [])


def test_a_broker_of_the_original_that_begins_further_on_is_said_with_both_reasons() -> None:
    passed, events, counts = made()
    passed.record_gap(280, head(2_800), 0.0)
    assert counts == [90]
    assert [(event.messages, event.offset, event.reason) for event in events] == [(90, 2_800, EXPIRED_OR_MOVED)]
