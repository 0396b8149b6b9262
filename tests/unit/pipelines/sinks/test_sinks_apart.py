"""No sink knows another: each can be read, changed and deleted alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import pytubemq
from tests.support.import_graph import Graph, graph_of, reached_from

PACKAGE = Path(pytubemq.__file__).parent
SINKS = "pytubemq.pipelines.sinks"
KINDS = sorted(path.parent.name for path in (PACKAGE / "pipelines/sinks").glob("*/kind.py"))


def sinks_among(modules: set[str]) -> set[str]:
    """The sinks to whose folders some of the modules belong."""
    folders = {name.removeprefix(f"{SINKS}.").partition(".")[0] for name in modules if name.startswith(f"{SINKS}.")}
    return folders & {*KINDS}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return graph_of(PACKAGE)


def test_no_sink_imports_another_itself_or_through_what_they_share(graph: Graph) -> None:
    for kind in KINDS:
        own = {name for name in graph if name == f"{SINKS}.{kind}" or name.startswith(f"{SINKS}.{kind}.")}
        assert sinks_among(set().union(*(reached_from(name, graph) for name in own))) <= {kind}


def test_what_sinks_share_imports_none_of_them(graph: Graph) -> None:
    shared = [name for name in graph if name.startswith(f"{SINKS}.") and not sinks_among({name})]
    assert shared
    assert {name: found for name in shared if (found := sinks_among(reached_from(name, graph)))} == {}


@pytest.mark.parametrize("kind", KINDS)
def test_each_folder_with_a_kind_is_seen_as_a_sink(kind: str) -> None:
    assert sinks_among({f"{SINKS}.{kind}.writer", f"{SINKS}.make", "pytubemq.model.ids"}) == {kind}
