"""A range of a Java Broker's partition as Arrow batches: what a task reads.

The invariant: the batches have exactly the messages of the range, whatever happens to the Broker meanwhile; the next
piece is fetched while Spark works on the last one.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext

from pytubemq.client.received.unpacker import Unpacked, Unpacker
from pytubemq.errors import CorruptError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.spark.source.arrow import BatchBuilder
from pytubemq.spark.source.java.access import Access, access
from pytubemq.spark.source.java.group import group_names
from pytubemq.spark.source.java.reading import RangePiece, RangeReading
from pytubemq.spark.source.planning.plan import Ends, OffsetRange

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from datetime import tzinfo

    from pytubemq.client.partition_state import Known
    from pytubemq.client.received.unpacker import Unreadable
    from pytubemq.model.cluster_address import ClusterAddress
    from pytubemq.model.message import Message

QUERY_ID: Final = "sql.streaming.queryId"
"""The local property that Spark sets in the tasks of a streaming query."""
BATCH_ROWS: Final = 10_000
"""Rows from which on a batch goes to Spark; a Java Broker gives half of what is left with each fetch, down to one."""
BATCH_BYTES: Final = 4 << 20
"""Payload from which on it goes, too."""


def java_batches(
    masters: ClusterAddress,
    wanted: OffsetRange,
    columns: Sequence[str],
    *,
    time_zone: tzinfo,
    fail_on_data_loss: bool,
    known: Known | None = None,
    read_group: str | None = None,
    flushed_only: bool = False,
    on_loss: Callable[[OffsetRange, Ends], None] | None = None,
) -> Iterator[Any]:
    """Yield the messages of [start, end) as `pyarrow.RecordBatch`es, in order.

    `offset` is null where the Broker does not let it be known: in a store that several partitions share.

    Args:
        masters: the cluster's Masters.
        wanted: the range; `end` is at most the end that `java_ends` returned.
        columns: names of `source.schema.COLUMNS`.
        time_zone: of `msgTime`.
        fail_on_data_loss: raise an error if some of the range is gone.
        known: what the driver knows of the cluster, so that no Master need be asked.
        read_group: the one group that may read; None takes names of the query's own.
        flushed_only: read from disk only, never what the Broker may still lose.
        on_loss: called with what is skipped, if loss is no error.

    Raises:
        OffsetMovedError: see `fail_on_data_loss`.
        OccupiedError: others hold the partition under each group that may be used.
        CorruptError: a message fails its checksum, and data loss is an error.
        TubeError: the Broker cannot be reached, refuses, or lets nothing through.
    """
    way = access(masters, known)
    query, attempt = _task()
    reading = RangeReading(
        wanted,
        hold=lambda name: way.ranges.hold(wanted.partition, group=name, flushed_only=flushed_only),
        names=lambda: group_names(read_group=read_group, query=query, attempt=attempt),
        renew_token=lambda: way.ranges.renew_token(wanted.partition.topic),
        fail_on_data_loss=fail_on_data_loss,
        on_loss=on_loss,
        wait_for_group=read_group is not None,
    )
    builder = BatchBuilder(wanted.partition, columns, time_zone)
    unpacker = Unpacker(wanted.partition, raw=True)
    messages: list[Message] = []
    malformed: set[int] = set()
    size = 0
    for piece in _ahead(way, reading):
        found = _messages(unpacker, piece, fail=fail_on_data_loss)
        if found.unreadable and on_loss is not None:
            for hole in _holes(piece, found.unreadable, wanted):
                on_loss(hole, Ends(wanted.start, wanted.end))
        malformed.update(len(messages) + position for position in found.malformed)
        messages += found.messages
        size += sum(len(record.payload) for record in piece.records)
        if len(messages) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield builder.build(messages, malformed=malformed)
            messages, malformed, size = [], set(), 0
    if messages:
        yield builder.build(messages, malformed=malformed)


def _task() -> tuple[str | None, int]:
    """Return the streaming query's id, if there is one, and how often Spark has begun this task before."""
    context = TaskContext.get()
    if context is None:
        return None, 0
    return context.getLocalProperty(QUERY_ID), context.attemptNumber()


def _messages(unpacker: Unpacker, piece: RangePiece, *, fail: bool) -> Unpacked:
    """Unpack the messages of a piece; those that fail their checksum are left out, unless that is an error."""
    records = piece.records
    if piece.dense:
        offsets = range(piece.start, piece.end, OFFSET_UNIT)
        records = [record._replace(offset=offset) for record, offset in zip(records, offsets, strict=True)]
    found = unpacker.read(records)
    if found.unreadable and fail:
        raise CorruptError(
            f"{len(found.unreadable)} messages between the offsets {piece.start} and {piece.end} cannot be read: "
            f"{found.unreadable[0].reason}",
            hint="the Java Broker's files are damaged; failOnDataLoss=false leaves such messages out",
        )
    return found


def _holes(piece: RangePiece, unreadable: Sequence[Unreadable], wanted: OffsetRange) -> Iterator[OffsetRange]:
    """Return the holes: offsets that cannot be read, or all that were fetched with them where those are not known."""
    if not piece.dense:
        yield OffsetRange(wanted.partition, piece.start, piece.end)
        return
    offsets = [one.offset for one in unreadable if one.offset is not None]
    start = 0
    for at, offset in enumerate(offsets):
        if at + 1 == len(offsets) or offsets[at + 1] != offset + OFFSET_UNIT:
            yield OffsetRange(wanted.partition, offsets[start], offset + OFFSET_UNIT)
            start = at + 1


def _ahead(way: Access, reading: RangeReading) -> Iterator[RangePiece]:
    """Yield the pieces of a reading, fetching one ahead of its user."""
    pieces = reading.pieces()
    task: asyncio.Task[RangePiece | None] | None = None

    async def following() -> RangePiece | None:
        nonlocal task
        fetching = task or asyncio.get_running_loop().create_task(_next(pieces))
        task = None
        piece = await fetching
        if piece is not None:
            task = asyncio.get_running_loop().create_task(_next(pieces))
        return piece

    async def ended() -> None:
        if task is not None:
            task.cancel()
            with contextlib.suppress(BaseException):
                await task
        with contextlib.suppress(Exception):
            await reading.close()

    try:
        while (piece := way.run(following())) is not None:
            yield piece
    finally:
        way.run(ended())


async def _next(pieces: AsyncIterator[RangePiece]) -> RangePiece | None:
    return await anext(pieces, None)
