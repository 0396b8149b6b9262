"""The log of Spark's file sink below a sink's path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import Pipeline, Sink, Source
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.rule import Compiled, Context, Need
from pytubemq.pipelines.rules.sinks import own_log
from pytubemq.pipelines.state.directory import StateDirectory
from pytubemq.pipelines.state.log_owner import SPARKS_LOG

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PIPELINE = Pipeline("p", Source(), sinks=(Sink("lake", "parquet", path="/lake", layout="log"),))


def test_a_log_of_another_progress_is_refused_at_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there: set[str] = set()

    class Files:
        def __init__(self, session: Any) -> None: ...

        def read(self, name: str) -> None: ...

        def exists(self, name: str) -> bool:
            return name in there

    monkeypatch.setattr(own_log, "HadoopFiles", Files)
    session: Any = None
    state = StateDirectory(str(tmp_path))
    sees = Need.PROGRESS | Need.SESSION
    context = Context(PIPELINE, unplaced(PIPELINE), sees, state=state, compiled=Compiled(session))
    assert list(own_log.check(context)) == []
    there.add(f"/lake/{SPARKS_LOG}")
    [found] = own_log.check(context)
    assert (found.code, found.key) == (FaultCode.OTHER_PROGRESS, "sinks.lake.path")
    assert found.message.startswith("/lake has the log of another query")
    assert "new path" in (found.hint or "")
