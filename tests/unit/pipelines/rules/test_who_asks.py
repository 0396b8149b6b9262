"""Commands and rules: each command asks all rules whose needs it can see, so none promises what a run refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import NotFoundError
from pytubemq.pipelines import PipelineFileError, RunStatus
from pytubemq.pipelines.check import cases
from pytubemq.pipelines.check import dry_run as dry
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import Case, Decode, Pipeline, Sink, Source
from pytubemq.pipelines.plan import plan_run
from pytubemq.pipelines.rules import registry
from pytubemq.pipelines.rules.lint import load_checked
from pytubemq.pipelines.rules.registry import BEFORE_SPARK, EVERYTHING, RULES
from pytubemq.pipelines.rules.rule import Need, Rule
from pytubemq.pipelines.run import engine, queries
from pytubemq.pipelines.state.directory import StateDirectory
from pytubemq.pipelines.state.progress import remember_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytubemq.pipelines.rules.rule import Context, Faults

SINK = Sink("out", "console")


class EndOfChecksError(Exception):
    """Raised where a run would begin to work."""


def stop(*given: Any, **more: Any) -> Any:
    raise EndOfChecksError


class Rows:
    """Rows of no Spark."""

    schema = None
    rows: Any = None
    decoded = False

    def accepted(self) -> Rows:
        return self


def pipeline(tmp_path: Path, topic: str = "t") -> Pipeline:
    return Pipeline(
        "p",
        Source(topics=(topic,), master="127.0.0.1:1"),
        decode=Decode("raw"),
        sinks=(SINK,),
        tests=(Case("case", (), expect={}),),
        state=str(tmp_path / "state"),
    )


def lint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("name: p\nsource: {topic: t}\nsinks: [{name: out, format: console}]\n")
    load_checked(file)


def run_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "decoded", lambda *given: (Rows(), None))
    monkeypatch.setattr(cases, "compiled", lambda *given: {"input": Rows()})
    session: Any = object()
    list(cases.run_tests(pipeline(tmp_path), spark=session))


def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, offline: bool = False, topic: str = "t") -> None:
    monkeypatch.setattr(plan_run, "look", stop)
    if offline:
        plan_run.plan_run(pipeline(tmp_path, topic), offline=True)
    else:
        with pytest.raises(EndOfChecksError):
            plan_run.plan_run(pipeline(tmp_path, topic))


def plan_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan(tmp_path, monkeypatch, offline=True)


def checks_of_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: str = "t") -> list[dry.Check]:
    def look(*given: Any) -> None:
        raise NotFoundError("no such topic")

    monkeypatch.setattr(dry, "look", look)
    monkeypatch.setattr(dry, "decoded", lambda *given: (Rows(), None))
    monkeypatch.setattr(dry, "compiled", lambda *given: {"input": Rows()})
    session: Any = object()
    return list(dry.dry_run(pipeline(tmp_path, topic), spark=session))


def dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks_of_dry_run(tmp_path, monkeypatch)


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Writer:
        spec = SINK
        check = stop

    monkeypatch.setattr(queries, "make_sink", lambda sink: Writer())
    monkeypatch.setattr(queries, "make_tables", lambda *given: None)
    monkeypatch.setattr(queries, "open_source", lambda *given: Rows())
    monkeypatch.setattr(queries, "apply_steps", lambda *given: {"input": Rows()})
    monkeypatch.setattr(queries, "keeps_state", lambda rows: False)
    monkeypatch.setattr(engine, "check_session", lambda session: None)
    monkeypatch.setattr(engine, "unheeded", lambda *given: [])
    monkeypatch.setattr(engine, "failed", lambda error, name: error)
    monkeypatch.setattr(engine._Run, "_failed", lambda run, error: run._lock.release(RunStatus.FAILED))
    session: Any = object()
    with pytest.raises(EndOfChecksError):
        engine.run_pipeline(pipeline(tmp_path), spark=session)


SIGHT: dict[Callable[[Path, pytest.MonkeyPatch], None], Need] = {
    lint: Need.FILE,
    run_tests: Need.FILE | Need.VALUES | Need.SESSION,
    plan_offline: Need.FILE | Need.VALUES | Need.PROGRESS,
    plan: BEFORE_SPARK,
    dry_run: EVERYTHING,
    run: EVERYTHING,
}


@pytest.mark.parametrize("command", SIGHT, ids=lambda command: command.__name__)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.check.__module__.rpartition(".")[2])
def test_each_command_that_can_see_what_a_rule_needs_asks_it(
    rule: Rule,
    command: Callable[[Path, pytest.MonkeyPatch], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Context] = []

    def check(context: Context) -> Faults:
        seen.append(context)
        return iter(())

    monkeypatch.setattr(registry, "RULES", (Rule(check, rule.needs, rule.sharper),))
    command(tmp_path, monkeypatch)
    assert bool(seen) is (rule.needs in SIGHT[command])
    most = Need.NOTHING
    for context in seen:
        most |= context.sees
        assert (context.state is not None) is (Need.PROGRESS in context.sees)
        assert (context.compiled is not None) is (Need.SESSION in context.sees)
    assert not seen or (rule.needs | rule.sharper) & SIGHT[command] in most


def make_progress_with_topic(topic: str, tmp_path: Path) -> None:
    state = StateDirectory(str(tmp_path / "state"))
    state.write("run.json", {"status": "finished"})
    remember_source(state, pipeline(tmp_path, topic))
    state.write("checkpoint/offsets/0", {})


@pytest.mark.parametrize("offline", [True, False])
def test_a_plan_refuses_a_state_with_the_progress_of_another_topic(
    offline: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_progress_with_topic("other", tmp_path)
    with pytest.raises(PipelineFileError, match="has the progress of pipeline p reading tubemq other") as refused:
        plan(tmp_path, monkeypatch, offline=offline)
    assert [fault.code for fault in refused.value.faults] == [FaultCode.OTHER_PROGRESS]
    plan(tmp_path, monkeypatch, offline=True, topic="other")


def test_a_dry_run_reports_a_state_with_the_progress_of_another_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_progress_with_topic("other", tmp_path)
    monkeypatch.setattr(registry, "RULES", tuple(one for one in RULES if not one.needs & (Need.CLUSTER | Need.SESSION)))
    [found] = [check for check in checks_of_dry_run(tmp_path, monkeypatch) if check.name == "state"]
    assert "has the progress of pipeline p reading tubemq other" in str(found.error)
    assert "state" not in [check.name for check in checks_of_dry_run(tmp_path, monkeypatch, topic="other")]


@pytest.mark.parametrize("location", ["{}/none", "file://{}/none"])
def test_looking_into_a_state_makes_none(location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_run.plan_run(replace(pipeline(tmp_path), state=location.format(tmp_path)), offline=True)
    assert list(tmp_path.iterdir()) == []
