"""Spark's own file sink (`layout: log`) on a real session: whose its directory is, and what a session outlives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.model import Pipeline, Sink, Source
from pytubemq.pipelines.operate.reset import forget_progress, read_progress
from pytubemq.pipelines.plan.cluster_state import look
from pytubemq.pipelines.run.engine import run_pipeline
from pytubemq.pipelines.state.files import state_files

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.conftest import Topic

pytestmark = pytest.mark.spark


def test_a_log_takes_no_other_progress_and_a_new_path_takes_all_rows_again(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    def pipeline(lake: str) -> Pipeline:
        sink = Sink("lake", "parquet", path=str(tmp_path / lake), layout="log")
        source = Source(master=topic.master, topics=(topic.name,), start="earliest")
        return Pipeline("numbers", source, sinks=(sink,), state=str(tmp_path / "state"))

    def count(lake: str) -> int:
        return spark.read.parquet(str(tmp_path / lake)).count()

    topic.send(3)
    assert run_pipeline(pipeline("lake"), once=True).totals.rows_out == {
        "lake": 3
    }  # in the session that is there, which stays
    topic.send(2)
    run_pipeline(pipeline("lake"), spark=spark, once=True)
    assert count("lake") == 5
    assert not (tmp_path / "state/checkpoint-log-lake/sources").exists()  # of topics, what was begun is in offsets/
    files = state_files(str(tmp_path / "state"))
    assert read_progress(files).logs == ["lake"]
    looked = look(pipeline("lake"), files)
    assert (looked.goes_on, looked.waiting) == (True, 0)
    elsewhere = replace(pipeline("lake"), source=Source(master=topic.master, topics=("other",)))
    with pytest.raises(ConfigError, match="has the progress of pipeline numbers"):
        run_pipeline(elsewhere, spark=spark, once=True)
    forget_progress(files)
    with pytest.raises(ConfigError, match="lake has the log of another query") as refused:
        run_pipeline(pipeline("lake"), spark=spark, once=True)
    assert "new path" in refused.value.message
    assert count("lake") == 5
    assert run_pipeline(pipeline("lake-2"), spark=spark, once=True).totals.rows_out == {"lake": 5}
    assert count("lake-2") == 5
