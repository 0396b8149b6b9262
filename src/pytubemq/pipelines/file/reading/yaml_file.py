"""YAML as a tree with places. No tag is obeyed: values stay text until a key says what they are.

The invariant: work and memory are bounded by the file's size; an alias is read once for each use, and the tree that
comes of it may not exceed `MAX_NODES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.errors import MissingExtraError
from pytubemq.model.limits import MAX_PIPELINE_DEPTH, MAX_PIPELINE_NODES
from pytubemq.pipelines.file.document import Entry, Items, Mark, Scalar, Table
from pytubemq.pipelines.file.faults import FaultCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytubemq.pipelines.file.document import Node

    Say = Callable[[FaultCode, Mark, str, str, str | None], None]
    """code, place, key, message, hint"""

_CONTAINERS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:str"}
_PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "timestamp", "merge", "value")}


def parse_yaml(text: str, say: Say) -> Node | None:
    """Parse the one document in `text` to a tree; None if there is none, with the reason given to `say`."""
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError("spark", "a pipeline file in YAML") from error
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if _depth(yaml.parse(text, Loader=loader)) > MAX_PIPELINE_DEPTH:
            say(FaultCode.TOO_LARGE, Mark(1, 1), "", f"more than {MAX_PIPELINE_DEPTH} levels deep", None)
            return None
        composed = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        mark = Mark(at.line + 1, at.column + 1) if at else Mark(1, 1)
        reason = error.problem or error.context or "cannot be read"
        say(FaultCode.SYNTAX, mark, "", f"not YAML: {reason}", _syntax_hint(text, mark))
        return None
    except yaml.YAMLError as error:
        say(FaultCode.SYNTAX, Mark(1, 1), "", f"not YAML: {str(error).splitlines()[0]}", None)
        return None
    if composed is None:
        return Table((), Mark(1, 1))
    return _Reader(say).node(composed, "", 0)


def _depth(events: Iterable[Any]) -> int:
    """Measure the nesting of lists and mappings before a tree is made, which needs stack for each level."""
    deepest = depth = 0
    for event in events:
        name = type(event).__name__
        if name in {"MappingStartEvent", "SequenceStartEvent"}:
            depth += 1
            deepest = max(deepest, depth)
            if deepest > MAX_PIPELINE_DEPTH:
                break
        elif name in {"MappingEndEvent", "SequenceEndEvent"}:
            depth -= 1
    return deepest


def _syntax_hint(text: str, mark: Mark) -> str | None:
    lines = text.splitlines()
    line = lines[mark.line - 1] if 0 < mark.line <= len(lines) else ""
    if "\t" in line[: max(mark.column, 1)]:
        return "indent with spaces, not tabs"
    return None


class _Reader:
    def __init__(self, say: Say) -> None:
        self.say = say
        self.nodes = 0
        self.has_failed = False

    def node(self, node: Any, path: str, depth: int) -> Node:
        mark = Mark(node.start_mark.line + 1, node.start_mark.column + 1)
        self.nodes += 1
        if depth > MAX_PIPELINE_DEPTH or self.nodes > MAX_PIPELINE_NODES:
            self._too_large(mark, path, depth)
            return Scalar("", mark)
        if node.tag not in _CONTAINERS and node.tag not in _PLAIN:
            self.say(FaultCode.SYNTAX, mark, path, f"the tag {node.tag} is not allowed", "write the value plainly")
        if node.id == "scalar":
            return Scalar(node.value, mark, quoted=bool(node.style), block=node.style in {"|", ">"})
        if node.id == "sequence":
            items = (self.node(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(node.value))
            return Items(tuple(items), mark)
        return self._table(node, mark, path, depth)

    def _table(self, node: Any, mark: Mark, path: str, depth: int) -> Table:
        entries: list[Entry] = []
        first: dict[str, Mark] = {}
        for key, value in node.value:
            at = Mark(key.start_mark.line + 1, key.start_mark.column + 1)
            if key.id != "scalar":
                self.say(FaultCode.WRONG_TYPE, at, path, "a key must be a word", None)
                continue
            name = str(key.value)
            here = f"{path}.{name}" if path else name
            if name in first:
                self.say(FaultCode.DUPLICATE_KEY, at, here, f"is already in line {first[name].line}", None)
                continue
            first[name] = at
            entries.append(Entry(name, at, self.node(value, here, depth + 1)))
        return Table(tuple(entries), mark)

    def _too_large(self, mark: Mark, path: str, depth: int) -> None:
        if self.has_failed:
            return
        self.has_failed = True
        deep = depth > MAX_PIPELINE_DEPTH
        what = f"{MAX_PIPELINE_DEPTH} levels deep" if deep else f"{MAX_PIPELINE_NODES} values with all aliases"
        self.say(FaultCode.TOO_LARGE, mark, path, f"more than {what}", None)
