"""The normal form: one for all files that say the same, without secrets; and what two of them differ in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytubemq.model import units
from pytubemq.pipelines import read
from pytubemq.pipelines.file.model import Limit, Pipeline, Sink, Source, Step
from pytubemq.pipelines.file.writing.file_form import as_written
from pytubemq.pipelines.file.writing.normal_form import as_dict, differences
from pytubemq.pipelines.report.configuration import as_yaml

PIPELINE = Pipeline(
    "p",
    Source(topics=("t",), limit=Limit(rows=5)),
    steps=(Step("a", "SELECT 1"), Step("b", "SELECT 2")),
    sinks=(Sink("lake", "jdbc", url="jdbc:x://u:pw@h/d", table="t", options={"password": "x", "user": "u"}),),
)


def test_the_normal_form_leaves_out_defaults_and_secrets() -> None:
    assert json.loads(json.dumps(as_dict(PIPELINE))) == {
        "name": "p",
        "source": {"topics": ["t"], "limit": {"rows": 5}},
        "steps": [{"name": "a", "sql": "SELECT 1"}, {"name": "b", "sql": "SELECT 2"}],
        "sinks": [
            {
                "name": "lake", "format": "jdbc", "url": "jdbc:x://u:***@h/d", "table": "t",
                "options": {"password": "***", "user": "u"},
            }
        ],
    }  # fmt: skip


def test_differences_are_told_by_name_and_not_by_number() -> None:
    assert differences(as_dict(PIPELINE), as_dict(PIPELINE)) == []
    changed = replace(PIPELINE, steps=(Step("a", "SELECT 3"), Step("c", "SELECT 2")), state="/s")
    assert [tuple(change) for change in differences(as_dict(PIPELINE), as_dict(changed))] == [
        ("state", None, "/s"),
        ("steps", ["a", "b"], ["a", "c"]),
        ("steps.a.sql", "SELECT 1", "SELECT 3"),
        ("steps.b.sql", "SELECT 2", None),
        ("steps.c.sql", None, "SELECT 2"),
    ]


WRITTEN = """\
name: p
source:
  topic: t
  limit: {rows: 5, bytes: 64MiB, min_rows: 2, max_delay: 1.5s, fetch: 90s}
decode: {format: json, schema: id INT, on_error: drop}
sinks:
- {name: out, format: console}
trigger: {kind: interval, interval: 10 seconds}
audit: {time: at}
"""


@pytest.mark.parametrize("text", [WRITTEN, WRITTEN.replace("topic: t", "topics: [t, u]"), None])
def test_what_a_report_shows_of_the_configuration_is_a_file_that_says_the_same(
    tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "p.yaml"
    examples = Path(__file__).parents[5] / "examples"
    file.write_text(text or (examples / "flights/flights.yaml").read_text("utf-8"), "utf-8")
    first = as_dict(read(file))
    shown = as_yaml(first)
    file.write_text(shown, "utf-8")
    assert as_dict(read(file)) == first
    assert "topics:" not in shown or len(first["source"]["topics"]) > 1
    assert text is None or "bytes: 64MiB" in shown


def test_what_no_key_is_for_stays() -> None:
    assert as_written({"decode": {"of_records": True, "format": "csv"}, "old": 1}) == {
        "decode": {"format": "csv", "of_records": True}, "old": 1,
    }  # fmt: skip


@pytest.mark.parametrize("size", [1, 1000, 1024, 1 << 20, 3 << 30, (1 << 20) + 1])
def test_a_size_and_a_time_are_written_as_they_are_read(size: int) -> None:
    assert units.size_bytes(units.size_text(size)) == size
    assert units.duration_s(units.duration_text(size / 1000)) == size / 1000
    assert units.size_text(64 << 20) == "64MiB"
    assert units.duration_text(1e6) == "1000000s"
