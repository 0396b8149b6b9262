"""A file becomes the values that the same in Python would be; what is no file of ours is refused with a place."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytubemq.pipelines import PipelineFileError, lint, load, load_checked, read
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import (
    Audit,
    Case,
    DeadLetter,
    Decode,
    Guarantee,
    Limit,
    OnError,
    Pipeline,
    Sink,
    Source,
    SparkSettings,
    Step,
    Trigger,
    TriggerKind,
    Watermark,
)
from pytubemq.pipelines.file.sink_table import SINKS
from pytubemq.pipelines.file.writing.json_schema import json_schema
from tests.support.properties import examples

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = """\
name: orders
source: {topic: demo, start: earliest, limit: {rows: 200_000, bytes: 64MiB, max_delay: 1m, min_rows: 5}}
decode: {format: json, schema: "id BIGINT, amount DECIMAL(12,2)", on_error: drop, options: {ignoreErrors: true}}
steps:
  - {name: paid, sql: "SELECT * FROM input", watermark: {column: at, delay: 10m}}
sinks:
  - {name: lake, format: parquet, path: "${var:out}/orders", partition_by: day, guarantee: exactly_once}
dead_letter: {url: "jdbc:derby:x", table: t, max_ratio: 1%}
trigger: 10s
audit: at
state: /state
spark: {conf: {spark.ui.enabled: no}, packages: [a:b:1]}
tests:
  - given: ['a', {body: {x: 1}, attributes: {k: v}}]
    expect: {lake: [{id: 1, day: 2026-01-01, ok: true, none: null, text: '1'}]}
"""
VALUES = Pipeline(
    name="orders",
    source=Source(
        topics=("demo",),
        start="earliest",
        limit=Limit(rows=200_000, size_bytes=64 * 1024 * 1024, max_delay_s=60.0, min_rows=5),
    ),
    decode=Decode("json", "id BIGINT, amount DECIMAL(12,2)", None, OnError.DROP, {"ignoreErrors": "true"}),
    steps=(Step("paid", "SELECT * FROM input", watermark=Watermark("at", "10 minutes")),),
    sinks=(Sink("lake", "parquet", path="/out/orders", partition_by=("day",), guarantee=Guarantee.EXACTLY_ONCE),),
    dead_letter=DeadLetter("jdbc", url="jdbc:derby:x", table="t", max_ratio=0.01),
    trigger=Trigger(TriggerKind.INTERVAL, "10 seconds"),
    audit=Audit("at"),
    state="/state",
    spark=SparkSettings(conf={"spark.ui.enabled": "no"}, packages=("a:b:1",)),
    tests=(
        Case(
            "test 1",
            ({"body": "a"}, {"body": {"x": 1}, "attributes": {"k": "v"}}),
            {"lake": ({"id": 1, "day": "2026-01-01", "ok": True, "none": None, "text": "1"},)},
        ),
    ),
)

ORDERS_TOML = """\
name = "orders"
audit = "at"
state = "/state"
trigger = "10s"

[source]
topic = "demo"
start = "earliest"
limit = {rows = 200_000, bytes = "64MiB", max_delay = "1m", min_rows = 5}

[decode]
format = "json"
schema = "id BIGINT, amount DECIMAL(12,2)"
on_error = "drop"
options.ignoreErrors = true

[[steps]]
name = "paid"
sql = "SELECT * FROM input"
watermark = {column = "at", delay = "10m"}

[[sinks]]
name = "lake"
format = "parquet"
path = "${var:out}/orders"
partition_by = "day"
guarantee = "exactly_once"

[dead_letter]
url = "jdbc:derby:x"
table = "t"
max_ratio = "1%"

[spark]
packages = ["a:b:1"]
conf.spark.ui.enabled = "no"

[[tests]]
given = ["a", {body = {x = 1}, attributes = {k = "v"}}]
expect.lake = [{id = 1, day = 2026-01-01, ok = true, text = "1"}]
"""


def put(directory: Path, text: str, name: str = "file.yaml") -> Path:
    file = directory / name
    file.write_text(text, "utf-8")
    return file


def test_a_file_and_the_same_in_python_are_equal(tmp_path: Path) -> None:
    loaded = load(put(tmp_path, ORDERS), variables={"out": "/out"})
    assert not loaded.faults
    assert loaded.pipeline == VALUES


def test_a_variable_that_the_file_does_not_name_is_an_error_with_the_nearest_that_it_names(tmp_path: Path) -> None:
    file = put(tmp_path, ORDERS)
    told = [fault for fault in lint(file, variables={"out": "/out", "oot": "/x"}) if fault.code == "P014"]
    assert [fault.text for fault in told] == ['--set oot: the file does not use ${var:oot}, did you mean "out"?']
    with pytest.raises(PipelineFileError, match=r"--set master: .*its variables are out"):
        read(file, variables={"out": "/out", "master": "m"})
    file = put(tmp_path, ORDERS.replace("${var:out}", ""))
    with pytest.raises(PipelineFileError, match=r"--set out: .*no variables at all"):
        read(file, variables={"out": "/out"})


def test_a_variable_counts_wherever_it_stands_in_the_file(tmp_path: Path) -> None:
    query = "SELECT '${var:q}' AS x FROM input"
    text = ORDERS.replace("SELECT * FROM input", query).replace("given: ['a'", "given: ['${var:body}'")
    assert load(put(tmp_path, text), variables={"out": "/o"}).variables == {"out", "q", "body"}
    assert load(put(tmp_path, "a: '${env:out} $${var:out}'"), variables={}).variables == frozenset()


@pytest.mark.parametrize("path", ["s3a://b/orders", "GS://b/orders", "abfss://c@a.dfs.net/x", "wasb://c@a/x"])
def test_parquet_in_batches_is_refused_where_a_directory_is_not_renamed_in_one_step(tmp_path: Path, path: str) -> None:
    def refused(text: str) -> list[tuple[str, str]]:
        found = lint(put(tmp_path, text))
        return [(fault.key, fault.hint or "") for fault in found if fault.code is FaultCode.GUARANTEE_IMPOSSIBLE]

    here = ORDERS.replace("${var:out}/orders", path)
    assert [key for key, hint in refused(here) if "format delta" in hint] == ["sinks.lake.path"]
    assert not refused(here.replace("partition_by: day", "layout: log").replace("exactly_once", "at_least_once"))
    assert not refused(here.replace("format: parquet", "format: delta"))
    letters = ORDERS.replace("on_error: drop", "on_error: dead_letter").replace("${var:out}", "/o")
    assert not refused(letters)
    url = '{url: "jdbc:derby:x", table: t, max_ratio: 1%}'
    assert [key for key, _ in refused(letters.replace(url, f"{{path: '{path}'}}"))] == ["dead_letter.path"]
    beside = letters.replace("state: /state", f"state: '{path}'")
    assert not refused(beside)
    assert [key for key, _ in refused(beside.replace(url, "{max_ratio: 1%}"))] == ["state"]
    assert [key for key, _ in refused(beside.replace(f"dead_letter: {url}\n", ""))] == ["state"]


def test_toml_says_the_same_as_yaml(tmp_path: Path) -> None:
    loaded = load(put(tmp_path, ORDERS_TOML, "file.toml"), variables={"out": "/out"})
    assert not loaded.faults
    made = loaded.pipeline
    assert made is not None
    lake = ({"id": 1, "day": "2026-01-01", "ok": True, "text": "1"},)  # TOML has no null
    assert made.tests[0].expect == {"lake": lake}
    assert made.tests[0].given == VALUES.tests[0].given
    assert [getattr(made, part) for part in ("source", "decode", "steps", "sinks", "dead_letter", "spark")] == [
        getattr(VALUES, part) for part in ("source", "decode", "steps", "sinks", "dead_letter", "spark")
    ]


@pytest.mark.parametrize(
    ("text", "name", "code", "place"),
    [
        ("name: [", "x.yaml", FaultCode.SYNTAX, (2, 1)),
        ("a: b: c", "x.yaml", FaultCode.SYNTAX, (1, 5)),
        ("a:\n\tb: c", "x.yaml", FaultCode.SYNTAX, (2, 1)),
        ("name: !!python/object:os.system x", "x.yaml", FaultCode.SYNTAX, (1, 7)),
        ("a: 1\n---\nb: 2", "x.yaml", FaultCode.SYNTAX, (2, 1)),
        ("name = ", "x.toml", FaultCode.SYNTAX, (1, 8)),
        ('name = "a"\nname = "b"', "x.toml", FaultCode.DUPLICATE_KEY, (2, 11)),
        ("[" * 100, "x.yaml", FaultCode.TOO_LARGE, (1, 1)),
        ("a: &a [*a]", "x.yaml", FaultCode.TOO_LARGE, (1, 4)),
    ],
)
def test_what_is_no_file_of_ours_is_refused_with_a_place(
    tmp_path: Path, text: str, name: str, code: FaultCode, place: tuple[int, int]
) -> None:
    faults = lint(put(tmp_path, text, name))
    assert (code, place) in [(fault.code, (fault.line, fault.column)) for fault in faults]


def test_aliases_that_grow_without_end_are_cut_off(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert FaultCode.TOO_LARGE in {fault.code for fault in lint(put(tmp_path, "\n".join(lines)))}


def test_a_file_that_is_not_there_too_long_or_no_text_is_refused(tmp_path: Path) -> None:
    none = tmp_path / "no such.yaml"
    [fault] = lint(none)
    assert (fault.code, fault.place, fault.message) == (FaultCode.UNREADABLE, str(none), "no such file")
    with pytest.raises(PipelineFileError) as told:
        read(none)
    assert told.value.message == f"{none}: no such file [P001]"
    assert told.value.hint == f"pytubemq pipeline init '{none}'  writes one"
    assert [fault.code for fault in lint(tmp_path)] == [FaultCode.UNREADABLE]
    assert [fault.code for fault in lint(put(tmp_path, "#" * (1024 * 1024 + 1)))] == [FaultCode.TOO_LARGE]
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    assert [fault.code for fault in lint(binary)] == [FaultCode.UNREADABLE]


def test_an_explicit_dead_letter_without_a_place_of_its_own_is_told(tmp_path: Path) -> None:
    text = (
        "name: x\nsource: {topic: t}\ndecode: {format: raw, on_error: dead_letter}\nsinks: [{name: c, format: console}]"
    )
    faults = lint(put(tmp_path, text))
    assert [(fault.code, fault.line, fault.column) for fault in faults] == [(FaultCode.DEFAULT_DEAD_LETTER, 3, 33)]


def test_dead_letters_that_the_file_leaves_to_the_default_are_told_as_those_that_it_names(tmp_path: Path) -> None:
    text = "name: x\nsource: {topic: t}\ndecode: {format: json, schema: 'a INT'}\nsinks: [{name: c, format: console}]"
    faults = lint(put(tmp_path, text))
    assert [(fault.code, fault.line, fault.column) for fault in faults] == [(FaultCode.DEFAULT_DEAD_LETTER, 3, 1)]
    assert not lint(put(tmp_path, f"{text}\ndead_letter: {{path: /x}}"))
    assert not lint(put(tmp_path, text.replace("format: json, schema: 'a INT'", "format: raw")))
    assert not lint(put(tmp_path, text.replace("'a INT'", "'a INT', on_error: drop")))
    options = text.replace("'a INT'", "'a INT', options: {maxRecords: 5}")
    assert FaultCode.DEFAULT_DEAD_LETTER in {fault.code for fault in lint(put(tmp_path, options))}
    slip = text.replace("'a INT'", "'a INT', on_eror: drop")
    assert [fault.code for fault in lint(put(tmp_path, slip))] == [FaultCode.UNKNOWN_KEY]


def test_words_that_yaml_takes_for_something_else_stay_what_was_written(tmp_path: Path) -> None:
    text = "name: no\nsource: {topic: on, options: {a: 1_0, b: 0x1F, c: 12:30:00}}\nsinks: [{name: y, format: console}]"
    pipeline = load(put(tmp_path, text)).require()
    assert (pipeline.name, pipeline.source.topics) == ("no", ("on",))
    assert pipeline.source.options == {"a": "1_0", "b": "0x1F", "c": "12:30:00"}
    assert pipeline.sinks[0].name == "y"


def test_read_refuses_what_lint_finds_an_error_in_and_names_the_first(tmp_path: Path) -> None:
    file = put(tmp_path, "name: x\nsource: {topic: t, tpic: u}\nsinks: [{name: c, format: console}]")
    with pytest.raises(PipelineFileError, match=r"file\.yaml:2:20 source\.tpic: unknown key, did you mean") as caught:
        read(file)
    assert caught.value.exit_code == 78
    assert [fault.code for fault in caught.value.faults] == [FaultCode.UNKNOWN_KEY]


def test_a_place_inside_of_a_query_is_a_place_in_the_file(tmp_path: Path) -> None:
    text = "steps:\n  - name: a\n    sql: |\n      SELECT\n        nope\n  - {name: b, sql: 'SELECT x'}\n"
    places = load(put(tmp_path, text)).places
    assert (places.inside("steps[0].sql", 2, 3).line, places.inside("steps[0].sql", 2, 3).column) == (5, 9)
    assert (places.inside("steps[1].sql", 1, 8).line, places.inside("steps[1].sql", 1, 8).column) == (6, 28)


@settings(max_examples=examples(150))
@given(st.text(alphabet=st.sampled_from(list("abn: -[]{}\"'\n&*!|>#%,$0123456789.\t")), max_size=60))
def test_whatever_stands_in_a_file_it_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    directory = tmp_path_factory.getbasetemp()
    for name in ("any.yaml", "any.toml"):
        loaded = load_checked(put(directory, text, name))
        assert loaded.pipeline is not None or loaded.errors


@pytest.mark.process
def test_lint_loads_neither_spark_nor_arrow(tmp_path: Path) -> None:
    file = put(tmp_path, ORDERS)
    code = (
        "import json, sys; from pytubemq.pipelines import lint; "
        f"faults = lint({str(file)!r}, variables={{'out': '/out'}}); "
        "print(json.dumps([len(faults), sorted({name.split('.')[0] for name in sys.modules})]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    _, modules = json.loads(ran.stdout)
    assert not {"pyspark", "pyarrow", "py4j", "google", "fastavro"} & set(modules)


def test_the_json_schema_names_every_key_and_nothing_else() -> None:
    schema = json_schema()
    assert schema["required"] == ["name", "source", "sinks"]
    assert schema["properties"]["sinks"]["items"]["properties"]["format"]["enum"] == list(SINKS)
    assert schema["properties"]["source"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("sink", "column"),
    [
        ("format: parquet, path: /x", 9),
        ("format: parquet, path: /x, guarantee: exactly_once", 48),
        ("format: tubemq, topic: o", 9),
        ("format: parquet, path: /x, guarantee: at_least_once", None),
        ("format: tubemq, topic: o, options: {idempotent: false}", None),
        ("format: console", None),
    ],
)
def test_a_sink_that_is_exactly_once_by_default_needs_a_place_of_its_progress_as_one_that_says_so(
    tmp_path: Path, sink: str, column: int | None
) -> None:
    text = f"name: x\nsource: {{topic: t}}\nsinks: [{{{sink}, name: lake}}]"
    found = [(fault.code, fault.line, fault.column) for fault in lint(put(tmp_path, text))]
    assert found == ([] if column is None else [(FaultCode.DEFAULT_STATE, 3, column)])
    assert not lint(put(tmp_path, f"{text}\nstate: /state"))
