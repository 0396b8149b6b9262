"""A key of a pipeline file as a value: what it takes, its default and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """Sorts of keys, in the words of the reference page."""

    TEXT = "text"
    NAME = "name"
    SQL = "Spark SQL"
    FUNCTION = "module:function"
    COUNT = "number"
    SIZE = "size"
    DURATION = "duration"
    INTERVAL = "interval"
    RATIO = "share"
    FLAG = "true or false"
    CHOICE = "one of"
    TEXTS = "list of text"
    OPTIONS = "mapping of text"
    POSITIONS = "text or mapping"
    SECTION = "section"
    SECTIONS = "list of sections"
    ROWS = "list of rows"
    EXPECTED = "mapping of lists of rows"


_LATE: Final = frozenset(
    {
        "master", "user", "secret_file", "path", "url", "table", "topic", "options", "conf", "packages", "jars",
        "state", "sql",
    }
)  # fmt: skip
"""Fields in which references stay until they are used: places, and what may hold a secret."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section."""

    name: str
    kind: Kind
    doc: str
    field: str = ""
    """The field of the model's class; the key's own name if empty."""
    default: str = ""
    """As the reference page shows it; the value itself stands in the model."""
    choices: tuple[str, ...] = ()
    enum: type[StrEnum] | None = None
    """The model's type, for a choice that it has one for."""
    required: bool = False

    @property
    def takes(self) -> tuple[str, ...]:
        """The words of a choice."""
        if self.choices or self.enum is None:
            return self.choices
        return tuple(member.value for member in self.enum)

    @property
    def into(self) -> str:
        """The field of the model that it fills."""
        return self.field or self.name

    @property
    def at_once(self) -> bool:
        """True if a reference is looked up when the file is read."""
        return self.into not in _LATE


@dataclass(frozen=True, slots=True)
class Section:
    """A group of keys, and the class that they make."""

    path: str
    made: type
    doc: str
    keys: tuple[Key, ...]
    short: str = ""
    """The key that a bare text stands for: `trigger: 10s`."""

    def key(self, name: str) -> Key | None:
        """Return the key of a name."""
        return next((key for key in self.keys if key.name == name), None)
