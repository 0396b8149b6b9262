"""Files with faults: each is found, at its line and column, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytubemq.pipelines import lint

FILES = sorted((Path(__file__).parent / "faulty").iterdir())
_EXPECTED = re.compile(r"(?:#|--)((?: P\d{3}:\d+)+)\s*$")


def expected(text: str) -> set[tuple[int, str, int]]:
    """Line, code and column of each fault that a file says it has."""
    found = set()
    for number, line in enumerate(text.splitlines(), 1):
        if marked := _EXPECTED.search(line):
            for one in marked[1].split():
                code, column = one.split(":")
                found.add((number, code, int(column)))
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_fault_is_found_at_its_place_and_nothing_else(file: Path) -> None:
    faults = {(fault.line, fault.code.value, fault.column) for fault in lint(file)}
    wanted = expected(file.read_text("utf-8"))
    assert wanted, "the file names no fault"
    assert faults == wanted


def test_all_kinds_of_fault_that_lint_tells_are_in_these_files_or_have_a_test_of_their_own() -> None:
    from pytubemq.pipelines.file.faults import FaultCode

    there = {code for file in FILES for _, code, _ in expected(file.read_text("utf-8"))}
    elsewhere = {
        FaultCode.UNREADABLE, FaultCode.SYNTAX, FaultCode.TOO_LARGE, FaultCode.DEFAULT_DEAD_LETTER,
        FaultCode.STEP_DOES_NOT_COMPILE, FaultCode.SINK_NOT_READY, FaultCode.TOPIC_MISSING, FaultCode.CLUSTER_AWAY,
        FaultCode.OTHER_PROGRESS, FaultCode.NOT_APART,
    }  # fmt: skip
    assert there | {code.value for code in elsewhere} == {code.value for code in FaultCode}
