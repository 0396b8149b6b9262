"""Spark to TubeMQ to Spark, through kills: each row of the input stands in the topic, or comes out of it, once.

Every kill is a SIGKILL of a real process after part of a batch is in the topic, seen there before the kill.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pyspark import TaskContext
from pyspark.sql import functions as F

import pytubemq.sync
from pytubemq.model.offset import messages_between
from tests.spark.conftest import PARTITIONS, Topic
from tests.spark.kill.cluster import KillableCluster
from tests.support.waiting import until_seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from pytubemq.server.cluster import ThreadedCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROWS = 40_000
PADDED_BYTES = 200
PATIENCE_S = 300.0


def until(condition: Callable[[], object]) -> None:
    until_seen(condition, timeout_s=PATIENCE_S, every_s=0.005)


def stored(master: str, topic: str) -> int:
    with pytubemq.sync.connect(master) as tube:
        return sum(messages_between(*ends) for ends in tube.offsets(tube.partitions(topic)).values())


def killing(master: str, topic: str) -> Any:
    """A column function: the worker that computes it is killed at row 25,000 of the first attempt of a task, after some
    of the task's rows have reached the topic."""

    def same(n: int) -> str:  # runs in a worker, which cannot import this module
        context = TaskContext.get()
        if n == 25_000 and context is not None and context.attemptNumber() == 0:
            ends, there = time.monotonic() + 60.0, 0
            with pytubemq.sync.connect(master) as tube:
                while there < 5_000 and time.monotonic() < ends:
                    there = sum(newest // 28 for _, newest in tube.offsets(tube.partitions(topic)).values())
            os.kill(os.getpid(), signal.SIGKILL)
        return str(n)

    return F.udf(same, "string", useArrow=False)


def rows(spark: SparkSession, topic: Topic) -> DataFrame:
    """One task, so that what is killed has sent something."""
    ids = spark.range(ROWS, numPartitions=1)
    return ids.select(killing(topic.master, topic.name)("id").alias("body"), F.col("id").alias("idempotencyKey"))


def write(frame: DataFrame, topic: Topic, **options: str) -> None:
    frame.write.format("tubemq").options(**topic.options, **options).mode("append").save()


def read(spark: SparkSession, topic: Topic, **options: str) -> list[int]:
    frame = spark.read.format("tubemq").options(**topic.options, **options).load()
    return [int(row.body) for row in frame.select("body").collect()]


def test_without_marks_a_killed_attempt_leaves_repeats_behind(spark: SparkSession, topic: Topic) -> None:
    """What the other tests rely on: the kill comes when part of the rows are in the topic."""
    write(rows(spark, topic).drop("idempotencyKey"), topic)
    found = read(spark, topic)
    assert set(found) == set(range(ROWS))
    assert len(found) >= ROWS + 5_000


def test_by_number_a_killed_attempt_leaves_nothing_twice(spark: SparkSession, topic: Topic) -> None:
    write(rows(spark, topic).drop("idempotencyKey"), topic, idempotent="true", planIsMapOnly="true")
    assert sorted(read(spark, topic)) == list(range(ROWS))


def test_by_key_a_killed_attempt_leaves_nothing_twice_for_a_reader_that_drops_repeats(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    write(rows(spark, topic), topic, idempotent="true")
    assert len(read(spark, topic)) >= ROWS + 5_000
    assert sorted(read(spark, topic, dedup="true", columns="body")) == list(range(ROWS))
    stream = (
        spark.readStream.format("tubemq")
        .options(**topic.options, dedup="true", startingOffsets="earliest", maxRowsPerTrigger="9000")
        .load()
    )
    query = (
        stream.select("body")
        .writeStream.format("parquet")
        .options(checkpointLocation=checkpoint, path=f"{checkpoint}-rows")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    written = spark.read.parquet(f"{checkpoint}-rows").select(F.col("body").cast("string").cast("int")).collect()
    assert sorted(row[0] for row in written) == list(range(ROWS))


def test_a_broker_killed_while_rows_are_written_has_each_of_them_once(
    spark: SparkSession, tmp_path: Path, soak: bool
) -> None:
    """Its answers are held back first, so that it has rows of which Spark does not know, and which are sent again."""
    ids = spark.range(ROWS, numPartitions=1)
    padded = ids.select(F.lpad(F.col("id").cast("string"), PADDED_BYTES, "0").alias("body"))
    with KillableCluster(tmp_path / "cluster") as cluster, ThreadPoolExecutor(1) as beside:
        for sent in range(ROWS // 4, ROWS, ROWS // 16) if soak else (ROWS // 2,):
            topic = Topic(f"out_{sent}", cluster.master)
            cluster.create_topic(topic.name)
            cluster.hold_answers_after(sent * PADDED_BYTES)
            kill = beside.submit(kill_when_it_holds_answers, cluster)
            write(padded, topic, idempotent="true", planIsMapOnly="true")
            kill.result()
            assert Counter(cluster.bodies(topic.name)) == Counter(range(ROWS))
            assert cluster.figure("pytubemq_broker_repeats_dropped_total") > 0


def kill_when_it_holds_answers(cluster: KillableCluster) -> None:
    """In a thread of its own: Spark finds our format only in threads that know its session."""
    until(lambda: cluster.holds_answers)
    cluster.kill_broker()
    cluster.break_off()
    cluster.mend()
    cluster.restart_broker()


def more_partitions(cluster: ThreadedCluster, topic: Topic) -> None:
    with httpx.Client(base_url=cluster.http, timeout=60) as http:
        http.patch(f"/api/v1/topics/{topic.name}", json={"partitions": PARTITIONS + 2}).raise_for_status()
    with pytubemq.sync.connect(topic.master) as tube:
        until(lambda: len(tube.partitions(topic.name)) == PARTITIONS + 2)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a Spark of its own that copies a topic to another one, in batches; with `stop_at` it stands still within
    that batch, after part of it has reached the other topic, and says so by a file."""
    started: list[subprocess.Popen[bytes]] = []
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(JOB))

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "job.log").open("ab") as log:
            made = subprocess.Popen(
                [sys.executable, str(script), *arguments],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        started.append(made)
        return made

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


JOB = """
    import os, sys, time
    from pyspark import TaskContext
    from pyspark.sql import SparkSession, functions as F
    import pytubemq.sync
    from pytubemq.model.offset import messages_between

    master, one, two, checkpoint, stop_at, ready = sys.argv[1:]

    def stored():
        with pytubemq.sync.connect(master) as tube:
            return sum(messages_between(*ends) for ends in tube.offsets(tube.partitions(two)).values())

    def same(n):
        context = TaskContext.get()
        batch = int(context.getLocalProperty("streaming.sql.batchId"))
        if n % 1000 == 999 and batch == int(stop_at):
            before = stored()
            if before > 0 and not os.path.exists(ready):
                open(ready, "w").close()
            if os.path.exists(ready):
                time.sleep(600)
        return n

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false").config("spark.local.dir", os.path.dirname(checkpoint))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
        .getOrCreate()
    )
    query = (
        spark.readStream.format("tubemq")
        .options(master=master, topic=one, startingOffsets="earliest", maxRowsPerTrigger="20000").load()
        .select(F.col("body").cast("string").cast("int").alias("n"))
        .select(F.udf(same, "int", useArrow=False)("n").cast("string").alias("body"))
        .writeStream.format("tubemq")
        .options(master=master, topic=two, checkpointLocation=checkpoint, idempotent="true", planIsMapOnly="true")
        .trigger(availableNow=True).start()
    )
    query.awaitTermination()
    spark.stop()
"""


def test_a_driver_killed_in_the_middle_of_a_batch_leaves_nothing_twice(
    spark: SparkSession,
    new_topic: Callable[[], Topic],
    job: Callable[..., subprocess.Popen[bytes]],
    cluster: ThreadedCluster,
    checkpoint: str,
    tmp_path: Path,
) -> None:
    one, two = new_topic(), new_topic()
    one.send(ROWS)
    ready = tmp_path / "ready"
    arguments = [one.master, one.name, two.name, checkpoint]
    first = job(*arguments, "0", str(ready))
    until(lambda: ready.exists() or first.poll() is not None)
    assert ready.exists(), (tmp_path / "job.log").read_text()[-3000:]
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert 0 < stored(two.master, two.name) < 20_000
    more_partitions(cluster, two)  # those of the batch that is half written stay the same
    second = job(*arguments, "-1", str(ready))
    assert second.wait(PATIENCE_S) == 0, (tmp_path / "job.log").read_text()[-3000:]
    assert sorted(read(spark, two)) == list(range(ROWS))
    pins = json.loads((Path(checkpoint) / "tubemq-sink.json").read_text())[two.name]
    assert [(first, len(partitions)) for first, partitions in pins] == [(0, PARTITIONS), (1, PARTITIONS + 2)]
