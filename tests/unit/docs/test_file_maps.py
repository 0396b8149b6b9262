"""The pages that say which file of a room does what: they name files that there are, and leave none out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DESIGN = ROOT / "docs" / "design"
SOURCE = ROOT / "src" / "pytubemq"
_HEAD = "| File | Its one job |\n|---|---|\n"
_NAME = re.compile(r"`(\w+)`")


def tables(page: str) -> list[set[str]]:
    """The files that each table of a page names."""
    found = []
    for rest in (DESIGN / page).read_text("utf-8").split(_HEAD)[1:]:
        rows = rest.split("\n\n", 1)[0].splitlines()
        found.append({name for row in rows for name in _NAME.findall(row.split("|")[1])})
    return found


def files(room: str) -> set[str]:
    """What a room has."""
    return {path.stem for path in (SOURCE / room).glob("*.py")} - {"__init__"}


@pytest.mark.parametrize(("page", "number", "room"), [("broker.md", 0, "broker"), ("overview.md", 0, "master")])
def test_a_page_that_maps_a_room_names_its_files_and_no_others(page: str, number: int, room: str) -> None:
    assert tables(page)[number] == files(room)


def test_the_files_of_the_wire_that_are_named_are_there() -> None:
    named = tables("overview.md")[1]
    assert named
    assert named <= files("wire")


def test_every_room_is_in_the_overview() -> None:
    rooms = {path.stem for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}
    rooms -= {"__init__", "__main__", "__pycache__", "_version", "py"}
    text = (DESIGN / "overview.md").read_text("utf-8")
    named = {name for line in text.splitlines() if line.startswith("| `") for name in _NAME.findall(line.split("|")[1])}
    assert rooms <= named
