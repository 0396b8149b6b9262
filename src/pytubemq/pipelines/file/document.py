"""A file as a tree of values that know their places; what YAML and TOML are both read into.

The invariant: a scalar keeps the text that was written, so that `topic: no` is the topic "no" and not false.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the file; both begin at 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value."""

    text: str
    mark: Mark
    quoted: bool = False
    block: bool = False
    """Written as a block of lines below its key: the text's first line is the line after the mark."""

    @property
    def is_null(self) -> bool:
        """True if it has no value."""
        return not self.quoted and self.text in {"", "~", "null", "Null", "NULL"}


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value."""

    key: str
    mark: Mark
    value: Node


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping."""

    entries: tuple[Entry, ...]
    mark: Mark


Node = Scalar | Items | Table

_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9][0-9_]*)?\.?[0-9]*(?:[eE][-+]?[0-9]+)?")


def scalars(node: Node) -> Iterator[Scalar]:
    """Yield all single values of a tree."""
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, Items):
        for item in node.items:
            yield from scalars(item)
    else:
        for entry in node.entries:
            yield from scalars(entry.value)


def plain(node: Node) -> Any:
    """Convert a tree, such as a test's rows, to Python's own values. Dates and times stay text."""
    if isinstance(node, Items):
        return [plain(item) for item in node.items]
    if isinstance(node, Table):
        return {entry.key: plain(entry.value) for entry in node.entries}
    if node.quoted:
        return node.text
    if node.is_null:
        return None
    if node.text in {"true", "True", "TRUE"}:
        return True
    if node.text in {"false", "False", "FALSE"}:
        return False
    if _INT.fullmatch(node.text):
        return int(node.text.replace("_", ""))
    if _FLOAT.fullmatch(node.text) and any(char.isdigit() for char in node.text):
        return float(node.text.replace("_", ""))
    return node.text


def kind_of(node: Node) -> str:
    """Describe a node in words, for messages."""
    if isinstance(node, Items):
        return "a list"
    if isinstance(node, Table):
        return "a mapping"
    if node.is_null:
        return "nothing"
    shown = node.text if len(node.text) <= 40 else node.text[:37] + "..."
    return repr(shown)
