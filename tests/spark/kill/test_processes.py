"""Parts of a running pipeline killed, cut off or emptied under it; each test ends in a count against the source.

What is to happen in the middle of a batch happens while its task stands still in the middle of a fetch: a proxy before
the Broker holds everything back after so many bytes. One run lives through most of it, a batch for each.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import pytubemq.sync
from tests.spark.kill.cluster import KillableCluster, message
from tests.spark.kill.process import PipelineRun
from tests.spark.kill.table import batches, check_each_once, ids, pipeline_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

MESSAGES = 60_000
BATCH = 20_000
PAD_BYTES = 200
CUT_S = 20.0


@dataclass
class Lasting:
    """A run that goes on, and takes what is sent in batches of just `BATCH` messages."""

    home: Path
    cluster: KillableCluster
    run: PipelineRun
    sent: int = 0

    def send(self, count: int) -> None:
        """The next messages."""
        self.cluster.fill("in", self.sent, count, size_bytes=PAD_BYTES)
        self.sent += count

    @contextlib.contextmanager
    def held_in_a_batch(self) -> Iterator[PipelineRun]:
        """Its next batch stands still in the middle of its fetches; behind the block it goes on, and is counted."""
        done = batches(self.home)
        self.cluster.cut_after(BATCH * PAD_BYTES // 2)
        self.send(BATCH)
        self.run.until(lambda: self.cluster.is_cut)
        assert batches(self.home) == done
        try:
            yield self.run
        finally:
            self.cluster.mend()
        self.count(done + 1)

    def count(self, wanted: int) -> None:
        """Until so many batches are done; then all that was sent is in the table, once."""
        self.run.until(lambda: batches(self.home) == wanted)
        check_each_once(self.home, self.sent)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lasting]:
    home = tmp_path_factory.mktemp("lasting")
    with KillableCluster(home / "cluster") as cluster:
        cluster.create_topic("in")
        file = pipeline_file(home, cluster.master, "in", rows=BATCH, limit={"rows": BATCH, "min_rows": BATCH})
        with PipelineRun(file) as run:
            yield Lasting(home, cluster, run)


def test_a_killed_python_worker_is_replaced_and_its_task_done_again(lasting: Lasting, soak: bool) -> None:
    for _ in range(20 if soak else 1):
        with lasting.held_in_a_batch() as run:
            run.until(run.workers)
            for pid in run.workers():
                os.kill(pid, signal.SIGKILL)


def test_a_broker_killed_while_a_batch_reads_is_waited_for(lasting: Lasting) -> None:
    with lasting.held_in_a_batch():
        lasting.cluster.kill_broker()
        lasting.cluster.mend()
        lasting.cluster.restart_broker()


def test_a_master_killed_while_a_batch_is_planned_is_waited_for(lasting: Lasting) -> None:
    """The driver asks it for the topic's partitions, at most every two seconds, before a batch may begin."""
    cluster, run, done = lasting.cluster, lasting.run, batches(lasting.home)

    def asks_in_vain() -> None:
        before = cluster.turned_away
        run.until(lambda: cluster.turned_away > before)

    with pytubemq.sync.connect(str(cluster.settings.master.listen)) as tube, tube.producer("in") as producer:
        producer.send(message(lasting.sent))
        cluster.kill_master()
        asks_in_vain()
        for start in range(1, BATCH, 1000):
            numbers = range(lasting.sent + start, lasting.sent + min(start + 1000, BATCH))
            producer.send_many([message(number, size_bytes=PAD_BYTES) for number in numbers])
        asks_in_vain()
        assert batches(lasting.home) == done
        cluster.restart_master()
    lasting.sent += BATCH
    lasting.count(done + 1)


def test_a_network_that_is_cut_for_twenty_seconds_costs_nothing_but_time(lasting: Lasting) -> None:
    with lasting.held_in_a_batch():
        time.sleep(CUT_S)  # the cut itself


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
