"""The query that fed each sink, so that no sink is moved to a query that has not read what the sink has.

Each query has progress of its own. A sink that a change of the file moves (its step begins or ends to keep state, its
layout becomes log) would get again what it has, or never get what came meanwhile. The invariant: a sink's rows come
from one query as long as the progress lasts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytubemq.pipelines.events import MAIN
from pytubemq.pipelines.file.model import LOG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.state.directory import StateDirectory
    from pytubemq.pipelines.state.files import StateFiles

NAME: Final = "queries.json"


def checkpoint_of(query: str) -> str:
    """Return the directory of a query's progress, below the state directory."""
    return "checkpoint" if query == MAIN else f"checkpoint-{query}"


def log_query(sink: Sink) -> str:
    """Return the name of the query of Spark's own file sink."""
    return f"log-{sink.name}"


def step_query(step: str, *, updates: bool) -> str:
    """Return the name of the query of a step that keeps state; `updates`: of its sinks with keys."""
    return f"step-{step}-update" if updates else f"step-{step}"


def query_of(sink: Sink, step: str, *, stateful: bool) -> str:
    """Return the name of the query that feeds a sink.

    Args:
        sink: which one.
        step: whose rows it takes.
        stateful: True if that step keeps state.
    """
    if sink.layout == LOG:
        return log_query(sink)
    return step_query(step, updates=bool(sink.keys)) if stateful else MAIN


class Move(NamedTuple):
    """A sink that another query would feed than before."""

    sink: str
    before: str
    now: str


def moves(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Move]:
    """Yield the sinks that change their query; `before` and `now`: by sink, its query."""
    for sink, query in now.items():
        if before.get(sink, query) != query:
            yield Move(sink, before[sink], query)


def fed_before(files: StateFiles) -> dict[str, str]:
    """Return by sink the query that fed it, where that has made progress."""
    began: dict[str, bool] = {}
    found = {}
    for sink, query in _written(files).items():
        if query not in began:
            began[query] = any(name.isdigit() for name in files.names(f"{checkpoint_of(query)}/offsets"))
        if began[query]:
            found[sink] = query
    return found


def remember(state: StateDirectory, feeds: Mapping[str, str]) -> None:
    """Write down which query feeds which sink; what is known of sinks that the file has no more stays."""
    known = _written(state)
    if known | dict(feeds) != known:
        state.write(NAME, {"sinks": known | dict(feeds)})


def _written(files: StateFiles) -> dict[str, str]:
    text = files.read_bytes(NAME)
    try:
        value: Any = json.loads(text) if text else {}
    except ValueError:
        return {}
    sinks = value.get("sinks", {}) if isinstance(value, dict) else {}
    return {str(sink): str(query) for sink, query in sinks.items()} if isinstance(sinks, dict) else {}
