"""What imports what in a package of ours, module by module, as a graph that a test can ask."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Graph = dict[str, set[str]]


def modules_of(package: Path) -> dict[str, Path]:
    """The file of each module; a package's is its `__init__`."""
    found: dict[str, Path] = {}
    for path in package.rglob("*.py"):
        parts = (package.name, *path.relative_to(package).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_by(source: str, known: Mapping[str, Path]) -> Iterator[str]:
    """The known modules that a source imports anywhere in it; `from package import name` may name a module, too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports name their module in full here"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                name = inner if inner in known else node.module or ""
                if name in known:
                    yield name


def graph_of(package: Path) -> Graph:
    """What each module imports, of its own package and without itself."""
    known = modules_of(package)
    return {name: {*imported_by(path.read_text(), known)} - {name} for name, path in known.items()}


def reached_from(name: str, graph: Graph) -> set[str]:
    """All modules that one imports, itself or through others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found
