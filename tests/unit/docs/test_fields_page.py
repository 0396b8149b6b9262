"""Each field that comes from a peer has a row: what it may be, where that is checked, which test shows it."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scripts.docs.fields import DATA, fields, rows

ROOT = Path(__file__).parents[3]
TABLE = tomllib.loads(DATA.read_text("utf-8"))
ROWS = TABLE["row"]
ROOM = {"master": "master", "broker": "broker", "client": "client"}


def test_every_field_has_a_row() -> None:
    missing = [".".join(key) for key in fields() if key not in rows(TABLE)]
    assert not missing, "say in docs/design/fields.toml what these may be"


def test_every_row_is_of_a_field() -> None:
    there = fields()
    for row in ROWS:
        at, messages, names = row["at"], row["messages"], row["fields"]
        idle = [message for message in messages if not any((at, message, name) in there for name in names)]
        idle += [name for name in names if not any((at, message, name) in there for message in messages)]
        assert not idle, f"a row at {at} names these for nothing"


@pytest.mark.parametrize("check", sorted({row["check"] for row in ROWS if "check" in row}))
def test_the_check_exists(check: str) -> None:
    assert callable(_resolve(check))


@pytest.mark.parametrize("test", sorted({row["test"] for row in ROWS if "test" in row}))
def test_the_test_exists(test: str) -> None:
    path, _, name = test.partition("::")
    text = (ROOT / path).read_text("utf-8")
    assert re.search(rf"def {name or 'test_'}", text)


def test_a_row_has_both_or_none() -> None:
    for row in ROWS:
        assert ("check" in row) is ("test" in row) is ("bound" in row), row


def test_what_is_said_not_to_be_read_is_not_read() -> None:
    known = rows(TABLE)
    read_elsewhere = {(reader, name) for (reader, _, name), row in known.items() if "check" in row}
    for (reader, message, name), row in known.items():
        if "check" not in row and (reader, name) not in read_elsewhere:  # one name of two messages tells nothing
            read = [path.name for path in (ROOT / "src/pytubemq" / ROOM[reader]).rglob("*.py") if _reads(path, name)]
            assert not read, f"{message}.{name} is read in {read}"


def _resolve(check: str) -> Any:
    parts = check.split(".")
    for at in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:at]))
        except ModuleNotFoundError:
            continue
        for part in parts[at:]:
            found = getattr(found, part)
        return found
    raise AssertionError(f"there is no {check}")


def _reads(path: Path, name: str) -> bool:
    messages = "request|answer|response|head|info|told|tokens|event"
    return re.search(rf"\b(?:{messages})\.{name}\b", path.read_text("utf-8")) is not None
