"""Relative paths are relative to the file."""

from __future__ import annotations

from pytubemq.pipelines.file.model import DeadLetter, Pipeline, Sink, Source, SparkSettings, Table
from pytubemq.pipelines.file.reading.paths import beside


def test_relative_paths_are_those_beside_the_file() -> None:
    pipeline = Pipeline(
        "p",
        Source(format="parquet", path="in"),
        tables=(Table("t", "csv", path="s3a://b/t"), Table("u", "csv", path="${env:HERE}/u")),
        sinks=(
            Sink("a", "parquet", path="out/a"),
            Sink("b", "parquet", path="/out/b"),
            Sink("c", "console"),
        ),
        dead_letter=DeadLetter(path="letters"),
    )
    made = beside(pipeline, "/home/me/file.yaml")
    assert made.source.path == "/home/me/in"
    assert [table.path for table in made.tables] == ["s3a://b/t", "${env:HERE}/u"]
    assert [sink.path for sink in made.sinks] == ["/home/me/out/a", "/out/b", None]
    assert made.dead_letter is not None
    assert made.dead_letter.path == "/home/me/letters"


def test_a_catalog_in_a_directory_lies_beside_the_file_too() -> None:
    conf = {
        "spark.sql.catalog.local.type": "hadoop", "spark.sql.catalog.local.warehouse": "tables",
        "spark.sql.catalog.far.type": "hadoop", "spark.sql.catalog.far.warehouse": "hdfs://h/tables",
        "spark.sql.catalog.rest.type": "rest", "spark.sql.catalog.rest.warehouse": "named",
    }  # fmt: skip
    pipeline = Pipeline("p", Source(topics=("t",)), spark=SparkSettings(conf=conf))
    made = beside(pipeline, "/home/me/file.yaml").spark.conf
    assert made == conf | {"spark.sql.catalog.local.warehouse": "/home/me/tables"}
