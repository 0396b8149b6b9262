"""Spark at Java Brokers: exact ranges, each message once, through kills of readers and of the Broker.

What Spark has written there twice comes once for a reader that drops repeats; where a Java Master gives out visit
tokens they are shown, and where it authenticates clients, tasks sign.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import pytubemq.sync
from pytubemq.client.start_position import Start
from pytubemq.errors import TubeError
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.model.ids import Partition
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.net.iothread import IoThread
from pytubemq.spark.source.java.partition_ends import java_ends
from pytubemq.spark.source.options import parse_options
from pytubemq.spark.source.planning.plan import OffsetRange
from pytubemq.spark.source.planning.survey import Survey
from pytubemq.spark.source.read.fetch import close_kept
from pytubemq.spark.source.read.task import RangePartition, read_range
from tests.spark.session import local_session

from .authenticated_system import MEMBER, TOPIC, AuthenticatedSystem
from .fetch import fetch
from .message_set import make
from .rows import VISITS, columns_of
from .spark_java import KILLED, PARTITIONS, SHARED, SINGLE, STREAMED, WRITTEN, Feeder, JavaCluster, kill_worker, until
from .visits import SENT, STRANGE, until_checked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from .runner import Runner

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(400)]

FAILURES = 2
"""Tasks whose reader is killed; Spark gives a task four tries."""
KILLS = 20
"""Workers killed at most: some of them are idle."""
ROWS = 6000
PADDED_BYTES = 100
SENT_BEFORE = 1000
"""Rows in the topic, at least, when the attempt that wrote them is killed."""
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
VISIT_ROWS = 100
SIGNED_ROWS = 400
JAVA, OURS = 1, 2
"""Ids of the Brokers under a Java Master that authenticates."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaCluster]:
    with JavaCluster(tmp_path_factory.mktemp("java")) as running:
        yield running


def partitions(topic: str, count: int = PARTITIONS) -> list[Partition]:
    return [Partition(1, topic, number) for number in range(count)]


def numbers(rows: DataFrame) -> Counter[int]:
    """How often each message came."""
    return Counter(int(bytes(row.body)) for row in rows.select("body").collect())


def consumed(cluster: JavaCluster, topic: str, count: int) -> Counter[int]:
    """How often each message is in the topic, as a consumer of a group sees it, which takes until it has `count`."""
    found: Counter[int] = Counter()
    with (
        pytubemq.sync.connect(cluster.master) as tube,
        tube.consumer("counts", topic, start=Start.EARLIEST) as consumer,
    ):
        for batch in consumer.batches(idle_timeout_s=30 if found.total() < count else 1):
            found.update(int(message.body) for message in batch.messages)
            batch.confirm()
            if found.total() >= count:
                break
    return found


def test_a_batch_between_two_offsets_is_exact_while_a_producer_goes_on(
    spark: SparkSession, cluster: JavaCluster
) -> None:
    with Feeder(cluster.master, SHARED) as feeder:
        until(lambda: feeder.sent > 12_000)
        newest = min(max(feeder.places[one]) for one in partitions(SHARED))
        start, end = newest // 3 // 28 * 28, newest * 2 // 3 // 28 * 28
        rows = (
            spark.read.format("tubemq")
            .options(
                master=cluster.master, topic=SHARED, columns="partition,offset,timestamp,messageId,attributes,body"
            )
            .option("startingOffsets", json.dumps({str(one): start for one in partitions(SHARED)}))
            .option("endingOffsets", json.dumps({str(one): end for one in partitions(SHARED)}))
            .load()
            .collect()
        )
        assert feeder.sent > 12_000
    for one in partitions(SHARED):
        found = [(int(bytes(row.body)), row.messageId) for row in rows if row.partition == one.partition_id]
        assert found == feeder.between(one, start, end)
        assert found, "a third of what was sent"
    assert all(row.attributes == {"n": bytes(row.body).decode()} for row in rows)
    assert {row.timestamp for row in rows} == {None}
    # Partitions share a store, so offsets are known only where a fetch had messages of one partition alone.
    assert any(row.offset is None for row in rows)
    for row in rows:
        if row.offset is not None:
            place = feeder.places[Partition(1, SHARED, row.partition)][row.offset]
            assert place == (int(bytes(row.body)), row.messageId)


def test_offsets_are_known_in_a_store_that_no_two_partitions_share(spark: SparkSession, cluster: JavaCluster) -> None:
    with Feeder(cluster.master, SINGLE) as feeder:
        until(lambda: feeder.sent > 3000)
    rows = spark.read.format("tubemq").options(master=cluster.master, topic=SINGLE).load().collect()
    (places,) = feeder.places.values()
    assert [(row.offset, int(bytes(row.body))) for row in rows] == [(at, places[at][0]) for at in sorted(places)]


def test_a_stream_in_small_batches_has_each_message_once_though_its_readers_are_killed(
    spark: SparkSession, cluster: JavaCluster, tmp_path: Path
) -> None:
    with Feeder(cluster.master, STREAMED) as feeder:
        until(lambda: feeder.sent > 15_000)
    written = stream(spark, cluster, STREAMED, tmp_path, maxRowsPerTrigger="6000").trigger(availableNow=True)
    before = failed_tasks(spark)
    query = written.start(str(tmp_path / "rows"))
    killed: set[int] = set()
    while query.isActive and failed_tasks(spark) < before + FAILURES and len(killed) < KILLS:
        if spark.sparkContext.statusTracker().getActiveStageIds():  # or it would be one that plans for the driver
            kill_worker(killed)
        query.awaitTermination(0.2)  # type: ignore[arg-type]  # it takes parts of a second, too
    assert query.awaitTermination(240)
    assert failed_tasks(spark) > before, "a reader was killed while it read"
    assert len(query.recentProgress) > 3, "several batches"
    sent = Counter(number for places in feeder.places.values() for number, _ in places.values())
    assert numbers(spark.read.parquet(str(tmp_path / "rows"))) == sent


def test_a_stream_of_what_is_flushed_has_each_message_once_though_the_broker_is_killed(
    spark: SparkSession, cluster: JavaCluster, tmp_path: Path
) -> None:
    rows = tmp_path / "rows"
    flushed = stream(spark, cluster, KILLED, tmp_path, javaReads="flushed", maxRowsPerTrigger="20000")
    with Feeder(cluster.master, KILLED, per_s=1500) as feeder:
        query = flushed.trigger(processingTime="200 milliseconds").start(str(rows))
        until(lambda: rows_in(query) > 2000)
        cluster.kill_broker()
        before = feeder.sent
        cluster.start_broker()
        until(lambda: feeder.sent > before + 2000)
        seen = rows_in(query)
        until(lambda: rows_in(query) > seen)
    query.stop()
    cluster.stop_broker()
    cluster.start_broker()
    until(lambda: is_flushed(cluster, KILLED))
    last = flushed.trigger(availableNow=True).start(str(rows))
    assert last.awaitTermination(120)
    found = numbers(spark.read.parquet(str(rows)))
    assert found == consumed(cluster, KILLED, found.total())


def test_rows_written_twice_come_once_for_a_reader_that_drops_repeats(
    spark: SparkSession, cluster: JavaCluster, tmp_path: Path
) -> None:
    """By number and by key. A Java Broker drops neither: it has what a killed attempt sent, and all of the next one."""
    spark.conf.set(BATCH_ROWS, "500")  # or all rows would be in the hands of the worker that is killed
    try:
        for first, told_by in ((0, {"planIsMapOnly": "true"}), (ROWS, {"idempotencyKey": "id"})):
            ids = spark.range(first, first + ROWS, numPartitions=1)
            body = killing(cluster, WRITTEN, first + ROWS * 2 // 3)("id").alias("body")
            rows = ids.select(body, *(["id"] if "idempotencyKey" in told_by else []))
            written = rows.write.format("tubemq").options(master=cluster.master, topic=WRITTEN, idempotent="true")
            written.options(**told_by).mode("append").save()
    finally:
        spark.conf.unset(BATCH_ROWS)
    read = spark.read.format("tubemq").options(master=cluster.master, topic=WRITTEN)
    found, wanted = numbers(read.load()), Counter(range(2 * ROWS))
    assert found.keys() == wanted.keys()
    for first in (0, ROWS):
        assert sum(found[number] for number in range(first, first + ROWS)) >= ROWS + SENT_BEFORE
    assert numbers(read.option("dedup", "true").load()) == wanted
    once = stream(spark, cluster, WRITTEN, tmp_path, dedup="true", maxRowsPerTrigger="3000").trigger(availableNow=True)
    query = once.start(str(tmp_path / "rows"))
    assert query.awaitTermination(240)
    assert len(query.recentProgress) > 3, "several batches"
    assert numbers(spark.read.parquet(str(tmp_path / "rows"))) == wanted


def killing(cluster: JavaCluster, topic: str, last: int) -> Any:
    """A column function: the worker that computes it is killed at row `last` of the first attempt of a task, after some
    of the task's rows have reached the topic."""
    masters, places = ClusterAddress.parse(cluster.master), partitions(topic)

    def stored() -> int:
        # the partitions share a store, and so its offsets
        return max(there.max_offset for there in java_ends(masters, places).values()) // OFFSET_UNIT

    enough = stored() + SENT_BEFORE

    def same(n: int) -> str:  # runs in a worker, which cannot import this module
        context = TaskContext.get()
        if n == last and context is not None and context.attemptNumber() == 0:
            ends = time.monotonic() + 60.0
            while stored() < enough and time.monotonic() < ends:
                time.sleep(0.05)  # between two looks at what the Broker has
            os.kill(os.getpid(), signal.SIGKILL)
        return str(n).zfill(PADDED_BYTES)  # long, since a worker's answers leave it by 64 KiB

    return F.udf(same, "string", useArrow=False)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("column", columns_of(next(iter(VISITS))))
@pytest.mark.parametrize("row", VISITS)
def test_a_java_masters_visit_token_is_shown_and_fetched_anew(
    spark: SparkSession, runner: Runner, row: str, column: str
) -> None:
    runner.result(row, column)  # has filled the topic
    runner.do(until_checked, column)  # the Brokers may have been restarted since
    where = runner.column(column)
    given = {"master": where.masters, "topic": where.topic("visits")}
    frame = spark.range(VISIT_ROWS).select(F.concat(F.lit("row "), F.col("id")).alias("body"))
    frame.write.format("tubemq").options(**given).mode("append").save()
    sent = Counter(make(f"{given['topic']}-{kind}", n).body for kind in ("java", "ours") for n in range(SENT))
    sent.update([STRANGE, *(b"row %d" % n for n in range(VISIT_ROWS))])
    rows = spark.read.format("tubemq").options(**given, columns="body").load().collect()
    assert Counter(bytes(one.body) for one in rows) == sent

    options = parse_options({**given, "columns": "body"})
    survey = Survey(options)
    ends = survey.ends()
    no_token = replace(survey.known(), visit_token=1)  # as if it had changed since the task was planned
    found: Counter[bytes] = Counter()
    for partition, there in ends.items():
        close_kept()  # a connection over which a token was shown that counts
        wanted = OffsetRange(partition, there.min_offset, there.max_offset)
        for batch in read_range(options, RangePartition([wanted], survey.kind(partition), no_token)):
            found.update(batch.column("body").to_pylist())
    assert found == sent
    survey.cluster.forget()


@pytest.fixture(scope="module")
def authenticated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Options of a topic on a Java Broker and one of ours, at a Java Master that asks everybody to authenticate."""
    home, thread = tmp_path_factory.mktemp("authenticated"), IoThread(name="authenticated")
    system = AuthenticatedSystem(home, fetch())

    async def start() -> None:
        await system.start(java_master=True, java_broker=True)
        await system.start_broker(java=False, broker_id=OURS)

    try:
        thread.run(start())
        with pytubemq.sync.connect(system.master, credentials=MEMBER) as tube:
            until(lambda: {one.broker_id for one in tube.partitions(TOPIC)} == {JAVA, OURS})
        secret = home / "member.secret"
        secret.touch(mode=0o600)
        secret.write_text(MEMBER.secret.reveal())
        yield {"master": system.master, "topic": TOPIC, "user": MEMBER.user, "secretFile": str(secret)}
    finally:
        thread.run(system.close())
        thread.close()


def test_tasks_sign_where_a_java_master_authenticates(
    spark: SparkSession, authenticated: dict[str, str], tmp_path: Path
) -> None:
    ids = spark.range(SIGNED_ROWS, numPartitions=2)
    # Each Broker gets its half, as rows without a place may all go to one.
    place = F.format_string(f"%d:{TOPIC}:%d", F.col("id") % 2 + JAVA, F.floor(F.col("id") / 2) % 2)
    rows = ids.select(F.col("id").cast("string").alias("body"), place.alias("partition"))
    rows.write.format("tubemq").options(**authenticated).mode("append").save()
    sent = Counter(range(SIGNED_ROWS))
    batch = spark.read.format("tubemq").options(**authenticated).load()
    assert numbers(batch) == sent
    assert {row.brokerId for row in batch.select("brokerId").distinct().collect()} == {JAVA, OURS}
    query = (
        spark.readStream.format("tubemq")
        .options(**authenticated, startingOffsets="earliest", maxRowsPerTrigger=str(SIGNED_ROWS // 2))
        .load()
        .select("body")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "rows"))
    )
    assert query.awaitTermination(240)
    assert numbers(spark.read.parquet(str(tmp_path / "rows"))) == sent
    shown = [batch._jdf.queryExecution().toString().encode(), *(one.json.encode() for one in query.recentProgress)]
    shown += [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert not [text for text in shown if MEMBER.secret.reveal().encode() in text]


def test_who_does_not_sign_at_a_java_master_is_told_the_options(
    spark: SparkSession, authenticated: dict[str, str]
) -> None:
    unsigned = {name: value for name, value in authenticated.items() if name not in ("user", "secretFile")}
    with pytest.raises(PySparkException, match="the options user and secretFile name the user"):
        spark.read.format("tubemq").options(**unsigned).load().count()


def is_flushed(cluster: JavaCluster, topic: str) -> bool:
    """Whether the Broker is there and has all of a topic on disk."""
    masters = ClusterAddress.parse(cluster.master)
    try:
        on_disk = java_ends(masters, partitions(topic), flushed_only=True)
        return on_disk == java_ends(masters, partitions(topic))
    except TubeError:
        return False


def stream(spark: SparkSession, cluster: JavaCluster, topic: str, home: Path, **options: str) -> DataStreamWriter:
    """A query from the topic's begin into Parquet."""
    read = spark.readStream.format("tubemq").options(master=cluster.master, topic=topic, startingOffsets="earliest")
    rows = read.options(**options).option("columns", "partition,body").load()
    return rows.writeStream.format("parquet").option("checkpointLocation", str(home / "checkpoint"))


def failed_tasks(spark: SparkSession) -> int:
    """How many tasks of this session have failed so far."""
    tracker = spark.sparkContext.statusTracker()
    failed = number = 0
    while (stage := tracker.getStageInfo(number)) is not None:
        failed += stage.numFailedTasks
        number += 1
    return failed


def rows_in(query: StreamingQuery) -> int:
    """How many rows a query has read."""
    assert query.exception() is None, str(query.exception())
    return sum(progress.numInputRows for progress in query.recentProgress)
