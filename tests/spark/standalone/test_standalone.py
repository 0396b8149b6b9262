"""Pipelines on a Spark cluster of several processes: given to it by `spark-submit`, and with a worker killed."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytubemq.pipelines
from tests.spark.kill.cluster import KillableCluster
from tests.spark.kill.process import PipelineRun
from tests.spark.kill.table import batches, check_each_once, column, pipeline_file
from tests.spark.standalone.spark import StandaloneSpark

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

MESSAGES = 60_000
BATCH = 20_000
PAD_BYTES = 200
SMALL = ("--executor-memory", "512m", "--conf", "spark.driver.host=127.0.0.1")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableCluster]:
    with KillableCluster(tmp_path_factory.mktemp("cluster")) as running:
        running.create_topic("in")
        running.fill("in", 0, MESSAGES, size_bytes=PAD_BYTES)
        yield running


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    with StandaloneSpark(tmp_path_factory.mktemp("standalone")) as running:
        yield running


def test_spark_submit_runs_a_pipeline_file_as_it_is(
    tmp_path: Path, cluster: KillableCluster, standalone: StandaloneSpark
) -> None:
    """As the how-to says: the file names another master, and workers have the module of a step from --py-files."""
    halves = tmp_path / "modules" / "halves.py"
    halves.parent.mkdir()
    halves.write_text(textwrap.dedent(HALVES))
    script = Path(pytubemq.pipelines.__path__[0]) / "__main__.py"
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", standalone.master, *SMALL]
    file = pipeline_file(tmp_path, cluster.master, "in", rows=MESSAGES, python="halves:halved")
    with PipelineRun(file, "--once", command=[*submit, "--py-files", str(halves), str(script)]) as run:
        run.end()
    check_each_once(tmp_path, MESSAGES)
    assert set(column(tmp_path, "size")) == {PAD_BYTES // 2}
    assert "pipeline" in standalone.applications()


HALVES = """
    from pyspark.sql import functions as F

    def half(size):
        return size // 2

    def halved(rows):
        return rows.withColumn("size", F.udf(half, "int", useArrow=False)("size"))
"""


def test_a_killed_spark_worker_is_made_up_for_by_the_other(
    tmp_path: Path, cluster: KillableCluster, standalone: StandaloneSpark
) -> None:
    file = pipeline_file(tmp_path, cluster.master, "in", rows=BATCH, spark=standalone.master)
    cluster.cut_after(3 * BATCH * PAD_BYTES // 2)  # in the middle of the second batch
    with PipelineRun(file, "--once") as run:
        run.until(lambda: cluster.is_cut)
        assert batches(tmp_path) >= 1
        assert standalone.executors(0)
        standalone.kill_worker(0)
        cluster.mend()
        run.end()
    check_each_once(tmp_path, MESSAGES)
