"""How property tests run: with fixed seeds and the saved examples, or with new seeds and many more examples.

A run of the checks must not fail by luck, so there every property test begins at the same seed; what an earlier run
found is saved in `.hypothesis` and tried first. `--soak` draws new seeds. A failure prints the shortest steps found
as code; the search for them ends well before the test's time-out, which would hide them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import engine

if TYPE_CHECKING:
    import pytest

CHECKS: Final = "checks"
SOAK: Final = "soak"
CHECKS_SEED: Final = "20240229"
SOAK_FACTOR: Final = 10
SHRINKING_S: Final = 30
"""A quarter of the time-out of a test."""

# A machine that is slow just now is no fault of what is tested.
settings.register_profile(CHECKS, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile(SOAK, settings.get_profile(CHECKS), max_examples=100 * SOAK_FACTOR)


def choose_profile(config: pytest.Config) -> None:
    """Load the profile that this run's options ask for; `--hypothesis-seed` has the last word on the seed."""
    soak = bool(config.getoption("--soak"))
    settings.load_profile(SOAK if soak else CHECKS)
    if not soak:
        engine.MAX_SHRINKING_SECONDS = SHRINKING_S
        if config.option.hypothesis_seed is None:
            config.option.hypothesis_seed = CHECKS_SEED


def examples(count: int, *, soak_factor: int = SOAK_FACTOR) -> int:
    """Return how many examples a property test tries: `count`, in a soak `soak_factor` times as many."""
    return count * soak_factor if settings.get_current_profile_name() == SOAK else count
