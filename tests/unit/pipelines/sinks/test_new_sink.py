"""A new kind of sink is a folder and a line: all else asks the kind."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines import lint, load_checked
from pytubemq.pipelines.file.model import DeadLetter, Pipeline, Sink, Source
from pytubemq.pipelines.file.sink_table import SINKS, sink_kinds
from pytubemq.pipelines.file.writing.file_form import as_written
from pytubemq.pipelines.file.writing.json_schema import json_schema
from pytubemq.pipelines.file.writing.normal_form import as_dict
from pytubemq.pipelines.file.writing.template import template
from pytubemq.pipelines.operate.backfill import backfill_effects
from pytubemq.pipelines.plan.planned import build_plan
from pytubemq.pipelines.run.session import settings
from pytubemq.pipelines.sinks.sink_factory import make_dead_letters, make_sink
from scripts.docs.pipeline import file_tables, guarantee_tables

if TYPE_CHECKING:
    from pathlib import Path

HOUSE = """\
name: orders
state: /state
source: {{topic: demo}}
sinks:
  - {{name: box, {sink}}}
"""


@pytest.fixture(autouse=True)
def the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SINKS, "mailbox", "tests.unit.pipelines.sinks.mailbox")


def told(tmp_path: Path, sink: str) -> list[str]:
    file = tmp_path / "orders.yaml"
    file.write_text(HOUSE.format(sink=sink), "utf-8")
    return [f"{fault.code} {fault.text}" for fault in lint(file)]


def pipeline(**more: object) -> Pipeline:
    sink = Sink("box", "mailbox", more={"box": "4711"})
    return Pipeline("orders", Source(topics=("demo",)), sinks=(replace(sink, **more),), state="/state")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sink", "faults"),
    [
        ("format: mailbox, box: 4711, size: A5", []),
        ("format: mailbox", ["P024 sinks.box: of format mailbox needs the key box"]),
        ("format: mailbox, box: x", ["P013 sinks.box.box: 'x' is not the number of a mailbox, as 4711"]),
        ("format: mailbox, box: 1, size: A3", ["P013 sinks.box.size: does not take 'A3', it takes A4, A5"]),
        (
            "format: mailbox, box: 1, options: {stamp: 3}",
            ["P031 sinks.box.options.stamp: is set by the runner, delete it"],
        ),
        (
            "format: mailbox, box: 1, topic: t",
            ["P025 sinks.box.topic: has no effect for the format mailbox, it is for kafka, tubemq only"],
        ),
        (
            "format: console, box: 1",
            ["P025 sinks.box.box: has no effect for the format console, it is for mailbox only"],
        ),
        (
            "format: mailbox, box: 1, guarantee: exactly_once",
            [
                "P026 sinks.box.guarantee: exactly_once is not possible: a replay posts the letters again, "
                "ask for at_least_once"
            ],
        ),
        ("format: mailbox, box: 1, guarantee: exactly_once, options: {registered: 'yes'}", []),
        (
            "format: mailbox, box: 1}\n  - {name: other, format: mailbox, box: 1",
            [
                "P020 sinks.other.box: is also the target of the sink box, give each its own target; "
                "to write the rows of two steps to one target, join them with UNION ALL in a step"
            ],
        ),
    ],
)
def test_lint_asks_the_kind(tmp_path: Path, sink: str, faults: list[str]) -> None:
    assert told(tmp_path, sink) == faults


def test_a_file_to_begin_with_has_the_kind_s_sections(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(template(name="orders", file=file.name, topic="demo", sink="mailbox"), "utf-8")
    loaded = load_checked(file)
    assert loaded.faults == ()
    (sink,) = loaded.require().sinks
    assert sink == Sink("lake", "mailbox", more={"box": "4711"})
    assert as_written(as_dict(loaded.require()))["sinks"] == [{"name": "lake", "format": "mailbox", "box": "4711"}]


def test_a_plan_tells_what_the_kind_promises_and_where_it_writes() -> None:
    (planned,) = build_plan(pipeline()).sinks
    assert (planned.format, planned.target, planned.guarantee) == ("mailbox", "4711", "at least once")
    assert planned.why == "a replay posts the letters again"
    (planned,) = build_plan(pipeline(options={"registered": "yes"})).sinks
    assert planned.guarantee == "exactly once"
    assert backfill_effects(pipeline()) == ["box: letters are posted again"]


def test_its_writer_is_made_when_the_kind_has_nothing_against_it() -> None:
    sink = pipeline().sinks[0]
    assert make_sink(sink).spec is sink
    with pytest.raises(ConfigError, match="sink box: of format mailbox needs the key box"):
        make_sink(replace(sink, more={}))
    with pytest.raises(ConfigError, match="sink box: box: 'x' is not the number"):
        make_sink(replace(sink, more={"box": "x"}))
    assert make_dead_letters(DeadLetter("mailbox"), beside="/state/dead_letter").spec.name == "dead_letter"


def test_the_session_has_the_kind_s_settings() -> None:
    assert settings(pipeline(), ["mailbox"])["spark.mailbox.office"] == "open"
    assert "spark.mailbox.office" not in settings(pipeline(), ["console"])


def test_the_docs_and_the_schema_for_editors_show_it() -> None:
    keys = file_tables()["keys"]
    assert "| `box` | text |  | For mailbox: its number. |" in keys
    assert "| `size` | `A4`, `A5` |  | For mailbox: of letters. |" in keys
    assert (
        "| `mailbox` | plain | at least once | a replay posts the letters again |  |"
        in guarantee_tables()["guarantees"]
    )
    sink = json_schema()["properties"]["sinks"]["items"]["properties"]
    assert sink["format"]["enum"][-1] == "mailbox"
    assert sink["size"]["enum"] == ["A4", "A5"]
    assert "mailbox" in json_schema()["properties"]["dead_letter"]["properties"]["format"]["enum"]


def test_each_line_names_a_package_with_a_kind_of_that_name_and_a_writer() -> None:
    assert [kind.name for kind in sink_kinds()] == list(SINKS)
    for kind in sink_kinds():
        assert kind.promises
        assert callable(import_module(f"{SINKS[kind.name]}.writer").make_writer)
        if kind.dead_letters is not None and kind.dead_letters.own_writer:
            assert callable(import_module(f"{SINKS[kind.name]}.dead_letters").make_writer)


def test_a_key_that_several_kinds_take_is_of_one_sort() -> None:
    sorts: dict[str, set[tuple[object, ...]]] = {}
    for kind in sink_kinds():
        for key in kind.keys:
            sorts.setdefault(key.name, set()).add((key.kind, key.takes, key.enum))
    assert [name for name, found in sorts.items() if len(found) > 1] == []


@pytest.mark.process
def test_kinds_are_loaded_without_spark_arrow_or_a_writer() -> None:
    code = (
        "import json, sys; from pytubemq.pipelines.file.sink_table import sink_kinds; "
        "from pytubemq.pipelines.file.keys import sections; sections(); "
        "print(json.dumps([[kind.name for kind in sink_kinds()], sorted(sys.modules)]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    names, modules = json.loads(ran.stdout)
    assert names == [name for name in SINKS if name != "mailbox"]
    assert not {"pyspark", "pyarrow", "py4j"} & set(modules)
    assert not [name for name in modules if name.startswith("pytubemq.") and name.endswith(".writer")]
