"""A property test that fails says so with code, in time, and the same on every run of the checks."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import engine

from tests.support.properties import CHECKS, FAST, FAST_SHARE, SHRINKING_S, SOAK, SOAK_FACTOR, examples

if TYPE_CHECKING:
    from pathlib import Path


FAILING = """
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.support.properties import examples

class Counter(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.total = 0

    @rule(step=st.integers(0, 1_000_000))
    def add(self, step):
        self.total += step
        assert self.total % 7 != 3

TestCounter = Counter.TestCase
TestCounter.settings = settings(max_examples=examples(50))

def test_seed(pytestconfig):
    print("seed", pytestconfig.option.hypothesis_seed)
    assert False
"""


def run(file: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-c", "pyproject.toml", "--rootdir=.", "-p", "tests.conftest"]
    done = subprocess.run([*command, *options, str(file)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.process
def test_a_failure_prints_its_steps_as_code_and_is_found_again(tmp_path: Path) -> None:
    file = tmp_path / "test_counter.py"
    file.write_text(FAILING)
    first, second = run(file), run(file)
    for output in (first, second):
        assert "state = Counter()" in output
        assert "state.add(step=" in output
        assert "@reproduce_failure" in output
    assert "seed 20240229" in first
    assert "seed None" in run(file, "--soak")


def test_the_search_for_the_shortest_steps_ends_before_the_time_out(request: pytest.FixtureRequest, soak: bool) -> None:
    timeout_s = float(request.config.getoption("--timeout") or request.config.getini("timeout"))
    assert timeout_s >= 3 * engine.MAX_SHRINKING_SECONDS
    assert soak or engine.MAX_SHRINKING_SECONDS == SHRINKING_S


def test_a_soak_tries_more_and_a_fast_run_less(request: pytest.FixtureRequest, soak: bool) -> None:
    fast = bool(request.config.getoption("--fast")) and not soak
    assert settings.get_current_profile_name() == (SOAK if soak else FAST if fast else CHECKS)
    assert examples(70) == (70 * SOAK_FACTOR if soak else 70 // FAST_SHARE if fast else 70)
    assert examples(1) >= 1
