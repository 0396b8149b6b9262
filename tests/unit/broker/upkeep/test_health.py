"""When a Broker's health looks at its store again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pytubemq.broker.upkeep.health import LOOK_S, StoreTroubles
from pytubemq.storage.format.record import LossReason, LostRange


def test_a_loss_is_named_at_once_and_other_troubles_after_a_while() -> None:
    lost_ranges: list[LostRange] = []
    notices: list[str] = []
    now_s = [100.0]
    looks: list[float] = []

    def known() -> list[LostRange]:
        looks.append(now_s[0])
        return lost_ranges

    stats = SimpleNamespace(fenced_messages=0)
    store = SimpleNamespace(stats=stats, lost_ranges=known, repair_notices=lambda: notices)
    state: Any = SimpleNamespace(topics=(), store=store, clock=SimpleNamespace(now_s=lambda: now_s[0]))
    troubles = StoreTroubles()
    assert troubles.problems(state) == ()
    now_s[0] += LOOK_S / 10
    assert troubles.problems(state) == ()
    assert len(looks) == 1, "all partitions are looked at once in a while"
    lost_ranges.append(LostRange("demo", 0, 5, 8, LossReason.RECORD))
    stats.fenced_messages = 3
    assert "messages lost to damage: 3" in str(troubles.problems(state))
    assert len(looks) == 2
    notices.append("repaired: positions may be gone")
    now_s[0] += LOOK_S
    assert notices[0] in troubles.problems(state)
