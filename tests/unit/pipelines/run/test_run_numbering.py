"""Which rows a topic may number as they come: those of topics, whose division into tasks is the same again."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.pipelines.file.model import Pipeline, Source
from pytubemq.pipelines.run.batch import BatchBody, Shared
from pytubemq.pipelines.state.directory import StateDirectory
from pytubemq.pipelines.state.ledger import Ledger

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.pipelines.sinks.sink_writer import SinkContext


class _Body(BatchBody):
    def _frames(self, *args: Any) -> Any:
        return contextlib.nullcontext(SimpleNamespace(passed=None))

    def _deliver(self, frames: Any, entry: Any, context: SinkContext, result: Any) -> None:
        self.context = context


class _StateBody(_Body):
    map_only = False


@pytest.mark.parametrize(
    ("body_of", "source", "as_they_come"),
    [
        (_Body, Source(topics=("t",)), True),
        (_Body, Source(format="parquet", path="/in"), False),
        (_StateBody, Source(topics=("t",)), False),
    ],
)
def test_only_rows_of_topics_are_numbered_as_they_come(
    body_of: type[_Body], source: Source, as_they_come: bool, tmp_path: Path
) -> None:
    shared = Shared()
    shared.begun.set()
    ledger = Ledger(StateDirectory(str(tmp_path)))
    body = body_of("main", Pipeline("p", source), (), shared=shared, ledger=ledger, pipeline_id=lambda: "p-1")
    body(SimpleNamespace(sparkSession=None), 0)  # type: ignore[arg-type]
    assert shared.error is None
    assert body.context.map_only is as_they_come
