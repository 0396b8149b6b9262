"""The normal form: one for all files that say the same, without secrets; and what two of them differ in."""

from __future__ import annotations

import json
from dataclasses import replace

from pytubemq.spark.pipeline.spec.model import Limit, Pipeline, Sink, SinkFormat, Source, Step
from pytubemq.spark.pipeline.spec.normal import as_dict, differences

PIPELINE = Pipeline(
    "p",
    Source(topics=("t",), limit=Limit(rows=5)),
    steps=(Step("a", "SELECT 1"), Step("b", "SELECT 2")),
    sinks=(Sink("lake", SinkFormat.JDBC, url="jdbc:x://u:pw@h/d", table="t", options={"password": "x", "user": "u"}),),
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
