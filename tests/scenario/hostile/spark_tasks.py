"""What Spark runs of this package, without Spark: planning on the driver, and tasks that read and write, in threads.

The invariant: as of clients, an error of the package's own tree ends a round and nothing else. A round that takes much
longer than the patience that is set here hangs, and that is a fault.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from pytubemq.client.options import ConnectOptions
from pytubemq.client.partition_state import Known
from pytubemq.client.reader import range_reads
from pytubemq.client.reader.range_group import GroupRanges
from pytubemq.client.session import call_with_retry
from pytubemq.core.retry import Backoff
from pytubemq.errors import TubeError
from pytubemq.model.ids import Address, Partition
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.spark.sink import sending
from pytubemq.spark.sink.connection import forget as forget_sink
from pytubemq.spark.sink.options import parse_options as sink_options
from pytubemq.spark.source.batch import TubeMqReader
from pytubemq.spark.source.data_source import TubeMqDataSource
from pytubemq.spark.source.java import access, partition_ends, reading
from pytubemq.spark.source.options import parse_options
from pytubemq.spark.source.planning.plan import BrokerKind, OffsetRange
from pytubemq.spark.source.read import fetch, source_connection
from pytubemq.spark.source.read.task import RangePartition, read_range
from pytubemq.spark.source.stream import TubeMqStreamReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql.datasource import InputPartition

    from tests.scenario.hostile.watch import Watch

TOPIC: Final = "demo"
ROWS: Final = 200
"""Rows of a partition, and of a write."""
BATCH_ROWS: Final = 100
ROUND_S: Final = 60.0
"""A round takes a few seconds, on a busy machine too; one that takes so long hangs."""
END_S: Final = 15.0
MOST_CHARS: Final = 5_000
"""Of the text of an error, which may have words of the peer."""

logger = logging.getLogger("tests.hostile")


def be_impatient() -> None:
    """Shorten every wait of these parts, so that a run meets many answers; which of them are there stays as it is."""
    soon = Backoff(first_s=0.001, most_s=0.01)
    for module, values in (
        (source_connection, {"OUTAGE_S": 1.0, "FIRST_CONTACT_S": 1.0, "_BACKOFF": soon}),
        (fetch, {"BRIEF_S": 0.5, "_BACKOFF": soon}),
        (reading, {"OUTAGE_S": 1.0, "LEASE_S": 1.0, "LIMITED_S": 1.0, "POLL_S": 0.01, "PAUSES": soon}),
        (partition_ends, {"BRIEF_S": 0.5}),
        (call_with_retry, {"BRIEF_S": 0.5}),
        (range_reads, {"DEFAULT_REQUEST_TIMEOUT_S": 0.3, "MAX_WAIT_S": 0.1}),
        (sending, {"_ANSWER_GRACE_S": 5.0}),
    ):
        assert values.keys() <= vars(module).keys()
        vars(module).update(values)
    for made, name in ((ConnectOptions, "request_timeout_s"), (GroupRanges, "retry_for_s")):
        defaults = made.__init__.__kwdefaults__
        assert defaults is not None
        defaults[name] = 0.3


class SparkTasks:
    """The threads, each with one kind of work, again and again."""

    def __init__(self, masters: str, broker: str, losses: Path) -> None:
        self._masters = masters
        self._broker = Address.parse(broker)
        self._losses = losses
        self._random = random.Random(masters)
        self._ends = threading.Event()
        self.rounds: dict[str, int] = {}
        self.rows = 0
        """Rows read, and rows of which the Broker has acknowledged each."""
        facts = {"stageId": 0, "partitionId": 0, "attemptNumber": 0, "taskAttemptId": 0, "cpus": 1}
        TaskContext._setTaskContext(TaskContext.from_json({**facts, "resources": {}, "localProperties": {}}))
        self._threads = [
            threading.Thread(target=self._again, args=(work,), name=work.__name__, daemon=True)
            for work in (self._batch, self._stream, self._planned, self._planned_java, self._write)
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def end(self, watch: Watch) -> None:
        """Wait for the rounds that are under way, and close all connections."""
        self._ends.set()
        ends_s = time.monotonic() + END_S
        for thread in self._threads:
            thread.join(max(0.0, ends_s - time.monotonic()))
            if thread.is_alive():
                watch.problem(f"{thread.name} did not end within {END_S:g} s")
        fetch.close_kept()
        for masters in (self._options().masters, sink_options(self._to_write(), streaming=False).masters):
            access.forget(masters)
            forget_sink(masters)

    def _again(self, work: Callable[[], None]) -> None:
        while not self._ends.is_set():
            began_s = time.monotonic()
            try:
                work()
            except TubeError as error:
                if not error.message.strip() or not error.message.isprintable() or len(error.message) > MOST_CHARS:
                    logger.exception("%s ended with an error that says nothing, or what it must not", work.__name__)
                self._ends.wait(0.001)  # a refusal comes at once
            except Exception:
                logger.exception("%s ended with what is no error of the package", work.__name__)
                self._ends.wait(0.1)  # the log would fill up
            if time.monotonic() - began_s > ROUND_S:
                logger.error("a round of %s took more than %g s", work.__name__, ROUND_S)
            self.rounds[work.__name__] = self.rounds.get(work.__name__, 0) + 1
        source_connection.Cluster(self._options().masters).forget()  # each thread has its own

    # --- the source -----------------------------------------------------------------------------------------

    def _options(self, **more: str) -> Any:
        return parse_options({"master": self._masters, "topic": TOPIC, **more})

    def _on_loss(self) -> dict[str, str]:
        how = self._random.choice(("true", "false", "report"))
        return {"failOnDataLoss": how, **({"lossDirectory": str(self._losses)} if how == "report" else {})}

    def _batch(self) -> None:
        options = self._options(
            startingOffsets="earliest", maxRecordsPerTask=str(self._random.choice((1, 50))), **self._on_loss()
        )
        reader = TubeMqReader(options)
        for task in reader.partitions():
            self._read(reader.read(task))
            if self._ends.is_set():
                return

    def _stream(self) -> None:
        reader = TubeMqStreamReader(self._options(startingOffsets="earliest", **self._on_loss()))
        try:
            start = reader.initialOffset()
            for _ in range(3):
                end = reader.latestOffset(start, ReadMaxRows(BATCH_ROWS))
                assert json.loads(json.dumps(end)) == end, "the checkpoint keeps it"
                assert all(isinstance(offset, int) and offset >= 0 for offset in end.values()), end
                for task in reader.partitions(start, end):
                    self._read(reader.read(task))
                reader.commit(end)
                start = end
        finally:
            reader.stop()

    def _planned(self) -> None:
        """A task that was planned when the cluster was sound."""
        self._read(read_range(self._options(**self._on_loss()), self._task(BrokerKind.OURS)))

    def _planned_java(self) -> None:
        self._read(read_range(self._options(**self._on_loss()), self._task(BrokerKind.JAVA)))

    def _task(self, kind: BrokerKind) -> InputPartition:
        known = Known(((1, self._broker.host, self._broker.port),), 1)
        return RangePartition([OffsetRange(Partition(1, TOPIC, 0), 0, ROWS * OFFSET_UNIT)], kind, known)

    def _read(self, batches: Any) -> None:
        for batch in batches:
            assert batch.num_rows > 0
            for offset, body in zip(batch.column("offset").to_pylist(), batch.column("body").to_pylist(), strict=True):
                assert offset is None or offset >= 0
                assert isinstance(body, bytes)
            self.rows += batch.num_rows
            if self._ends.is_set():
                return

    # --- the sink -------------------------------------------------------------------------------------------

    def _to_write(self, **more: str) -> dict[str, str]:
        return {"master": self._masters, "topic": TOPIC, "deliveryTimeout": "1s", **more}

    def _write(self) -> None:
        how = self._random.choice(({}, {"idempotent": "true", "planIsMapOnly": "true"}))
        source = TubeMqDataSource(self._to_write(**how))
        writer = source.writer(StructType().add("body", "binary"), overwrite=False)
        bodies = pa.array([b"%d" % number for number in range(ROWS)], pa.binary())
        done: Any = writer.write(iter([pa.RecordBatch.from_arrays([bodies], names=["body"])]))
        assert done.messages == ROWS
        self.rows += ROWS
