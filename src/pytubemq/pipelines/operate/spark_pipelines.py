"""A directory for Spark's own declarative pipelines (`spark-pipelines`) that reads a topic by `format("tubemq")`.

What these lack beside our runner: dead letters, a ledger over several sinks, a stated guarantee for each, InLong's
formats by a key; what they have: many tables that depend on each other, worked out by Spark.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

_SPEC: Final = """\
# Spark's own declarative pipelines: https://spark.apache.org/docs/latest/declarative-pipelines-programming-guide.html
# pyspark with its extra [pipelines], and pytubemq with [spark], must be installed where this runs.
#   spark-pipelines dry-run --spec {directory}/spark-pipeline.yml
#   spark-pipelines run --spec {directory}/spark-pipeline.yml
name: {name}
storage: {storage}
libraries:
  - glob:
      include: transformations/**
configuration:
  pytubemq.master: {master}
"""

_TRANSFORMATIONS: Final = '''\
"""The topic {topic} as a table of messages, and a table made of that."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table
def {name}_messages() -> DataFrame:
    """Each message once, as it came: a run goes on where the last one ended."""
    return (
        spark.readStream.format("tubemq")
        .option("master", spark.conf.get("pytubemq.master"))
        .option("topic", {topic_text})
        .option("startingOffsets", "earliest")
        .load()
    )


@dp.materialized_view
def {name}_by_type() -> DataFrame:
    """Count the messages of each type."""
    return spark.read.table("{name}_messages").groupBy("msgType").count()
'''


def spark_pipelines_files(*, name: str, topic: str, directory: Path, master: str) -> dict[str, str]:
    """Return the files of the directory, by their paths inside of it; texts in them are JSON, which both forms read."""
    storage = (Path(directory).absolute() / "storage").as_uri()
    return {
        "spark-pipeline.yml": _SPEC.format(name=name, directory=directory, storage=storage, master=json.dumps(master)),
        f"transformations/{name}.py": _TRANSFORMATIONS.format(name=name, topic=topic, topic_text=json.dumps(topic)),
    }
