"""One line an event, as text or as JSON."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING

import pytest

from pytubemq.observe.logs import configure

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
