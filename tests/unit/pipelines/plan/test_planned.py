"""A plan in words and as JSON, against the files in `golden`; the same twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytubemq.pipelines.analysis.step_state import keeps_state, surely_keep_state
from pytubemq.pipelines.file.model import (
    DeadLetter,
    Decode,
    Guarantee,
    Limit,
    Pipeline,
    Sink,
    Source,
    Step,
    Trigger,
    TriggerKind,
    Watermark,
)
from pytubemq.pipelines.file.writing.normal_form import as_dict
from pytubemq.pipelines.plan.cluster_state import Looked, PartitionLook, progress, queries_beside
from pytubemq.pipelines.plan.plan_text import plan_lines
from pytubemq.pipelines.plan.planned import Plan, build_plan

GOLDEN = Path(__file__).parent / "golden"
ORDERS = Pipeline(
    "orders",
    Source(topics=("demo",), start="earliest", limit=Limit(rows=200_000)),
    decode=Decode("json", "id BIGINT, at TIMESTAMP, amount DECIMAL(12,2)"),
    steps=(
        Step("paid", "SELECT *, date(at) AS day FROM input WHERE amount > 0"),
        Step("per_day", "SELECT day, count(*) AS orders FROM paid GROUP BY day"),
    ),
    sinks=(
        Sink("lake", "parquet", "paid", path="/tables/orders", guarantee=Guarantee.EXACTLY_ONCE),
        Sink("board", "jdbc", url="jdbc:postgresql://u:secret@h/d", table="days", keys=("day",)),
        Sink("out", "kafka", "paid", topic="orders", options={"kafka.bootstrap.servers": "h:9092"}),
    ),
    dead_letter=DeadLetter("tubemq", topic="rejected"),
    state="/state/orders",
)
LOOKED = Looked(
    tuple(PartitionLook(f"1:demo:{n}", 0, 0, 28 * 125_000, 125_000) for n in range(4)), java=False, goes_on=False
)
BEFORE = as_dict(
    replace(
        ORDERS,
        source=replace(ORDERS.source, start="latest"),
        sinks=(replace(ORDERS.sinks[0], partition_by=("day",)), *ORDERS.sinks[1:]),
    )
)
FILES = Pipeline(
    "feed",
    Source(format="parquet", path="/in"),
    sinks=(Sink("topic", "tubemq", topic="demo"),),
    trigger=Trigger(TriggerKind.INTERVAL, "10 seconds"),
    state="/state/feed",
)
COLUMNS = {"input": "id:bigint", "paid": "id:bigint,day:date"}
PLANS: dict[str, Plan] = {
    "first": build_plan(ORDERS, looked=LOOKED),
    "again": build_plan(ORDERS, looked=replace(LOOKED, goes_on=True), last=BEFORE),
    "java": build_plan(ORDERS, looked=replace(LOOKED, java=True)),
    "offline": build_plan(replace(ORDERS, dead_letter=None)).with_columns(COLUMNS),
    "files": build_plan(FILES, last=as_dict(FILES)),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_reads_as_it_did(name: str) -> None:
    assert "\n".join(plan_lines(PLANS[name])) + "\n" == (GOLDEN / f"{name}.txt").read_text("utf-8")
    assert json.dumps(PLANS[name].as_json(), indent=1) + "\n" == (GOLDEN / f"{name}.json").read_text("utf-8")


def test_the_same_pipeline_has_the_same_plan_twice() -> None:
    one, two = (json.dumps(build_plan(ORDERS, looked=LOOKED, last=BEFORE).as_json()) for _ in range(2))
    assert one == two


def test_no_secret_is_in_a_plan() -> None:
    assert "secret" not in json.dumps(PLANS["first"].as_json()).replace("secrets", "")


@pytest.mark.parametrize(
    ("step", "keeps"),
    [
        (Step("a", "SELECT * FROM input"), False),
        (Step("a", "SELECT count(*) FROM input"), True),
        (Step("a", "SELECT DISTINCT x FROM input"), True),
        (Step("a", "SELECT x FROM input GROUP BY x"), True),
        (Step("a", "SELECT 'group by', count FROM input -- group by"), False),
        (Step("a", "SELECT x FROM input", watermark=Watermark("at", "10 minutes")), True),
        (Step("a", python="m:f"), False),
    ],
)
def test_state_is_told_from_a_steps_words(step: Step, keeps: bool) -> None:
    assert keeps_state(step) is keeps


class _Files:
    """A state directory of a dictionary."""

    location = "/state"

    def __init__(self, held: dict[str, bytes]) -> None:
        self.held = held

    def read_bytes(self, name: str) -> bytes | None:
        return self.held.get(name)

    def names(self, under: str) -> Any:
        return (name.removeprefix(f"{under}/") for name in self.held if name.startswith(f"{under}/"))

    def directories(self, beginning: str) -> list[str]:
        return sorted({name.partition("/")[0] for name in self.held if "/" in name and name.startswith(beginning)})

    def exists(self, name: str) -> bool:
        return any(held == name or held.startswith(f"{name}/") for held in self.held)

    def write(self, name: str, value: dict[str, Any]) -> None:
        self.held[name] = json.dumps(value).encode()


def test_without_main_progress_is_what_all_other_queries_have_passed() -> None:
    held = {
        "checkpoint-log-lake/commits/0": b"",
        "checkpoint-log-lake/offsets/0": b'v1\n{}\n{"1:demo:0": 56, "1:demo:1": 28}',
        "checkpoint-step-per_day-update/commits/3": b"",
        "checkpoint-step-per_day-update/offsets/3": b'v1\n{}\n{"1:demo:0": 84}',
    }
    pipeline = replace(ORDERS, sinks=(Sink("lake", "parquet", path="/lake", layout="log"),))
    assert progress(_Files(held), queries_beside(pipeline)) == {"1:demo:0": 56, "1:demo:1": 28}
    main = {"checkpoint/commits/0": b"", "checkpoint/offsets/0": b'v1\n{}\n{"1:demo:0": 112}'}
    assert progress(_Files(held | main), queries_beside(pipeline)) == {"1:demo:0": 112}


def test_steps_that_surely_keep_state_are_those_that_group_the_stream() -> None:
    steps = (
        Step("priced", "SELECT * FROM input JOIN (SELECT k, max(v) AS v FROM prices GROUP BY k) USING (k)"),
        Step("marked", "SELECT * FROM priced", watermark=Watermark("at", "1 minute")),
        Step("Counted", "SELECT k, count(*) AS n FROM MARKED GROUP BY k"),
        Step("shown", python="m:f"),
        Step("listed", "SELECT DISTINCT k FROM input"),
        Step("plain", "SELECT 'group by' FROM input"),
    )
    assert surely_keep_state(replace(ORDERS, steps=steps)) == ["Counted", "shown", "listed"]


def test_progress_is_that_of_the_last_finished_batch() -> None:
    held = {
        "checkpoint/commits/9": b"v1\n{}",
        "checkpoint/commits/10": b"v1\n{}",
        "checkpoint/offsets/9": b'v1\n{}\n{"1:demo:0": 28}',
        "checkpoint/offsets/10": b'v1\n{}\n{"1:demo:0": 56}',
        "checkpoint/offsets/11": b'v1\n{}\n{"1:demo:0": 84}',
    }
    assert progress(_Files(held)) == {"1:demo:0": 56}
    assert progress(_Files({})) == {}
    assert progress(_Files({"checkpoint/commits/0": b"", "checkpoint/offsets/0": b"v1\n{}\n{"})) == {}
