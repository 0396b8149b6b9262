"""Parts of a running pipeline killed, cut off or emptied under it; each test ends in a count against the source.

What is to happen in the middle of a batch happens while its task stands still in the middle of a fetch: a proxy before
the Broker holds everything back after so many bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.spark.kill.cluster import KillableCluster
from tests.spark.kill.process import PipelineRun
from tests.spark.kill.table import batches, check_each_once, ids, pipeline_file
from tests.spark.standalone.spark import StandaloneSpark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

MESSAGES = 60_000
BATCH = 20_000
PAD_BYTES = 200
MIDDLE_BYTES = 3 * BATCH * PAD_BYTES // 2
"""In the middle of the second batch."""
CUT_S = 20.0
OUTAGE_S = 3.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KillableCluster]:
    with KillableCluster(tmp_path / "cluster") as running:
        running.create_topic("in")
        running.fill("in", 0, MESSAGES, size_bytes=PAD_BYTES)
        yield running


@contextlib.contextmanager
def held_in_the_middle(home: Path, cluster: KillableCluster) -> Iterator[PipelineRun]:
    """A run whose second batch stands still in the middle of its fetches; behind the block it goes on, and ends."""
    file = pipeline_file(home, cluster.master, "in", rows=BATCH)
    cluster.cut_after(MIDDLE_BYTES)
    with PipelineRun(file, "--once") as run:
        run.until(lambda: cluster.is_cut)
        yield run
        cluster.mend()
        run.end()


def test_a_killed_python_worker_is_replaced_and_its_task_done_again(
    tmp_path: Path, cluster: KillableCluster, soak: bool
) -> None:
    for number in range(20 if soak else 1):
        home = tmp_path / str(number)
        home.mkdir()
        with held_in_the_middle(home, cluster) as run:
            run.until(run.workers)
            for pid in run.workers():
                os.kill(pid, signal.SIGKILL)
        check_each_once(home, MESSAGES)


def test_a_broker_killed_while_a_batch_reads_is_waited_for(tmp_path: Path, cluster: KillableCluster) -> None:
    with held_in_the_middle(tmp_path, cluster):
        cluster.kill_broker()
        cluster.mend()
        cluster.restart_broker()
    check_each_once(tmp_path, MESSAGES)


def test_a_master_killed_while_a_batch_is_planned_is_waited_for(tmp_path: Path, cluster: KillableCluster) -> None:
    file = pipeline_file(tmp_path, cluster.master, "in", rows=BATCH)
    with PipelineRun(file, "--once", pause_at="ledger-written:0") as run:
        run.until_paused()
        cluster.kill_master()
        run.go_on()
        time.sleep(OUTAGE_S)  # the outage itself; the planning of batch 1 falls into it
        cluster.restart_master()
        run.end()
    check_each_once(tmp_path, MESSAGES)


def test_a_network_that_is_cut_for_twenty_seconds_costs_nothing_but_time(
    tmp_path: Path, cluster: KillableCluster
) -> None:
    with held_in_the_middle(tmp_path, cluster):
        time.sleep(CUT_S)  # the cut itself
    check_each_once(tmp_path, MESSAGES)


def test_what_retention_removed_under_a_running_query_is_an_error_and_told_where_one_goes_on(tmp_path: Path) -> None:
    small = {"retention_check_s": 0.2, "segment_bytes": 1 << 20, "journal_segment_bytes": 1 << 20}
    with KillableCluster(tmp_path / "cluster", **small) as cluster:
        cluster.create_topic("in", partitions=1, retention="2MB")
        cluster.fill("in", 0, 2_000, size_bytes=PAD_BYTES)
        file = pipeline_file(tmp_path, cluster.master, "in", rows=1_000)
        with PipelineRun(file, "--once", pause_at="ledger-written:0") as run:
            run.until_paused()
            cluster.fill("in", 2_000, MESSAGES - 2_000, size_bytes=PAD_BYTES)
            run.until(lambda: cluster.held("in") < MESSAGES - 2_000)
            run.go_on()
            said = run.fail()
        assert "data loss in partition 1:in:0" in said
        assert batches(tmp_path) == 1
        file = pipeline_file(tmp_path, cluster.master, "in", rows=MESSAGES, on_data_loss="report")
        with PipelineRun(file, "--once") as run:
            run.end()
    found = ids(tmp_path)
    assert found == sorted(set(found))
    losses = [json.loads(path.read_text()) for path in (tmp_path / "state" / "losses").glob("*.json")]
    assert losses
    assert sum(loss["rows"] for loss in losses) == MESSAGES - len(found) > 0


def test_a_killed_spark_worker_is_made_up_for_by_the_other(tmp_path: Path, cluster: KillableCluster) -> None:
    with StandaloneSpark(tmp_path / "spark") as spark:
        file = pipeline_file(tmp_path, cluster.master, "in", rows=BATCH, spark=spark.master)
        cluster.cut_after(MIDDLE_BYTES)
        with PipelineRun(file, "--once") as run:
            run.until(lambda: cluster.is_cut)
            assert batches(tmp_path) >= 1
            spark.kill_worker(0)
            cluster.mend()
            run.end()
    check_each_once(tmp_path, MESSAGES)
