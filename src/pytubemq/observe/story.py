"""The story of a message, a partition or a group: what became of it, step by step, in the log at level debug.

The invariants: a story costs nothing while nobody asked for it (`on` is looked at once for a batch, before anything is
put together); a line tells names and numbers, never a payload; each line has its fields apart, for programs.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = "pytubemq.story"
EVERYTHING: Final = "all"
_ITEM: Final = re.compile(r"(topic|group):([\w.-]+)", re.ASCII)
_PLAIN: Final = re.compile(r"[^\s\"=]+")


@dataclass(frozen=True, slots=True)
class Asked:
    """What stories are about; empty: about everything."""

    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Asked:
        """From `topic:orders,group:g1`, or `all`.

        Raises:
            ConfigError: it is neither.
        """
        if text.strip() == EVERYTHING:
            return cls()
        items = [_ITEM.fullmatch(item.strip()) for item in text.split(",")]
        if not all(items):
            raise ConfigError(
                f"log.story = {text!r} does not name topics or groups to trace",
                hint="write all, or names between commas as in topic:orders,group:g1",
            )
        named = [(item[1], item[2]) for item in items if item is not None]
        return cls(
            frozenset(name for kind, name in named if kind == "topic"),
            frozenset(name for kind, name in named if kind == "group"),
        )

    def about(self, fields: Mapping[str, object]) -> bool:
        """Whether a line with these fields is asked for: it has one of the topics, or one of the groups."""
        if not self.topics and not self.groups:
            return True
        return fields.get("topic") in self.topics or fields.get("group") in self.groups


class Story:
    """Tells what becomes of one kind of thing."""

    asked = Asked()
    """What all stories of this process are about."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._logger = logging.getLogger(f"{ROOT}.{noun}")

    @property
    def on(self) -> bool:
        """Whether anybody listens."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def record(self, event: str, **fields: object) -> None:
        """One step; fields that are None are left out."""
        if not self.on or not Story.asked.about(fields):
            return
        given = {name: value for name, value in fields.items() if value is not None}
        line = " ".join([f"{self._noun} {event}", *(f"{name}={_text(value)}" for name, value in given.items())])
        self._logger.debug("%s", line, extra={"story": {"noun": self._noun, "event": event, **given}})


MESSAGE: Final = Story("message")
PARTITION: Final = Story("partition")
GROUP: Final = Story("group")


def configure_stories(text: str) -> None:
    """Tell the stories that a setting asks for, whatever the log's level is; all that there are with a level of debug.

    Raises:
        ConfigError: the text does not say which.
    """
    Story.asked = Asked.parse(text) if text else Asked()
    logging.getLogger(ROOT).setLevel(logging.DEBUG if text else logging.NOTSET)


def _text(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
