"""How long a client that only heartbeats is waited for after its connection closed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core.return_deadline import return_deadline_s

PERIOD_S, GRACE_S = 13.0, 14.0


@pytest.mark.parametrize(
    ("elapsed_s", "wait_s"),
    [(0.0, 14.0), (1.0, 13.0), (6.0, 8.0), (10.9, 3.1), (11.5, 14.0), (13.0, 14.0), (20.0, 14.0)],
)
def test_the_wait_is_what_is_left_of_the_period_unless_a_heartbeat_may_have_broken_too(
    elapsed_s: float, wait_s: float
) -> None:
    lost_s = 100.0 + elapsed_s
    assert return_deadline_s(lost_s=lost_s, beat_s=100.0, grace_s=GRACE_S) == pytest.approx(lost_s + wait_s)


@given(st.floats(0, PERIOD_S), st.floats(0, 0.5))
def test_a_client_that_lives_is_always_in_time(elapsed_s: float, took_s: float) -> None:
    """Its heartbeat takes `took_s`; if the connection closes meanwhile it fails, and the next one is a period later."""
    due_s = PERIOD_S
    failed = due_s - took_s <= elapsed_s
    back_s = elapsed_s + PERIOD_S if failed else due_s
    assert back_s < return_deadline_s(lost_s=elapsed_s, beat_s=0.0, grace_s=GRACE_S)


@given(st.floats(0, 60), st.floats(0.01, 60))
def test_nobody_is_waited_for_longer_than_a_whole_grace(elapsed_s: float, grace_s: float) -> None:
    wait_s = return_deadline_s(lost_s=elapsed_s, beat_s=0.0, grace_s=grace_s) - elapsed_s
    assert 0 < wait_s <= grace_s + 1e-9
