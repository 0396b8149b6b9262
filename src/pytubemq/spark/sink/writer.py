"""The writers that Spark calls: made on the driver anew for each write and each micro-batch, then sent to the tasks.

The invariants: what can be known to be wrong before anything is sent is reported on the driver; nothing that a writer
learns on the way is needed by another one.
"""

from __future__ import annotations

import logging
import os
import secrets
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from pytubemq.client.client_credentials import USER_VARIABLE
from pytubemq.errors import ConfigError, NotAllowedError, NotFoundError, TransportError
from pytubemq.spark.sink.columns import sink_columns
from pytubemq.spark.sink.connection import connected, forget, passed_on
from pytubemq.spark.sink.options import parse_options
from pytubemq.spark.sink.pinned_partitions import pinned
from pytubemq.spark.sink.task import TaskDone, TaskPlan, write_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

    from pytubemq.client.partition_state import Known
    from pytubemq.model.ids import Partition
    from pytubemq.spark.sink.options import SinkOptions
    from pytubemq.spark.sink.pinned_partitions import Pins

_log = logging.getLogger(__name__)


class TubeMqWriter(DataSourceArrowWriter):
    """`df.write.format("tubemq")`."""

    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write, on an executor, the rows of one task."""
        return write_task(self._plan, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log the end: all tasks are done, so all is delivered."""
        _log_end("written", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log that a task has failed for good. What was delivered stays: a topic takes nothing back."""
        _log_end("given up; delivered rows stay", messages)


class TubeMqStreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("tubemq")`."""

    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write, on an executor, the rows of one task of a micro-batch."""
        return write_task(self._plan, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log the end: all tasks are done, so all is delivered."""
        _log_end(f"batch {batchId} written", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log that a task has failed for good; the query ends, and its restart writes this batch again."""
        _log_end(f"batch {batchId} given up; delivered rows stay", messages)


def batch_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> TubeMqWriter:
    """Check a batch write and make its writer.

    Raises:
        ConfigError: an option or a column is wrong, or the mode is overwrite.
        NotFoundError: the topic does not exist.
        TransportError: no Master answers.
    """
    if overwrite:
        raise ConfigError("a topic cannot be overwritten", hint='write .mode("append")')
    asked = parse_options(options, streaming=False)
    query_id = None
    if asked.idempotent:
        query_id = asked.query_id or f"write-{secrets.token_hex(16)}"
    columns = sink_columns(schema, asked)
    partitions = _partitions(asked)
    pins = _pins(asked, partitions, asked.checkpoint_location)
    return TubeMqWriter(TaskPlan(asked, columns, pins, query_id, asked.batch_id, _known(asked)))


def stream_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> TubeMqStreamWriter:
    """Check a streaming write and make the writer of one micro-batch.

    Raises:
        ConfigError: an option or a column is wrong, or the output mode is complete.
        NotFoundError: the topic does not exist.
        TransportError: no Master answers.
    """
    if overwrite:
        raise ConfigError(
            "a topic cannot be overwritten, as the output mode complete wants",
            hint='write .outputMode("append") or .outputMode("update")',
        )
    asked = parse_options(options, streaming=True)
    columns, partitions = sink_columns(schema, asked), _partitions(asked)
    checkpoint = next((value for name, value in options.items() if name.lower() == "checkpointlocation"), None)
    return TubeMqStreamWriter(TaskPlan(asked, columns, _pins(asked, partitions, checkpoint), known=_known(asked)))


def _pins(options: SinkOptions, partitions: tuple[Partition, ...], checkpoint: str | None) -> Pins:
    """Return the partitions over which each batch is divided, if they must stay."""
    if not options.idempotent or options.topic is None:
        return ()
    return ((0, partitions),) if checkpoint is None else pinned(checkpoint, options.topic, partitions)


def _known(options: SinkOptions) -> Known | None:
    """Return the client token that tasks get instead of the secret; None where no user is named."""
    if options.masters.user is None and USER_VARIABLE not in os.environ:
        return None
    try:
        return passed_on(options.masters)
    except (TransportError, NotAllowedError):  # the next try reads the secret again
        forget(options.masters)
        raise


def _partitions(options: SinkOptions) -> tuple[Partition, ...]:
    """Return the partitions of the topic in the options, which must exist; () where each row names its own."""
    if options.topic is None:
        return ()
    try:
        found = tuple(sorted(connected(options.masters).partitions(options.topic)))
    except (TransportError, NotAllowedError):  # the next try reads the secret again
        forget(options.masters)
        raise
    if not found:
        raise NotFoundError(f"topic {options.topic!r} has no partition now", code=404)
    return found


def _log_end(what: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    done = [message for message in messages if isinstance(message, TaskDone)]
    _log.debug(
        "%s: %d messages, %d bytes, %d of them there already, by %d of %d tasks",
        what,
        sum(one.messages for one in done),
        sum(one.size_bytes for one in done),
        sum(one.repeated for one in done),
        len(done),
        len(messages),
    )
