"""`${env:NAME}` in every text of a file: it is looked up when the file is read, or where the value is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.pipelines import load
from pytubemq.pipelines.file.key import Kind
from pytubemq.pipelines.file.keys import sections
from pytubemq.pipelines.frames.source import open_source, source_options
from pytubemq.pipelines.frames.steps import apply_steps, make_tables
from pytubemq.pipelines.run.session import settings

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.pipelines.file.model import Pipeline

TOPIC = """
name: p
source:
  master: "${env:V_MASTER}"
  user: "${env:V_USER}"
  secret_file: "${env:V_FILE}"
  topics: ["${env:V_TOPIC}", t2]
  start: {t2: "${env:V_START}"}
  end: "${env:V_END}"
  commit_group: "${env:V_GROUP}"
  filters: "${env:V_FILTER}"
  columns: ["${env:V_COLUMN}"]
  options: {readGroup: "${env:V_OPTION}"}
decode:
  format: "${env:V_FORMAT}"
  schema: "${env:V_SCHEMA}"
  options: {fieldDelimiter: "${env:V_SEPARATOR}"}
steps:
  - name: s
    sql: SELECT '${env:V_LITERAL}' AS x
    watermark: {column: "${env:V_TIME}", delay: "${env:V_DELAY}"}
sinks:
  - {name: a, format: tubemq, topic: x, idempotency_key: "${env:V_KEY}"}
  - {name: b, format: "${env:V_SINK}", path: "${env:V_PATH}", partition_by: "${env:V_PART}", input: "${env:V_STEP}"}
  - {name: c, format: delta, path: /d, keys: ["${env:V_KEY}"]}
audit: "${env:V_TIME}"
trigger: "${env:V_TRIGGER}"
spark:
  master: "${env:V_SPARK}"
  conf: {spark.hadoop.fs.s3a.secret.key: "${env:V_SECRET}"}
  packages: ["${env:V_PACKAGE}"]
  jars: ["${env:V_JAR}"]
"""
FILES = """
name: p
source: {format: "${env:V_SINK}", path: "${env:V_PATH}", schema: "${env:V_SCHEMA}"}
tables:
  - {name: t, format: "${env:V_SINK}", path: "${env:V_PATH}",
     schema: "${env:V_SCHEMA}", options: {a: "${env:V_SECRET}"}}
sinks: [{name: b, format: console}]
"""
VALUES = {
    "USER": "ann", "FILE": "/etc/ann.secret", "MASTER": "h:8715",
    "TOPIC": "demo", "START": "latest", "END": "2026-01-01", "GROUP": "g", "FILTER": "f",
    "COLUMN": "offset", "OPTION": "r", "FORMAT": "csv", "SCHEMA": "id BIGINT", "SEPARATOR": ";", "LITERAL": "words",
    "TIME": "at", "DELAY": "10m", "KEY": "id", "SINK": "parquet", "PATH": "/data/x", "PART": "day", "STEP": "s",
    "TRIGGER": "available_now", "SPARK": "local[3]", "SECRET": "s3cret", "PACKAGE": "a:b:1", "JAR": "/x.jar",
}  # fmt: skip


class _Rows:
    """What is asked of Spark, written down."""

    columns = ("at",)

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        if name == "createOrReplaceTempView":
            return lambda view: None

        def call(*args: Any, **kwargs: Any) -> Any:
            self.asked.append((name, *args, kwargs))
            return self

        return self if name in {"read", "readStream", "sparkSession"} else call


@pytest.fixture(autouse=True)
def _values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.pipelines.file.secrets._given_out", {})
    for name, value in VALUES.items():
        monkeypatch.setenv(f"V_{name}", value)


def _read(tmp_path: Path, text: str) -> Pipeline:
    (tmp_path / "p.yaml").write_text(text, "utf-8")
    loaded = load(tmp_path / "p.yaml")
    assert not loaded.faults
    assert loaded.pipeline is not None
    return loaded.pipeline


def test_names_columns_and_formats_are_looked_up_when_the_file_is_read(tmp_path: Path) -> None:
    pipeline = _read(tmp_path, TOPIC)
    source, decode = pipeline.source, pipeline.decode
    assert decode is not None
    assert pipeline.audit is not None
    mark = pipeline.steps[0].watermark
    assert mark is not None
    assert (source.topics, source.end, source.commit_group) == (("demo", "t2"), "2026-01-01", "g")
    assert isinstance(source.start, dict)
    assert source.start["t2"] == "latest"
    assert (source.filters, source.columns) == (("f",), ("offset",))
    assert (decode.format, decode.schema) == ("csv", "id BIGINT")
    assert (mark.column, mark.delay, pipeline.audit.time) == ("at", "10 minutes", "at")
    keyed, lake, upserted = pipeline.sinks
    assert (keyed.idempotency_key, lake.partition_by, lake.input, upserted.keys) == ("id", ("day",), "s", ("id",))
    assert (lake.format, pipeline.trigger.kind.value) == ("parquet", "available_now")


def test_places_and_what_may_be_secret_are_looked_up_where_they_are_used(tmp_path: Path) -> None:
    pipeline = _read(tmp_path, TOPIC)
    assert pipeline.source.master == "${env:V_MASTER}"
    assert pipeline.sinks[1].path == "${env:V_PATH}"
    options = source_options(pipeline)
    assert options["master"] == "h:8715"
    assert (options["user"], options["secretFile"]) == ("ann", "/etc/ann.secret")
    assert options["readGroup"] == "r"
    assert options["decode.fieldDelimiter"] == ";"
    conf = settings(pipeline, [])
    assert conf["spark.hadoop.fs.s3a.secret.key"] == "s3cret"
    assert (conf["spark.master"], conf["spark.jars.packages"], conf["spark.jars"]) == ("local[3]", "a:b:1", "/x.jar")
    assert conf["spark.driver.host"] == "127.0.0.1"
    rows = _Rows()
    apply_steps(rows, pipeline)  # type: ignore[arg-type]
    assert ("sql", "SELECT 'words' AS x", {}) in rows.asked


def test_other_sources_and_tables_get_their_paths_and_schemas(tmp_path: Path) -> None:
    pipeline = _read(tmp_path, FILES)
    rows = _Rows()
    open_source(rows, pipeline)  # type: ignore[arg-type]
    make_tables(rows, pipeline)  # type: ignore[arg-type]
    assert rows.asked.count(("load", "/data/x", {})) == 2
    assert rows.asked.count(("schema", "id BIGINT", {})) == 2
    assert rows.asked.count(("format", "parquet", {})) == 2
    assert ("options", {"a": "s3cret"}) in rows.asked


def test_no_key_of_text_is_left_out() -> None:
    """A key that is new belongs in one of the files above; then its name goes in here."""
    texts = {
        f"{section.path}.{key.name}"
        for section in sections().values()
        for key in section.keys
        if key.kind in {Kind.TEXT, Kind.TEXTS, Kind.OPTIONS} and not key.at_once
    }
    assert texts == {
        ".state", "source.user", "source.secret_file", "sinks[].user", "sinks[].secret_file", "dead_letter.user",
        "dead_letter.secret_file", "source.master", "source.path", "source.options", "decode.options", "tables[].path",
        "tables[].options", "sinks[].path", "sinks[].table", "sinks[].url", "sinks[].topic", "sinks[].master",
        "sinks[].options", "dead_letter.path", "dead_letter.topic", "dead_letter.master", "dead_letter.table",
        "dead_letter.url", "dead_letter.options", "spark.master", "spark.conf", "spark.packages", "spark.jars",
    }  # fmt: skip


def test_a_name_that_is_not_there_is_an_error_of_the_file(tmp_path: Path) -> None:
    text = 'name: p\nsource: {topic: "${env:V_NOT_THERE}"}\nsinks: [{name: a, format: console}]\n'
    (tmp_path / "p.yaml").write_text(text, "utf-8")
    (fault,) = load(tmp_path / "p.yaml").faults
    assert (fault.code, fault.line, fault.message) == ("P014", 2, "the environment variable V_NOT_THERE is not set")
