"""Trying pipelines without running them: the tests inside a file, dry runs on a real cluster, and what plans ask it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import pytubemq.sync
from pytubemq.errors import ConfigError, ExitCode, NotFoundError, TransportError
from pytubemq.pipelines import PipelineFileError, load_checked
from pytubemq.pipelines.check.cases import run_tests
from pytubemq.pipelines.check.dry_run import dry_run
from pytubemq.pipelines.file.writing.template import template
from pytubemq.pipelines.plan.cluster_state import look

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pytubemq.pipelines.check.cases import CaseResult
    from pytubemq.pipelines.check.dry_run import Check
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.file.source_positions import Places
    from tests.spark.conftest import Topic

pytestmark = pytest.mark.spark


def loaded(tmp_path: Path, text: str) -> tuple[Pipeline, Places]:
    file = tmp_path / "file.yaml"
    file.write_text(text, "utf-8")
    found = load_checked(file)
    return found.require(), found.places


def results(spark: SparkSession, tmp_path: Path, text: str) -> dict[str, CaseResult]:
    pipeline, places = loaded(tmp_path, text)
    return {result.name: result for result in run_tests(pipeline, places, spark=spark)}


@pytest.mark.parametrize(
    ("message", "sink"),
    [("json", "parquet"), ("csv", "jdbc"), ("inlong-msg", "delta"), ("json", "kafka"), ("csv", "tubemq")],
)
def test_the_test_inside_of_a_template_passes(spark: SparkSession, tmp_path: Path, message: str, sink: str) -> None:
    text = template(name="orders", file="orders.yaml", topic="demo", message=message, sink=sink)
    (result,) = results(spark, tmp_path, text).values()
    assert result.error is None
    assert result.mismatches == {}


JOINED = """\
name: joined
source: {topic: demo, columns: [msgType, offset]}
decode: {format: json, schema: "id BIGINT, currency STRING, amount DECIMAL(12,2), tags ARRAY<STRING>"}
tables:
  - {name: rates, format: parquet, path: /not/there, schema: "currency STRING, rate DOUBLE"}
steps:
  - name: priced
    sql: SELECT i.*, amount * rate AS price FROM input i JOIN rates USING (currency)
  - {name: per_type, sql: "SELECT msgType, count(*) AS orders FROM priced GROUP BY msgType"}
  - {name: shouted, python: "beside_the_file:shout"}
sinks:
  - {name: all, format: console, input: PRICED}
  - {name: types, format: console, input: per_type}
  - {name: last, format: console}
dead_letter: {path: /letters}
tests:
  - name: right
    given:
      - {body: {id: 1, currency: EUR, amount: 2, tags: [a, b]}, msgType: x}
      - {body: {id: 2, currency: EUR, amount: 3, tags: []}, msgType: y, offset: 99}
      - {body: {id: 3, currency: YEN, amount: 3}}
      - {body: {hex: "00"}, topic: other}
    tables: {rates: [{currency: EUR, rate: 2.0}]}
    expect:
      all: [{id: 2, price: 6, offset: 99, tags: []}, {id: 1, price: 4.0, tags: [a, b], msgType: x}]
      types: [{msgType: x, orders: 1}, {msgType: y, orders: 1}]
      last: [{msgType: X}, {msgType: Y}]
      dead_letter: [{reason: decode.json, topic: other, offset: 3, raw: {hex: "00"}}]
  - name: wrong
    given: [{body: {id: 1, currency: EUR, amount: 2}}]
    tables: {rates: [{currency: EUR, rate: 2.0}]}
    expect: {all: [{id: 1, price: 5}, {id: 7}], types: [{mgsType: x}], dead_letter: [{reason: decode.json}]}
  - name: no table
    given: [a]
    expect: {all: []}
"""


SHOUT = """\
from pyspark.sql import functions as f


def shout(rows):
    return rows.select(f.upper("msgType").alias("msgType"))
"""


def test_steps_tables_and_dead_letters_are_tested_as_a_run_has_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_the_file.py").write_text(SHOUT, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = results(spark, tmp_path, JOINED)
    assert found["right"].passed, found["right"]
    wrong = found["wrong"].mismatches
    assert [(one.expected, one.columns) for one in wrong["all"]] == [
        ({"id": 1, "price": 5}, ("price",)),
        ({"id": 7}, ()),
    ]
    assert wrong["types"][0].unknown == ("no row has the column mgsType, did you mean msgType?",)
    assert [one.expected for one in wrong["dead_letter"]] == [{"reason": "decode.json"}]
    assert found["wrong"].line == JOINED.splitlines().index("  - name: wrong") + 1
    assert "table rates" in str(found["no table"].error)


FAULTY_STEP = """\
name: faulty
source: {topic: demo}
decode: {format: json, schema: "id BIGINT", on_error: fail}
steps:
  - name: one
    sql: |
      SELECT id,
             idd AS other
      FROM input
sinks: [{name: out, format: console}]
tests:
  - {name: compiles, given: ['{"id": 1}'], expect: {out: []}}
  - {name: fails, given: [oops], expect: {out: []}}
"""


def test_a_query_that_does_not_compile_is_told_at_its_place_in_the_file(spark: SparkSession, tmp_path: Path) -> None:
    found = results(spark, tmp_path, FAULTY_STEP)
    error = found["compiles"].error
    assert isinstance(error, PipelineFileError)
    (fault,) = error.faults
    assert (fault.line, fault.column, fault.key, fault.code.value) == (8, 14, "steps.one.sql", "P032")
    assert "`idd`" in fault.message
    assert "on_error: fail" in str(found["fails"].error)
    syntax = FAULTY_STEP.replace("idd AS other", "idd AS AS")
    (fault,) = results(spark, tmp_path, syntax)["compiles"].error.faults  # type: ignore[union-attr]
    assert fault.line in {8, 9}  # Spark names the word at which it gave up


def test_rows_of_a_source_that_is_no_topic_are_given_by_column(spark: SparkSession, tmp_path: Path) -> None:
    text = """\
name: feed
source: {format: parquet, path: /in, schema: "id BIGINT, at TIMESTAMP"}
steps: [{name: s, sql: "SELECT id, date(at) AS day FROM input"}]
sinks: [{name: out, format: console}]
tests:
  - given: [{id: 1, at: "2026-01-01T12:00:00Z"}]
    expect: {out: [{id: 1, day: 2026-01-01}]}
"""
    assert results(spark, tmp_path, text)["test 1"].passed


NUMBERS = """\
name: numbers
state: {tmp}/state
source: {{master: "{master}", topic: {topic}, start: earliest}}
decode: {{format: csv, schema: "n INT"}}
steps:
  - {{name: even, sql: "SELECT * FROM input WHERE n % 2 = 0"}}
  - {{name: counted, sql: "SELECT n % 10 AS digit, count(*) AS rows FROM even GROUP BY 1"}}
sinks:
  - {{name: lake, format: parquet, input: even, path: {tmp}/lake}}
dead_letter: {{path: {tmp}/letters}}
"""


def checks(spark: SparkSession, pipeline: Pipeline, places: Places, **more: Any) -> dict[str, Check]:
    return {check.name: check for check in dry_run(pipeline, places, spark=spark, **more)}


def test_a_dry_run_reads_real_messages_and_writes_nothing(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    with pytubemq.sync.connect(topic.master) as tube, tube.producer(topic.name) as producer:
        for n in range(30):
            producer.send(f"{n};{-n};?".encode())
    text = NUMBERS.format(tmp=tmp_path, master=topic.master, topic=topic.name)
    pipeline, places = loaded(
        tmp_path, text.replace('schema: "n INT"', 'schema: "n INT", options: {lineDelimiter: ";"}')
    )
    found = checks(spark, pipeline, places)
    assert {name: check.error for name, check in found.items() if check.error} == {}
    assert list(found) == ["source", "read", "step even", "step counted", "stream", "sink lake", "dead_letter"]
    assert found["source"].text == "4 partitions, 30 messages"
    assert found["read"].text.startswith("20 rows decoded, 10 rejected: decode.csv 10; ")  # of ten messages
    assert found["stream"].text == "counted keeps state"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["file.yaml"]
    looked = look(pipeline, None)
    assert (len(looked.partitions), looked.waiting, looked.java, looked.goes_on) == (4, 30, False, False)


def test_a_dry_run_names_every_part_that_is_wrong(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    text = NUMBERS.format(tmp=tmp_path, master=topic.master, topic=topic.name).replace("", "")
    pipeline, places = loaded(tmp_path, text)
    missing = replace(pipeline, source=replace(pipeline.source, topics=("not_there",)))
    found = checks(spark, missing, places)
    assert isinstance(found["source"].error, NotFoundError)
    assert f"{tmp_path}/file.yaml:3:" in found["source"].error.message
    assert found["sink lake"].passed  # the rest is looked at all the same
    away = replace(pipeline, source=replace(pipeline.source, master="127.0.0.1:1"))
    found = checks(spark, away, places)
    assert isinstance(found["source"].error, TransportError)
    assert found["source"].error.exit_code == ExitCode.UNREACHABLE
    wrong = replace(pipeline, steps=(replace(pipeline.steps[0], sql="SELECT m FROM input"), pipeline.steps[1]))
    found = checks(spark, wrong, places)
    assert isinstance(found["steps"].error, ConfigError)
    (tmp_path / "blocked").write_text("a file", "utf-8")
    blocked = replace(pipeline, sinks=(replace(pipeline.sinks[0], path=f"{tmp_path}/blocked/lake"),))
    assert isinstance(checks(spark, blocked, places)["sink lake"].error, ConfigError)
