"""Progress of one source is not taken for another's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.pipelines.file.model import Pipeline, Source
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.rule import Context, Need
from pytubemq.pipelines.rules.source import own_progress
from pytubemq.pipelines.state.directory import StateDirectory
from pytubemq.pipelines.state.progress import has_progress, remember_source

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.pipelines.file.faults import Fault


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(str(tmp_path / "state"))


def faults(state: StateDirectory, pipeline: Pipeline) -> list[Fault]:
    context = Context(pipeline, unplaced(pipeline), Need.VALUES | Need.PROGRESS, state=state)
    return list(own_progress.check(context))


def take(state: StateDirectory, pipeline: Pipeline) -> None:
    """As a run does that begins."""
    assert faults(state, pipeline) == []
    remember_source(state, pipeline)


@pytest.mark.parametrize(
    ("other", "refused"),
    [
        (Pipeline("p", Source(topics=("b",))), True),
        (Pipeline("p", Source(format="parquet", path="/x")), True),
        (Pipeline("q", Source(topics=("a",))), True),
        (Pipeline("p", Source(topics=("a", "b"))), False),
        (Pipeline("p", Source(topics=("a",), master="prod:8715")), True),
        (Pipeline("p", Source(topics=("a",), options={"master": "prod"})), True),
        (Pipeline("p", Source(topics=("a",), master="prod:8715,TEST-2")), False),
        (Pipeline("p", Source(topics=("a",))), False),
    ],
)
def test_progress_of_one_source_is_not_taken_for_another_s(
    state: StateDirectory, tmp_path: Path, other: Pipeline, refused: bool
) -> None:
    take(state, Pipeline("p", Source(topics=("a",), master="test-1:8715,test-2:8715")))
    (tmp_path / "state" / "checkpoint/offsets").mkdir(parents=True)
    (tmp_path / "state" / "checkpoint/offsets/0").touch()
    if refused:
        [found] = faults(state, other)
        assert "has the progress of pipeline p reading tubemq a (test-1:8715," in found.message
        assert ("add an old Master to" in (found.hint or "")) == ("prod" in found.message)
    else:
        assert faults(state, other) == []


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"subscribe": "other"}, True),
        ({"subscribe": "a,b", "maxOffsetsPerTrigger": "7"}, False),
        ({"subscribe": "a", "kafka.bootstrap.servers": "k9:9092"}, True),
    ],
)
def test_options_that_say_which_rows_another_source_has_count(
    state: StateDirectory, tmp_path: Path, options: dict[str, str], refused: bool
) -> None:
    first = {"subscribe": "a", "kafka.bootstrap.servers": "k1:9092,k2:9092"}
    take(state, Pipeline("p", Source(format="kafka", options=first)))
    (tmp_path / "state" / "checkpoint/offsets").mkdir(parents=True)
    (tmp_path / "state" / "checkpoint/offsets/0").touch()
    if refused:
        [found] = faults(state, Pipeline("p", Source(format="kafka", options=options)))
        assert "has the progress of" in found.message
    else:
        assert faults(state, Pipeline("p", Source(format="kafka", options=options))) == []


@pytest.mark.parametrize("checkpoint", ["checkpoint", "checkpoint-log-lake", "checkpoint-step-x"])
def test_the_progress_of_any_query_is_progress(state: StateDirectory, tmp_path: Path, checkpoint: str) -> None:
    take(state, Pipeline("p", Source(topics=("a",), master="test:8715")))
    take(state, Pipeline("p", Source(topics=("b",), master="test:8715")))  # nothing was read yet
    (tmp_path / "state" / checkpoint / "offsets").mkdir(parents=True)
    (tmp_path / "state" / checkpoint / "metadata").touch()  # begun, and no batch: a name that was wrong is corrected
    take(state, Pipeline("p", Source(topics=("c",), master="test:8715")))
    assert not has_progress(state)
    (tmp_path / "state" / checkpoint / "offsets/0").touch()
    [found] = faults(state, Pipeline("p", Source(topics=("a",), master="test:8715")))
    assert "has the progress of pipeline p reading tubemq c" in found.message


def test_where_another_source_began_by_itself_is_progress(state: StateDirectory, tmp_path: Path) -> None:
    take(state, Pipeline("p", Source(format="kafka", options={"subscribe": "a"})))
    (tmp_path / "state/checkpoint/sources/0").mkdir(parents=True)
    [found] = faults(state, Pipeline("p", Source(format="kafka", options={"subscribe": "b"})))
    assert "has the progress of" in found.message
    assert "pipeline reset FILE" in (found.hint or "")
