"""How property tests run: with fixed seeds and the saved examples, or with new seeds and many more examples.

A run of the checks must not fail by luck, so there every property test begins at the same seed; what an earlier run
found is saved in `.hypothesis` and tried first. `--soak` draws new seeds, and `--fast` tries a tenth of the examples. A
failure prints the shortest steps found as code; the search for them ends well before the test's time-out, which would
hide them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import HealthCheck, core, seed, settings
from hypothesis.internal.conjecture import engine
from hypothesis.stateful import run_state_machine_as_test

if TYPE_CHECKING:
    import pytest
    from hypothesis.stateful import RuleBasedStateMachine

    from tests.support.soaking import Part

CHECKS: Final = "checks"
FAST: Final = "fast"
SOAK: Final = "soak"
CHECKS_SEED: Final = "20240229"
SOAK_FACTOR: Final = 10
FAST_SHARE: Final = 10
"""A fast run tries one example of so many."""
SHRINKING_S: Final = 30
"""A tenth of the time-out of a test."""

# A machine that is slow just now is no fault of what is tested.
settings.register_profile(CHECKS, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile(FAST, settings.get_profile(CHECKS), max_examples=100 // FAST_SHARE)
settings.register_profile(SOAK, settings.get_profile(CHECKS), max_examples=100 * SOAK_FACTOR)


def choose_profile(config: pytest.Config) -> None:
    """Load the profile that this run's options ask for; `--hypothesis-seed` has the last word on the seed."""
    soak = bool(config.getoption("--soak"))
    fast = bool(config.getoption("--fast"))
    settings.load_profile(SOAK if soak else FAST if fast else CHECKS)
    if not soak:
        engine.MAX_SHRINKING_SECONDS = SHRINKING_S
        if config.option.hypothesis_seed is None:
            config.option.hypothesis_seed = CHECKS_SEED


def examples(count: int, *, soak_factor: int = SOAK_FACTOR) -> int:
    """Return how many examples a property test tries: `count`; more in a soak, fewer in a fast run."""
    profile = settings.get_current_profile_name()
    if profile == FAST:
        return max(count // FAST_SHARE, 1)
    return count * soak_factor if profile == SOAK else count


def run_machine(machine: type[RuleBasedStateMachine], part: Part, *, max_examples: int, step_count: int = 40) -> None:
    """Run this part of a state machine's examples; under a seed that was asked for each part still has its own."""
    asked: int | str | None = core.global_force_seed
    if asked is not None and part.count > 1:
        seed(f"{asked} {part}")(machine)
    ran = settings(max_examples=-(-max_examples // part.count), stateful_step_count=step_count)
    run_state_machine_as_test(machine, settings=ran)
