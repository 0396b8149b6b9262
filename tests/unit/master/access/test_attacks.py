"""Nothing that is forged, replayed, stale or swapped gets in: none of 100,000, nor of a million in the soak."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.unit.master.access.attacks import Attacker

if TYPE_CHECKING:
    from tests.support.soaking import Part

pytestmark = pytest.mark.slow
ATTACKS = 100_000
SOAK_ATTACKS = 1_000_000


def test_none_is_accepted(part: Part, soak: bool) -> None:
    count = (SOAK_ATTACKS if soak else ATTACKS) // part.count
    seed = random.SystemRandom().randrange(1 << 32) if soak else 7
    attacker = Attacker(random.Random(seed))
    attacker.attack(count)
    assert attacker.tried >= count
    assert attacker.accepted == [], f"seed {seed}"
