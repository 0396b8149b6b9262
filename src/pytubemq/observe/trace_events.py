"""Traces of messages, partitions and groups: their steps as events in the log at level debug.

The invariants: tracing costs nothing while it is off (`on` is checked once for a batch, before anything is built);
an event has names and numbers, never a payload; each event has its fields individually, for programs.
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
class TraceFilter:
    """The topics and groups that are traced; empty: all of them."""

    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> TraceFilter:
        """Parse `topic:orders,group:g1`, or `all`.

        Raises:
            ConfigError: it is malformed.
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
        """True if an event with these fields is traced: it has one of the topics, or one of the groups."""
        if not self.topics and not self.groups:
            return True
        return fields.get("topic") in self.topics or fields.get("group") in self.groups


class TraceEvents:
    """Records the events of one kind of thing."""

    wanted = TraceFilter()
    """The topics and groups that all traces of this process are about."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._logger = logging.getLogger(f"{ROOT}.{noun}")

    @property
    def on(self) -> bool:
        """True if events are recorded."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def record(self, event: str, **fields: object) -> None:
        """Record one event; fields that are None are left out."""
        if not self.on or not TraceEvents.wanted.about(fields):
            return
        given = {name: value for name, value in fields.items() if value is not None}
        line = " ".join([f"{self._noun} {event}", *(f"{name}={_text(value)}" for name, value in given.items())])
        self._logger.debug("%s", line, extra={"story": {"noun": self._noun, "event": event, **given}})


MESSAGE: Final = TraceEvents("message")
PARTITION: Final = TraceEvents("partition")
GROUP: Final = TraceEvents("group")


def configure_tracing(text: str) -> None:
    """Trace the topics and groups of a setting, whatever the log's level is; all of them with a level of debug.

    Raises:
        ConfigError: the text is malformed.
    """
    TraceEvents.wanted = TraceFilter.parse(text) if text else TraceFilter()
    logging.getLogger(ROOT).setLevel(logging.DEBUG if text else logging.NOTSET)


def _text(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
