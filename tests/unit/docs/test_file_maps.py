"""The pages that say what the rooms within a room do: they name those that there are, and leave none out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DESIGN = ROOT / "docs" / "design"
SOURCE = ROOT / "src" / "pytubemq"
_HEAD = "| Room | Its one job |\n|---|---|\n"
_NAME = re.compile(r"`(\.|\w+)`")


def tables(page: str) -> list[set[str]]:
    """The rooms that each table of a page names."""
    found = []
    for rest in (DESIGN / page).read_text("utf-8").split(_HEAD)[1:]:
        rows = rest.split("\n\n", 1)[0].splitlines()
        found.append({name for row in rows for name in _NAME.findall(row.split("|")[1])})
    return found


def rooms(room: str) -> set[str]:
    """The rooms within a room."""
    return {path.parent.name for path in (SOURCE / room).glob("*/__init__.py")}


@pytest.mark.parametrize(
    ("page", "number", "room"),
    [
        ("broker.md", 0, "broker"),
        ("overview.md", 0, "master"),
        ("overview.md", 1, "client"),
        ("overview.md", 2, "decode"),
        ("overview.md", 3, "spark"),
        ("overview.md", 4, "pipelines"),
        ("overview.md", 5, "wire"),
        ("storage.md", 0, "storage"),
    ],
)
def test_a_page_that_maps_a_room_names_its_rooms_and_no_others(page: str, number: int, room: str) -> None:
    assert tables(page)[number] - {"."} == rooms(room)


def test_every_room_is_in_the_overview() -> None:
    rooms = {path.stem for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}
    rooms -= {"__init__", "__main__", "__pycache__", "_version", "py"}
    text = (DESIGN / "overview.md").read_text("utf-8")
    named = {name for line in text.splitlines() if line.startswith("| `") for name in _NAME.findall(line.split("|")[1])}
    assert rooms <= named
