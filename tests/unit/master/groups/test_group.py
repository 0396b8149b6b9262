"""How regularly a member speaks."""

from __future__ import annotations

from pytubemq.master.groups.group import Pulse


def test_the_period_is_the_longest_of_the_last_silences() -> None:
    pulse = Pulse(100.0)
    assert pulse.period_s == 0
    for now_s in (101.0, 114.0, 127.0):
        pulse.beat(now_s)
    assert pulse.period_s == 13
    for now_s in (130.0, 133.0, 136.0, 139.0):
        pulse.beat(now_s)
    assert pulse.period_s == 3, "what was long ago is forgotten"


def test_a_word_ends_the_loss_of_a_connection() -> None:
    pulse = Pulse(100.0, lost_s=101.0)
    pulse.beat(102.0)
    assert pulse.lost_s is None
