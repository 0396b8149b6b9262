"""No folder of `src` holds so many modules, and no module so many lines, that a reader loses the way in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

SOURCE = Path(__file__).parents[2] / "src"
MOST_MODULES: Final = 15
"""In one folder, beside its `__init__`; one with more says why in the docstring there ("One folder, since ...")."""
MOST_LINES: Final = 500


def modules_in(folder: Path) -> int:
    return sum(path.name != "__init__.py" for path in folder.glob("*.py"))


def says_why(folder: Path) -> bool:
    """True if the docstring of a folder gives the reason for its many modules."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    return re.search(r"\bOne folder, since \w+", docstring) is not None


def crowded(source: Path) -> list[str]:
    folders = {path.parent for path in source.rglob("*.py")}
    found = [folder for folder in sorted(folders) if modules_in(folder) > MOST_MODULES and not says_why(folder)]
    return [folder.relative_to(source).as_posix() for folder in found]


def too_long(source: Path) -> list[str]:
    """The modules with more lines than they may have."""
    found = []
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source).as_posix()
        lines = len(path.read_text("utf-8").splitlines())
        if lines > MOST_LINES:
            found.append(f"{name}: {lines}")
    return found


def test_no_folder_is_crowded_without_a_reason() -> None:
    assert crowded(SOURCE) == []


def test_no_module_is_too_long() -> None:
    assert too_long(SOURCE) == []


@pytest.mark.parametrize(
    ("modules", "docstring", "found"),
    [(15, "Values.", []), (16, "Values.", ["room"]), (16, "Values. One folder, since all are read together.", [])],
)
def test_a_crowded_folder_is_found(tmp_path: Path, modules: int, docstring: str, found: list[str]) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").write_text(f'"""{docstring}"""\n')
    for number in range(modules):
        (room / f"module_{number}.py").touch()
    assert crowded(tmp_path) == found


def test_a_long_module_is_found(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text("\n" * MOST_LINES)
    (tmp_path / "long.py").write_text("\n" * (MOST_LINES + 1))
    assert too_long(tmp_path) == [f"long.py: {MOST_LINES + 1}"]
