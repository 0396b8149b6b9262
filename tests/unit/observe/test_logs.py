"""One line an event, as text or as JSON."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING

import pytest

from pytubemq.observe.logs import configure, escape_last_resort

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    yield
    root.handlers[:], level = before
    root.setLevel(level)


def test_text() -> None:
    stream = io.StringIO()
    configure(level="info", form="text", stream=stream)
    logging.getLogger("pytubemq.x").info("hello %s", "you")
    logging.getLogger("pytubemq.x").debug("not shown")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("Z INFO    pytubemq.x  hello you")


def test_json_holds_the_trace_in_one_line() -> None:
    stream = io.StringIO()
    configure(level="warning", form="json", stream=stream)
    try:
        raise ValueError("ü\nx")
    except ValueError:
        logging.getLogger("pytubemq.x").exception("it failed")
    (line,) = stream.getvalue().splitlines()
    found = json.loads(line)
    assert (found["level"], found["logger"], found["message"]) == ("error", "pytubemq.x", "it failed")
    assert "ValueError: ü\nx" in found["error"]


FORGED = "g\n2026-01-31T12:00:00.000Z ERROR   pytubemq.x  forged\x1b[2J\x9b2J\u202e\u2028\ud800"


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_a_peer_says_forges_no_line_and_moves_no_terminal(form: str) -> None:
    stream = io.StringIO()
    configure(level="info", form=form, stream=stream)
    logging.getLogger("pytubemq.x").info("group %s is empty", FORGED)
    (line,) = stream.getvalue().split("\n")[:-1]
    assert line.isprintable()
    line.encode()
    if form == "json":
        assert json.loads(line)["message"] == f"group {FORGED} is empty"
    else:
        assert "\\x1b[2J\\x9b2J\\u202e" in line


@pytest.mark.parametrize("form", ["text", "json"])
def test_nor_does_it_in_a_traceback(form: str) -> None:
    stream = io.StringIO()
    configure(level="info", form=form, stream=stream)
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger("pytubemq.x").exception("it failed")
    first, *rest = stream.getvalue().split("\n")[:-1]
    assert "it failed" in first
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
    assert first.isprintable()
    assert bool(rest) is (form == "text")


def test_a_command_without_a_log_escapes_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert logging.lastResort is not None
    before = logging.lastResort.formatter
    root = logging.getLogger()
    handlers, root.handlers[:] = root.handlers[:], []
    try:
        escape_last_resort()
        logging.getLogger("pytubemq.y").warning("group %s", FORGED)
    finally:
        logging.lastResort.formatter = before
        root.handlers[:] = handlers
    line, end = capsys.readouterr().err.split("\n")
    assert (line.isprintable(), end) == (True, "")
    assert line.startswith("group g\\n2026")
