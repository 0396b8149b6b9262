"""What a page says that a test shows is shown by a test: each one that is named exists, in the file that is named."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests"
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])
_CODE = re.compile(r"`([^`\n]+)`")
_NAMED = re.compile(r"(?:(?P<file>…|[\w/.-]*\btest_\w+\.py)(?:::)?)?(?P<test>test_\w+)?(?:\[.*\])?")
_DEFINED = re.compile(r"^\s*(?:async )?def (test_\w+)\(", re.MULTILINE)
_SHOWN_BY = "| what goes wrong | what happens | shown by |\n|---|---|---|\n"
_AS_BEFORE = "the same test"


class Named(NamedTuple):
    """A test on a page; `file` as the page says it, or the one named before it where that is `…`."""

    file: str | None
    test: str | None


def named(text: str) -> list[Named]:
    """All tests and test files that a page names, in their order."""
    found: list[Named] = []
    last: str | None = None
    for code in _CODE.findall(text):
        match = _NAMED.fullmatch(code)
        if match is None or not (match["file"] or match["test"]):
            continue
        file = last if match["file"] == "…" else match["file"]
        last = file or last
        found.append(Named(file, match["test"]))
    return found


@cache
def defined() -> dict[Path, frozenset[str]]:
    """The tests of each file under tests/."""
    return {path: frozenset(_DEFINED.findall(path.read_text())) for path in sorted(TESTS.rglob("test_*.py"))}


def missing(text: str, tests: dict[Path, frozenset[str]]) -> list[str]:
    """What a page names and nobody has."""
    found = []
    for file, test in named(text):
        files = [path for path in tests if file is None or path.as_posix().endswith("/" + file)]
        if not files or not (test is None or any(test in tests[path] for path in files)):
            found.append(f"{file or 'tests'}::{test}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_test_that_a_page_names_exists_in_the_file_named(page: Path) -> None:
    assert missing(page.read_text(), defined()) == []


def test_a_name_that_does_not_exist_or_stands_in_another_file_is_found() -> None:
    tests = {
        Path("/tests/unit/test_a.py"): frozenset({"test_one"}),
        Path("/tests/unit/test_b.py"): frozenset({"test_two"}),
    }
    good = "`unit/test_a.py::test_one`, `test_two`, `unit/test_b.py`, `…::test_two`, `test_two[x]`, `not_a_test`"
    assert named(good) == [
        Named("unit/test_a.py", "test_one"), Named(None, "test_two"), Named("unit/test_b.py", None),
        Named("unit/test_b.py", "test_two"), Named(None, "test_two"),
    ]  # fmt: skip
    assert missing(good, tests) == []
    bad = "`unit/test_a.py::test_two` `…::test_two` `test_three` `unit/test_c.py`"
    assert missing(bad, tests) == ["unit/test_a.py::test_two"] * 2 + ["tests::test_three", "unit/test_c.py::None"]


def without_test(text: str) -> list[str]:
    """Return the failures in the tables of a page that name no test; rows that head a group of others are none."""
    found = []
    for rest in text.split(_SHOWN_BY)[1:]:
        rows = [row.strip("| ").split(" | ") for row in rest.partition("\n\n")[0].splitlines() if "| **" not in row]
        found += [row[0] for row in rows if not named(row[-1]) and not row[-1].startswith(_AS_BEFORE)]
    return found


def test_every_failure_mode_names_a_test() -> None:
    text = (ROOT / "docs/design/failure-modes.md").read_text("utf-8")
    assert text.count(_SHOWN_BY) > 1
    assert without_test(text) == []


def test_a_failure_mode_without_a_test_is_found() -> None:
    rows = (
        "| **A Broker** | | |\n| one | it ends | `test_one` |\n| two | it stays | `unit/client` |\n| three | gone | |\n"
    )
    assert without_test(f"{_SHOWN_BY}{rows}\n| four | no row | of such a table |\n") == ["two", "three"]
