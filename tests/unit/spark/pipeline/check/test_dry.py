"""A dry run refuses no sink that a run takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.check import dry
from pytubemq.spark.pipeline.spec.model import Guarantee, Pipeline, Sink, SinkFormat, Source, Step
from pytubemq.spark.pipeline.spec.places import Places

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

WINDOWED = Pipeline(
    "p",
    Source(topics=("t",)),
    steps=(Step("counts", sql="SELECT at, count(*) AS n FROM input GROUP BY at"),),
    sinks=(Sink("out", SinkFormat.TUBEMQ, topic="t2", master="h:8715"),),
)


class _Writer:
    guarantee = Guarantee.EXACTLY_ONCE
    spec = WINDOWED.sinks[0]

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check

    def check(self, spark: Any, schema: Any) -> None:
        self._check()


def _checks(
    monkeypatch: pytest.MonkeyPatch, check: Callable[[], None], looked_at: Callable[..., None] = lambda *_: None
) -> list[dry.Check]:
    monkeypatch.setattr(dry, "keeps_state", lambda rows: True)
    monkeypatch.setattr(dry, "open_source", lambda spark, pipeline: _Opened())
    monkeypatch.setattr(dry, "apply_steps", lambda rows, pipeline: {"input": rows, "counts": rows})
    monkeypatch.setattr(dry, "check_output", looked_at)
    monkeypatch.setattr(dry, "make_sink", lambda sink: _Writer(check))
    run = dry._DryRun(None, WINDOWED, Places(str(Path("p.yaml"))), 1)  # type: ignore[arg-type]
    assert run._as_stream() == "counts keeps state"
    return list(run.sinks())


class _Opened:
    rows = None

    def accepted(self) -> None:
        return None


def test_rows_of_a_step_that_keeps_state_may_go_to_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = _checks(monkeypatch, lambda: None)
    assert (found.name, found.error, found.text) == ("sink out", None, "tubemq can be written, exactly once")


def test_rows_that_the_sink_would_refuse_in_a_batch_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(pipeline: Pipeline, sink: Sink, rows: Any, source: Any) -> None:
        raise ConfigError(f"sink {sink.name}: its rows are made at random")

    (found,) = _checks(monkeypatch, lambda: None, look)
    assert found.error is not None
    assert found.error.message == "sink out: its rows are made at random"


def test_what_the_sink_itself_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ConfigError("no such topic", hint="make it")

    (found,) = _checks(monkeypatch, refuse)
    assert found.error is not None
    assert found.error.message == "no such topic"
