"""What the figures of `bench` say, and what they do not."""

from __future__ import annotations

import pytest

from pytubemq.cli.commands.bench_run import percentiles


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        (0, set()),
        (1, {"max"}),
        (2, {"p50", "max"}),
        (60, {"p50", "p90", "max"}),
        (100, {"p50", "p90", "p99", "max"}),
        (1_000, {"p50", "p90", "p99", "p99_9", "max"}),
    ],
)
def test_a_percentile_is_told_only_by_samples_that_can_tell_it(samples: int, told: set[str]) -> None:
    found = percentiles([number / 1000 for number in range(samples)])
    assert found.pop("samples") == samples
    assert set(found) == told


def test_percentiles_are_in_milliseconds() -> None:
    found = percentiles([number / 1000 for number in reversed(range(1_000))])
    assert found == {"samples": 1_000, "p50": 500.0, "p90": 900.0, "p99": 990.0, "p99_9": 999.0, "max": 999.0}
