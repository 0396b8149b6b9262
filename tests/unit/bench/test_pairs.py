"""The figures of two checkouts, pair by pair."""

from __future__ import annotations

from typing import Any

import pytest

from bench.pairs import BEFORE, HERE, cpu_us, row


def reading(msgs_per_s: float, client: float, broker: float) -> dict[str, Any]:
    return {"msgs_per_s": msgs_per_s, "cores": {"client": client, "broker": broker, "others": 0.7}}


def test_the_ratio_is_the_median_of_the_pairs_own() -> None:
    found = {
        HERE: [reading(100, 0.1, 0.1), reading(50, 0.1, 0.1), reading(300, 0.1, 0.1)],
        BEFORE: [reading(100, 0.1, 0.1), reading(40, 0.1, 0.1), reading(200, 0.1, 0.1)],
    }
    said = row("consume", found)
    assert said["rate_ratio"] == {"median": 1.25, "least": 1.0, "most": 1.5}
    assert said["msgs_per_s"] == {HERE: 100, BEFORE: 100}
    assert said["pairs"] == 3


def test_what_others_took_is_not_counted() -> None:
    assert cpu_us(reading(100_000, 0.5, 0.5)) == pytest.approx(10.0)
