"""TOML as a tree with places.

Python's TOML reader gives no places, so they are searched for in the text: by the headers of tables and the keys that
begin a line. Inside an inline table the place is that of the key's first mention after the table's own key.
"""

from __future__ import annotations

import re
import tomllib
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, Final

from pytubemq.model.limits import MAX_PIPELINE_DEPTH, MAX_PIPELINE_NODES
from pytubemq.pipelines.file.document import Entry, Items, Mark, Scalar, Table
from pytubemq.pipelines.file.faults import FaultCode

if TYPE_CHECKING:
    from pytubemq.pipelines.file.document import Node
    from pytubemq.pipelines.file.reading.yaml_file import Say

_PLACE: Final = re.compile(r"\(at line (\d+), column (\d+)\)")
_HEADER: Final = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART: Final = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_LONG_QUOTES: Final = ('"""', "'''")


def parse_toml(text: str, say: Say) -> Node | None:
    """Parse `text` to a tree; None if it is not TOML, with the reason given to `say`."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
        found = _PLACE.search(reason)
        mark = Mark(int(found[1]), int(found[2])) if found else _end(text)
        twice = "overwrite" in reason or "declare" in reason
        code = FaultCode.DUPLICATE_KEY if twice else FaultCode.SYNTAX
        say(code, mark, "", f"not TOML: {_PLACE.sub('', reason).replace('(at end of document)', '').strip()}", None)
        return None
    except RecursionError:
        say(FaultCode.TOO_LARGE, Mark(1, 1), "", f"more than {MAX_PIPELINE_DEPTH} levels deep", None)
        return None
    tree = _Tree(text, say)
    return tree.node(values, (), Mark(1, 1), 0)


def _end(text: str) -> Mark:
    lines = text.splitlines() or [""]
    return Mark(len(lines), len(lines[-1]) + 1)


class _Tree:
    def __init__(self, text: str, say: Say) -> None:
        self.say = say
        self.lines = text.splitlines()
        self.places = _places(self.lines)
        self.nodes = 0

    def node(self, value: Any, path: tuple[str | int, ...], mark: Mark, depth: int) -> Node:
        self.nodes += 1
        if depth > MAX_PIPELINE_DEPTH or self.nodes > MAX_PIPELINE_NODES:
            if self.nodes <= MAX_PIPELINE_NODES + 1:
                self.say(FaultCode.TOO_LARGE, mark, "", "more values or levels than a pipeline has", None)
            return Scalar("", mark)
        if isinstance(value, dict):
            entries = []
            for key, item in value.items():
                at = self.places.get((*path, key)) or self._inline(key, mark)
                entries.append(Entry(key, at, self.node(item, (*path, key), at, depth + 1)))
            return Table(tuple(entries), mark)
        if isinstance(value, list):
            items = (
                self.node(item, (*path, index), self.places.get((*path, index), mark), depth + 1)
                for index, item in enumerate(value)
            )
            return Items(tuple(items), mark)
        if isinstance(value, str):
            return Scalar(value, mark, quoted=True, block=self._long(mark))
        if isinstance(value, bool):
            return Scalar("true" if value else "false", mark)
        if isinstance(value, datetime | date | time):
            return Scalar(value.isoformat(), mark)
        return Scalar(repr(value), mark)

    def _inline(self, key: str, after: Mark) -> Mark:
        wanted = re.compile(rf"""(?<![\w-])["']?({re.escape(key)})["']?\s*=""")
        for number in range(after.line, min(after.line + 200, len(self.lines)) + 1):
            found = wanted.search(self.lines[number - 1], after.column - 1 if number == after.line else 0)
            if found:
                return Mark(number, found.start(1) + 1)
        return after

    def _long(self, mark: Mark) -> bool:
        line = self.lines[mark.line - 1] if mark.line <= len(self.lines) else ""
        return line.rstrip().endswith(_LONG_QUOTES)


def _places(lines: list[str]) -> dict[tuple[str | int, ...], Mark]:
    """Locate each table's header and each key at the beginning of a line."""
    places: dict[tuple[str | int, ...], Mark] = {}
    counts: dict[tuple[str | int, ...], int] = {}
    here: tuple[str | int, ...] = ()
    inside = ""
    for number, line in enumerate(lines, 1):
        if inside:
            inside = "" if inside in line else inside
            continue
        if header := _HEADER.match(line):
            here = _resolved(_parts(header[2]), counts)
            if header[1] == "[[":
                index = counts[here] = counts.get(here, -1) + 1
                places.setdefault(here, Mark(number, header.start(1) + 1))
                here = (*here, index)
            places.setdefault(here, Mark(number, header.start(1) + 1))
        elif key := _KEY.match(line):
            path = here
            for part in _parts(key[1]):
                path = (*path, part)
                places.setdefault(path, Mark(number, key.start(1) + 1))
        for quotes in _LONG_QUOTES:
            if line.count(quotes) == 1:
                inside = quotes
    return places


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _resolved(parts: tuple[str, ...], counts: dict[tuple[str | int, ...], int]) -> tuple[str | int, ...]:
    """Resolve a header's path: below a list of tables it means the list's last one."""
    path: tuple[str | int, ...] = ()
    for position, part in enumerate(parts):
        path = (*path, part)
        if path in counts and position < len(parts) - 1:
            path = (*path, counts[path])
    return path
