"""Tables are no wider than the terminal, whatever is in them, and lose nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pytubemq.cli.output.output import table
from pytubemq.cli.output.text_table import text_field

MEMBER = {
    "id": "g_host-1.example.org-4711-1763893203512-1-Pull-python-0.1.0",
    "host": "host-1.example.org",
    "peer": "127.0.0.1:45678",
    "joined": "2026-01-31T12:00:00.000Z",
    "partitions": ["1:demo:0", "1:demo:1", "1:demo:2", "1:demo:3"],
    "pending": None,
}
ON_A_TERMINAL = """
import runpy, sys
sys.stdout.isatty = lambda: True
sys.argv = ["pytubemq", "errors", "list"]
runpy.run_module("pytubemq", run_name="__main__")
"""
"""The listing as a terminal gets it; a real one is not there in every container."""
REASON = {"thing": "broker 1", "why": "it has topics that this Master does not know " * 4, "hint": "mend it " * 20}


@pytest.mark.parametrize("row", [MEMBER, REASON], ids=["member", "reason"])
@pytest.mark.parametrize("width", [30, 40, 80, 120, 400])
def test_no_line_is_wider_and_no_letter_is_lost(row: dict[str, object], width: int) -> None:
    text = table([row, row], list(row), width)
    assert max(map(len, text.splitlines())) <= width
    for letter in "pythost0123456789:_":
        needed = sum(str(cell).count(letter) for cell in row.values() if cell is not None)
        assert text.count(letter) >= 2 * needed, letter
    if width == 400:
        assert text == table([row, row], list(row))


def test_a_sentence_is_wrapped_beside_its_name() -> None:
    assert text_field("why", "one two three four five", 5, 20) == "why\n  one two three four\n  five"
    assert text_field("why", "one two three four five", 5, 24) == "why    one two three\n       four five"


@pytest.mark.process
def test_a_listing_fits_a_terminal_and_a_pipe_gets_whole_lines() -> None:
    command = [sys.executable, "-m", "pytubemq", "errors", "list"]
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert max(map(len, piped)) > 80
    environ = {**os.environ, "COLUMNS": "80"}
    shown = subprocess.run([sys.executable, "-c", ON_A_TERMINAL], capture_output=True, check=True, env=environ).stdout
    lines = shown.decode().splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) > len(piped)
