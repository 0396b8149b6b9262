"""Line and column of each key and value of a file, kept apart from the values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.document import Mark, Scalar
from pytubemq.pipelines.file.faults import Fault, FaultCode, severity_of

if TYPE_CHECKING:
    from pytubemq.errors import TubeError
    from pytubemq.pipelines.file.document import Node
    from pytubemq.pipelines.file.model import Pipeline

_INDEX: Final = re.compile(r"^([a-z_]+)\[(\d+)\]")
_LAST: Final = re.compile(r"(\.[^.\[\]]+|\[\d+\])$")


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """A key and its value."""

    key: Mark
    value: Mark
    block: bool = False
    """The value is a block of lines that begins below `value`."""


@dataclass(slots=True)
class Places:
    """By path, as in `sinks[0].path`; and the names of what stands in lists, for showing."""

    file: str
    by_path: dict[str, KeyPlace] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """`sinks[0]` to `lake`."""
    lines: tuple[str, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)
    """The text of each scalar."""

    def add(self, path: str, key: Mark, node: Node) -> None:
        """Remember where a key and its value stand."""
        self.by_path[path] = KeyPlace(key, node.mark, block=isinstance(node, Scalar) and node.block)
        if isinstance(node, Scalar):
            self.texts[path] = node.text

    def of(self, path: str) -> KeyPlace:
        """Return the place of a path, or of the nearest one above it that is in the file."""
        if path == "source.topics[0]" and path not in self.by_path:
            path = "source.topic"
        while path and path not in self.by_path:
            path = _LAST.sub("", path) if _LAST.search(path) else ""
        return self.by_path.get(path, KeyPlace(Mark(1, 1), Mark(1, 1)))

    def shown(self, path: str) -> str:
        """Format a path with names for numbers: `sinks.lake.path`."""
        found = _INDEX.match(path)
        if found is None:
            return path
        name = self.names.get(found[0])
        return f"{found[1]}.{name}{path[found.end() :]}" if name else path

    def inside(self, path: str, line: int, column: int) -> Mark:
        """Locate a place inside a text of the file, such as a query: `line` and `column` begin at 1 in that text."""
        place = self.of(path)
        if place.block:
            number = place.value.line + line
            text = self.lines[place.value.line] if place.value.line < len(self.lines) else ""
            return Mark(number, len(text) - len(text.lstrip()) + column)
        if line == 1:
            quoted = self._char(place.value) in {'"', "'"}
            return Mark(place.value.line, place.value.column + column - 1 + quoted)
        return Mark(place.value.line + line - 1, column)

    def fault(
        self, code: FaultCode, path: str, message: str, hint: str | None = None, *, at: Mark | None = None,
        at_key: bool = False, cause: TubeError | None = None,
    ) -> Fault:  # fmt: skip
        """Create a fault of a path, placed at its value unless said otherwise."""
        place = self.of(path)
        mark = at or (place.key if at_key else place.value)
        return Fault(
            self.file, mark.line, mark.column, severity_of(code), self.shown(path), message, hint, code,
            path=path, at_key=at_key, cause=cause,
        )  # fmt: skip

    def placed(self, fault: Fault) -> Fault:
        """Add line and column to a fault that was found without the file."""
        return self.fault(
            fault.code, fault.path, fault.message, fault.hint, at_key=fault.at_key, cause=fault.cause
        )  # fmt: skip

    def _char(self, mark: Mark) -> str:
        line = self.lines[mark.line - 1] if 0 < mark.line <= len(self.lines) else ""
        return line[mark.column - 1 : mark.column]


def unplaced(pipeline: Pipeline) -> Places:
    """Return places for a pipeline whose file is not at hand: no lines, but the names by which faults are shown."""
    names: dict[str, list[str]] = {
        "tables": [table.name for table in pipeline.tables],
        "steps": [step.name for step in pipeline.steps],
        "sinks": [sink.name for sink in pipeline.sinks],
        "tests": [case.name for case in pipeline.tests],
    }
    return Places("", names={f"{kind}[{at}]": name for kind, many in names.items() for at, name in enumerate(many)})
