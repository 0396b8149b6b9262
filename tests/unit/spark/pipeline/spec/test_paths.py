"""Relative paths are relative to the file."""

from __future__ import annotations

from pytubemq.spark.pipeline.spec.model import DeadLetter, Pipeline, Sink, SinkFormat, Source, Table
from pytubemq.spark.pipeline.spec.paths import beside


def test_relative_paths_are_those_beside_the_file() -> None:
    pipeline = Pipeline(
        "p",
        Source(format="parquet", path="in"),
        tables=(Table("t", "csv", path="s3a://b/t"), Table("u", "csv", path="${env:HERE}/u")),
        sinks=(
            Sink("a", SinkFormat.PARQUET, path="out/a"),
            Sink("b", SinkFormat.PARQUET, path="/out/b"),
            Sink("c", SinkFormat.CONSOLE),
        ),
        dead_letter=DeadLetter(path="letters"),
    )
    made = beside(pipeline, "/home/me/file.yaml")
    assert made.source.path == "/home/me/in"
    assert [table.path for table in made.tables] == ["s3a://b/t", "${env:HERE}/u"]
    assert [sink.path for sink in made.sinks] == ["/home/me/out/a", "/out/b", None]
    assert made.dead_letter is not None
    assert made.dead_letter.path == "/home/me/letters"
