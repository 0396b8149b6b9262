"""Which failures are tried again, when, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core.retry import BRIEF_S, Backoff, Verdict, may_retry, verdict
from pytubemq.errors import (
    ConnectionLostError,
    EnvelopeError,
    MessageError,
    RemoteError,
    RequestTimeoutError,
    TubeError,
    UnreachableError,
    refused,
)


@given(
    attempt=st.integers(1, 10_000),
    dice=st.floats(0, 1, exclude_max=True),
    first_s=st.floats(0.001, 10),
    factor=st.floats(1, 1000),
    jitter=st.floats(0, 1),
)
def test_a_delay_never_exceeds_its_bound(
    attempt: int, dice: float, first_s: float, factor: float, jitter: float
) -> None:
    backoff = Backoff(first_s=first_s, most_s=first_s * factor, jitter=jitter)
    assert 0 <= backoff.delay_s(attempt, lambda: dice) <= backoff.most_s


def test_delays_double_up_to_the_bound() -> None:
    backoff = Backoff(first_s=0.1, most_s=0.5, jitter=0.0)
    assert [backoff.delay_s(attempt, lambda: 0.0) for attempt in (1, 2, 3, 4, 99)] == [0.1, 0.2, 0.4, 0.5, 0.5]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionLostError("x"), Verdict.RETRY),
        (RequestTimeoutError("x"), Verdict.RETRY),
        (UnreachableError("x"), Verdict.RETRY),
        (refused(419, "full"), Verdict.RETRY),
        (refused(503, "stopping"), Verdict.RETRY),
        (refused(411, "who"), Verdict.RETRY),
        (refused(410, "occupied"), Verdict.RETRY),
        (refused(403, "no such partition"), Verdict.RETRY_BRIEFLY),
        (refused(404, "nothing"), Verdict.RETRY_BRIEFLY),
        (refused(400, "bad"), Verdict.GIVE_UP),
        (refused(445, "long"), Verdict.GIVE_UP),
        (refused(415, "certificate"), Verdict.RETRY_BRIEFLY),
        (RemoteError("oops", exception_name="java.lang.reflect.InvocationTargetException"), Verdict.RETRY_BRIEFLY),
        (RemoteError("oops", exception_name="java.lang.Exception"), Verdict.GIVE_UP),
        (MessageError("bad"), Verdict.GIVE_UP),
        (EnvelopeError("bad", exception_name="x"), Verdict.GIVE_UP),
        (TubeError("unknown"), Verdict.GIVE_UP),
        (ValueError("a bug"), Verdict.GIVE_UP),
    ],
)
def test_the_verdict_on_each_failure(error: Exception, expected: Verdict) -> None:
    assert verdict(error) is expected


def test_retries_end_with_their_time() -> None:
    lost = ConnectionLostError("x")
    assert may_retry(lost, age_s=59.9, limit_s=60, refused_s=0)
    assert not may_retry(lost, age_s=60, limit_s=60, refused_s=0)
    strange = refused(403, "no such partition")
    assert may_retry(strange, age_s=BRIEF_S - 0.1, limit_s=60, refused_s=BRIEF_S - 0.1)
    assert not may_retry(strange, age_s=BRIEF_S, limit_s=60, refused_s=BRIEF_S)
    assert not may_retry(strange, age_s=2, limit_s=1, refused_s=0)
    assert not may_retry(refused(400, "bad"), age_s=0, limit_s=60, refused_s=0)


def test_the_time_that_a_broker_was_away_takes_nothing_of_the_time_after_a_refusal() -> None:
    assert may_retry(refused(415, "token"), age_s=30, limit_s=60, refused_s=0.1)
    assert not may_retry(refused(415, "token"), age_s=30, limit_s=60, refused_s=BRIEF_S)
