"""What a page says lies in a file or folder of the package lies there: each path that is named exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src/pytubemq"
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("bench/*.md")])
ROOMS = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(rf"(?:src/pytubemq/)?((?:{'|'.join(ROOMS)})(?:/(?!test_)\w+)+(?:\.py)?)/?")


def missing(text: str) -> list[str]:
    """Return the paths below a room that a page names and that do not exist, written with or without `.py`."""
    found = [match[1] for code in _CODE.findall(text) if (match := _PATH.fullmatch(code))]
    return [path for path in found if not any((SOURCE / f"{path}{end}").exists() for end in ("", ".py"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    assert missing(page.read_text("utf-8")) == []


def test_a_file_that_does_not_exist_is_found() -> None:
    there = "`wire/text`, `model/limits.py`, `src/pytubemq/core/balance/`, `wire/text/strings`, `and/or`"
    assert missing(there) == []
    assert missing("`wire/no_such_thing` `model/limits/more.py`") == ["wire/no_such_thing", "model/limits/more.py"]
