"""A fast run leaves out what starts processes, and notices what is not marked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import subprocess
import sys

import pytest


@pytest.mark.process
def test_marked():
    subprocess.run([sys.executable, "-c", ""], check=True)


def test_not_marked():
    subprocess.run([sys.executable, "-c", ""], check=True)


def test_without_a_process():
    pass
"""


@pytest.mark.process
@pytest.mark.parametrize(("options", "ended"), [(["--fast"], "1 failed, 1 passed, 1 deselected"), ([], "3 passed")])
def test_a_test_that_starts_a_process_unmarked_fails_in_a_fast_run(
    tmp_path: Path, options: list[str], ended: str
) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(TESTS, "utf-8")
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]
    done = subprocess.run([*command, *plugins, *options, str(file)], cwd=ROOT, capture_output=True, text=True)
    assert ended in done.stdout
    assert ("needs @pytest.mark.process" in done.stdout) == bool(options)
