"""What is printed to be typed next can be typed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pytubemq.cli.invocation import DEMO_VARIABLE, as_typed, commands_as_typed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Started as `.venv/bin/pytubemq` from the directory above, without being on the path."""
    made = tmp_path / ".venv" / "bin" / "pytubemq"
    made.parent.mkdir(parents=True)
    made.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(made), "dev"])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(DEMO_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    return made


@pytest.mark.usefixtures("program")
def test_a_program_that_is_not_on_the_path_is_named_from_here() -> None:
    assert as_typed("pytubemq demo --chaos") == ".venv/bin/pytubemq demo --chaos"
    assert as_typed("pytubemq") == ".venv/bin/pytubemq"


def test_a_program_on_the_path_is_named_by_its_name(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    assert as_typed("pytubemq topic list") == "pytubemq topic list"


def test_another_program_of_that_name_on_the_path_is_not_meant(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "pytubemq"
    other.parent.mkdir()
    other.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    monkeypatch.chdir(program.parent)
    assert as_typed("pytubemq dev") == "./pytubemq dev"


@pytest.mark.usefixtures("program")
def test_a_script_that_started_the_demo_is_what_is_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEMO_VARIABLE, "scripts/demo")
    assert as_typed("pytubemq demo --chaos") == "scripts/demo --chaos"
    assert as_typed("pytubemq dev") == ".venv/bin/pytubemq dev"


@pytest.mark.usefixtures("program")
def test_commands_within_a_text() -> None:
    commands = ["dev", "topic"]
    assert commands_as_typed("run  pytubemq dev", commands) == "run  .venv/bin/pytubemq dev"
    assert commands_as_typed("pytubemq topic list --help", commands) == ".venv/bin/pytubemq topic list --help"
    for prose in ("the pytubemq version that wrote it", "pytubemq develops", "x/pytubemq dev"):
        assert commands_as_typed(prose, commands) == prose
