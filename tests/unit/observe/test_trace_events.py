"""Stories of messages, partitions and groups."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.observe.logs import configure
from pytubemq.observe.trace_events import GROUP, MESSAGE, ROOT, TraceFilter, configure_tracing

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _quiet_again() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    yield
    root.handlers[:], level = before
    root.setLevel(level)
    configure_tracing("")


def told(*, level: str, story: str, form: str = "text") -> list[str]:
    """The lines that some steps make."""
    stream = io.StringIO()
    configure(level=level, form=form, stream=stream, story=story)
    MESSAGE.record("written", topic="orders", partition=3, offset=28, producer=None)
    MESSAGE.record("written", topic="others", partition=0, offset=56)
    GROUP.record("joined", group="g1", member="a b", topics='x="1"')
    return [line.partition("  ")[2].partition("  ")[2] or line for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(("level", "story"), [("info", "all"), ("error", "all"), ("debug", "")])
def test_all_stories_are_told_to_whoever_asks_for_all(level: str, story: str) -> None:
    assert [line.rpartition("  ")[2] for line in told(level=level, story=story)] == [
        "message written topic=orders partition=3 offset=28",
        "message written topic=others partition=0 offset=56",
        r'group joined group=g1 member="a b" topics="x=\"1\""',
    ]


def test_nobody_who_asks_for_none_is_told_any() -> None:
    assert told(level="info", story="") == []
    assert not MESSAGE.on


@pytest.mark.parametrize(
    ("story", "found"),
    [("topic:orders", ["orders"]), ("group:g1", ["g1"]), ("topic:others, group:g1", ["others", "g1"]), ("group:x", [])],
)
def test_only_what_was_named_is_told(story: str, found: list[str]) -> None:
    lines = told(level="info", story=story)
    assert [name for line in lines for name in ("orders", "others", "g1") if f"={name} " in line] == found
    assert len(lines) == len(found)


def test_programs_find_the_fields_apart() -> None:
    first = json.loads(told(level="info", story="topic:orders", form="json")[0])
    assert first["story"] == {"noun": "message", "event": "written", "topic": "orders", "partition": 3, "offset": 28}
    assert (first["level"], first["logger"]) == ("debug", f"{ROOT}.message")


@pytest.mark.parametrize("text", ["everything", "topic:", "topic:a;group:b", "partition:a", ","])
def test_what_names_no_story_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"log\.story") as refused:
        TraceFilter.parse(text)
    assert "topic:orders" in str(refused.value.hint)
