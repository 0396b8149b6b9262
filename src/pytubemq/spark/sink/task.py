"""One task of a write, on an executor: batches in, everything acknowledged, a count out.

The invariant: of a task that returns every row was acknowledged by a Broker; one that fails says which row or topic it
was, and Spark may try it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from pytubemq.errors import ConfigError, NotAllowedError, TransportError, TubeError
from pytubemq.spark.error_boundary import make_printable
from pytubemq.spark.sink.connection import connected, forget
from pytubemq.spark.sink.identity import Identity
from pytubemq.spark.sink.pinned_partitions import partitions_of
from pytubemq.spark.sink.rows import RowReader
from pytubemq.spark.sink.sending import Sending

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from pytubemq.client.partition_state import Known
    from pytubemq.spark.sink.columns import SinkColumns
    from pytubemq.spark.sink.options import SinkOptions
    from pytubemq.spark.sink.pinned_partitions import Pins

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
_CODEC: Final = "spark.sql.execution.arrow.compression.codec"


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The decisions of the driver; they travel with the writer."""

    options: SinkOptions
    columns: SinkColumns
    pins: Pins = ()
    """Partitions of the topic that the options name, where rows have to go to the same ones again; else ()."""
    query_id: str | None = None
    """The identity of a batch write in idempotent mode; a stream's tasks know their query."""
    batch_id: int = 0
    known: Known | None = None
    """The driver's client token, instead of the secret; None where the Master issues none."""


@dataclass(frozen=True, slots=True)
class TaskDone(WriterCommitMessage):
    """The report of one task to the driver."""

    part: int
    messages: int
    size_bytes: int
    repeated: int


def write_task(plan: TaskPlan, batches: Iterator[pa.RecordBatch]) -> TaskDone:
    """Send the rows of a task.

    Raises:
        ConfigError: a setting of Spark rules it out, or a replayed batch is not the same as the first time.
        MessageError: a row cannot be sent.
        TubeError: a row was not delivered in time.
    """
    try:
        return _write(plan, batches)
    except TubeError as error:
        make_printable(error)
        raise


def _write(plan: TaskPlan, batches: Iterator[pa.RecordBatch]) -> TaskDone:
    context = TaskContext.get()
    if context is None:
        raise ConfigError("the sink runs inside of Spark's tasks only")
    _check_codec(context)
    part = context.partitionId()
    identity = _identity(plan, context)
    where = f"Spark partition {part}" if identity is None else f"Spark partition {part}, batch {identity.batch}"
    reader = RowReader(plan.columns, plan.options, where)
    row = 0
    try:
        tube = connected(plan.options.masters, plan.known)
        partitions = () if identity is None else partitions_of(identity.batch, plan.pins)
        with Sending(tube, plan.options, where=where, identity=identity, partitions=partitions) as sending:
            for batch in batches:
                if batch.num_rows:
                    sending.put(reader.read(batch, row))
                    row += batch.num_rows
            sent = sending.finish()
    except (TransportError, NotAllowedError):
        forget(plan.options.masters)  # the next try begins with new connections, and with the token of its own plan
        raise
    return TaskDone(part, sent.messages, sent.size_bytes, sent.repeated)


def _identity(plan: TaskPlan, context: TaskContext) -> Identity | None:
    if not plan.options.idempotent:
        return None
    if plan.query_id is not None:
        return Identity(plan.query_id, plan.batch_id, context.partitionId())
    query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if query is None or batch is None:
        raise ConfigError(
            "this Spark does not give its tasks the ids of query and batch, by which duplicates are detected",
            hint="write with foreachBatch and the options queryId and batchId",
        )
    return Identity(query, int(batch), context.partitionId())


def _check_codec(context: TaskContext) -> None:
    if (context.getLocalProperty(_CODEC) or "").lower() == "lz4":
        raise ConfigError(
            f"{_CODEC}=lz4 is refused: with it Spark's own writer to Python was seen to hang for minutes",
            hint="leave it out, or set it to none or zstd",
        )
