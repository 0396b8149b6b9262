"""The reader of a range of one partition, without a group.

The invariants: batches come in order and without gap; the reader touches no group's position; a message that
cannot be read ends it with an error after those before it, because a range with a hole is no range.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pytubemq.client.option_arguments import takes
from pytubemq.client.options import FetchOptions, ReaderOptions, ReadOptions
from pytubemq.client.received.batch import ReadBatch
from pytubemq.client.received.unpacker import (
    MAX_CONTRADICTIONS,
    Portions,
    Unpacked,
    Unpacker,
    contradiction_error,
    unreadable_error,
)
from pytubemq.client.session.call_with_retry import call_with_retry
from pytubemq.client.session.cluster_connection import Cluster, check
from pytubemq.client.start_position import Start
from pytubemq.core.retry import Backoff
from pytubemq.errors import ClosedError, Code, ConfigError, CorruptError, EnvelopeError, MessageError, OffsetMovedError
from pytubemq.model.offset import messages_between
from pytubemq.wire.batch.fetch_batches import decode_read_range
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.extension import ReadRangeRequestC2B, ReadRangeResponseB2C
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.serialization.message_bytes import encode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from pytubemq.client.session.metadata import MetadataClient
    from pytubemq.core.retry import Rng
    from pytubemq.wire.batch.fetch_batches import Fetched

POLL: Final = Backoff(first_s=0.02, most_s=0.2, jitter=0.25)
"""The pauses between fetches at the end of a partition whose Broker does not support long polls."""


class Reader:
    """Made by `Tube.reader`; use it with `async with`."""

    def __init__(self, cluster: Cluster, metadata: MetadataClient, options: ReaderOptions) -> None:
        self.partition = options.partition
        self._cluster = cluster
        self._metadata = metadata
        self._options = options
        self._unpacker = Unpacker(self.partition, options.filters or None, raw=options.on_malformed == "raw")
        self._rest: Portions | None = None
        """Fetched messages beyond the last batch."""
        self._next: int | None = None
        self._stop: int | None = None
        self._reads: set[asyncio.Task[ReadBatch | None]] = set()
        self._closed = True
        self._contradictions = 0
        self.behind_loss: int | None = None
        """After a CorruptError: the offset from which another reader can go on."""
        self.ended = False
        """True if it was closed."""

    async def __aenter__(self) -> Reader:
        """Find the Broker, and resolve EARLIEST, LATEST and times.

        Raises:
            NotFoundError: the partition does not exist.
            ConfigError: its Broker cannot read ranges.
            MessageError: `start` is an offset beyond `end`.
        """
        self._cluster.check_usable()
        earliest, latest = (await self._metadata.offsets([self.partition]))[self.partition]
        ends = {Start.EARLIEST: earliest, Start.LATEST: latest, Start.ALWAYS_LATEST: latest}
        self._next = await self._offset(self._options.start, ends)
        self._stop = None if self._options.end is None else await self._offset(self._options.end, ends)
        self._check_start(earliest, latest)
        self._closed = False
        return self

    def _check_start(self, earliest: int, latest: int) -> None:
        """Check that the range does not begin behind its end."""
        if not isinstance(self._options.start, int) or self._stop is None or self._options.start <= self._stop:
            return
        if isinstance(self._options.end, int) or self._options.end is Start.LATEST:
            raise MessageError(
                f"start is {self._options.start}, beyond the end of the range at {self._stop}",
                hint=f"{self.partition} has messages from offset {earliest} to before {latest}",
                code=Code.BAD_REQUEST,
            )

    async def _offset(self, place: int | Start | datetime, ends: Mapping[Start, int]) -> int:
        if isinstance(place, datetime):
            return (await self._metadata.offsets([self.partition], at=place))[self.partition][0]
        return ends[place] if isinstance(place, Start) else place

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End it. Idempotent; there is nothing to give back."""
        if self._cluster.is_inherited:
            return
        self._closed = self.ended = True
        for task in self._reads:
            task.cancel()
        await asyncio.gather(*self._reads, return_exceptions=True)

    @property
    def rng(self) -> Rng:
        """The random source of its connection."""
        return self._cluster.rng

    @property
    def position(self) -> int | None:
        """The offset the next batch begins at."""
        return self._next

    @property
    def end(self) -> int | None:
        """The end of the range; None if it goes on with the partition."""
        return self._stop

    @takes(ReadOptions)
    def batches(self, options: ReadOptions) -> ReadBatches:
        """Iterate over the range in batches. Without an `end` it waits for more at the partition's end.

        Args:
            max_messages: most messages in a batch.
            max_bytes: most bytes of payload in a batch; one message may exceed it.
            max_wait_s: how long the Broker may hold one fetch at the partition's end, before the next one is sent. It
                does not end the wait for a batch.
            idle_timeout_s: end the iteration when nothing has come for so long; None goes on.
        """
        return ReadBatches(self, options)

    def fetch_ahead(self, options: FetchOptions) -> asyncio.Task[ReadBatch | None]:
        """Start `read` as a task that ends with this reader at the latest."""
        task = asyncio.get_running_loop().create_task(self.read(options))
        self._reads.add(task)
        task.add_done_callback(self._finish_read)
        return task

    def _finish_read(self, task: asyncio.Task[ReadBatch | None]) -> None:
        self._reads.discard(task)
        if not task.cancelled():
            task.exception()  # a fetch ahead that nobody asks for any more may fail in peace

    async def read(self, options: FetchOptions) -> ReadBatch | None:
        """Return the next batch; None at the end of the range, or if the Broker had nothing within `max_wait_s`."""
        if self._closed or self._next is None:
            raise ClosedError("the reader is not open", hint="use it inside `async with`")
        self._cluster.check_usable()
        if self._rest is not None:
            return self._portion(self._rest, options)
        if self._stop is not None and self._next >= self._stop:
            return None
        start = self._next
        fetched = await call_with_retry(
            lambda: self._fetch(start, options),
            for_s=self._options.retry_for_s,
            rng=self._cluster.rng,
            renew_token=lambda: self._metadata.renew_token(self.partition.topic),
        )
        head = fetched.head
        if head.err_code == Code.NOT_FOUND:
            self._check_end(head.max_offset)
            self._check_nothing(start, head.max_offset)
            return None
        self._contradictions = 0
        if head.next_offset is None or head.next_offset <= start:
            raise CorruptError(
                f"the Broker of {self.partition} returned messages, but no offset to continue at after {start}"
            )
        end = head.next_offset if self._stop is None else min(head.next_offset, self._stop)  # a pack comes whole
        found = self._unpacker.read(fetched.records, fetched.damaged, start=start, end=end)
        if self._options.filters:
            return self._filtered(found, start, end, options)
        return self._portion(self._portions(found, start, end), options)

    def _filtered(self, found: Unpacked, start: int, end: int, options: FetchOptions) -> ReadBatch | None:
        """Return the messages of the wanted types, perhaps none; those between are of other types, or lost."""
        damaged = [one for one in found.unreadable if one.offset is None or start <= one.offset < end]
        if damaged:
            at = start if damaged[0].offset is None else damaged[0].offset
            self.behind_loss = end
            raise CorruptError(
                f"{self.partition} from offset {at} on cannot be read: {damaged[0].reason}",
                hint=f"read on from offset {end}",
            )
        if found.messages:
            return self._portion(Portions(found.messages, found.malformed, start, end), options)
        self._next = end
        return ReadBatch(self.partition, (), start, end)

    def _portion(self, portions: Portions, options: FetchOptions) -> ReadBatch | None:
        portion = portions.take(options.max_messages, options.max_bytes)
        self._rest = portions if portions else None
        assert portion.start is not None
        assert portion.end is not None
        self._next = portion.end
        return ReadBatch(self.partition, portion.messages, portion.start, portion.end, portion.malformed)

    def _portions(self, found: Unpacked, start: int, end: int) -> Portions:
        """Return the messages up to the first one that cannot be read; raise if that is the first of all."""
        gap = found.gap(start, end)
        if gap is None:
            return Portions(found.messages, found.malformed, start, end)
        first, until = gap
        before = [message for message in found.messages if message.offset is not None and message.offset < first]
        if before:
            kept = {position for position in found.malformed if position < len(before)}
            return Portions(before, kept, start, first)
        reasons = [one.reason for one in found.unreadable if one.offset is None or one.offset < until]
        self.behind_loss = until
        raise CorruptError(
            f"{self.partition} from offset {first} to before {until} ({messages_between(first, until)} messages) "
            f"cannot be read: {reasons[0] if reasons else 'they are lost to damage'}",
            hint=f"read on from offset {until}",
        )

    def _check_end(self, newest: int | None) -> None:
        """Check after an empty response that the partition does not end before the range, because then nothing ever
        comes."""
        if self._options.end_exists and self._stop is not None and newest is not None and 0 <= newest < self._stop:
            raise OffsetMovedError(
                f"partition {self.partition} ends at {newest}, before the end {self._stop} of the range to read",
                hint="its Broker has lost messages that it had before; see what happened to its data directory",
                code=Code.MOVED,
            )

    def _check_nothing(self, start: int, newest: int | None) -> None:
        """Check after an empty response that the Broker does not keep reporting an end that is further on."""
        self._contradictions = self._contradictions + 1 if newest is not None and newest > start else 0
        if newest is not None and self._contradictions == MAX_CONTRADICTIONS:
            raise contradiction_error(self.partition, start, newest)

    async def _fetch(
        self, start: int, options: FetchOptions, *, checked: bool = False
    ) -> Fetched[ReadRangeResponseB2C]:
        """Fetch from `start` on; `checked`: after an unreadable response, with each record checked by the Broker."""
        connection = await self._metadata.connection(
            self.partition.broker_id, self.partition.topic, Capability.READ_RANGE, "read a range"
        )
        if self._options.filters and Capability.RANGE_FILTERS not in connection.capabilities:
            raise ConfigError(
                f"the Broker {self.partition.broker_id} at {connection.peer} cannot filter a range by message type",
                hint="upgrade it to this version, or leave the filters out",
            )
        request = ReadRangeRequestC2B(
            client_id=self._metadata.client_id,
            topic_name=self.partition.topic,
            partition_id=self.partition.partition_id,
            offset=start,
            end_offset=self._stop,
            max_messages=options.max_messages,
            max_bytes=options.max_bytes,
            max_wait_ms=int(options.max_wait_s * 1000) or None,
            auth_info=self._cluster.auth_info_of(self._metadata.client_id),
            filters=tuple(sorted(self._options.filters)),
            check=checked or None,
        )
        response = await connection.call(
            Method.READ_RANGE_C2B,
            Service.BROKER_READ,
            encode(request),
            timeout_s=self._cluster.options.request_timeout_s + options.max_wait_s,
        )
        try:
            fetched = decode_read_range(response.body)
        except EnvelopeError as error:
            if checked:
                raise unreadable_error(self.partition, start, error) from error
            return await self._fetch(start, options, checked=True)
        if fetched.head.err_code != Code.NOT_FOUND:
            check(fetched.head, hint=_moved_hint(fetched.head))
        return fetched

    def is_finished(self) -> bool:
        """True if the range has been read to its end."""
        return self._rest is None and self._stop is not None and self._next is not None and self._next >= self._stop


class ReadBatches:
    """Iterates over a range, one fetch ahead of its user."""

    def __init__(self, reader: Reader, options: FetchOptions) -> None:
        self._reader = reader
        self._options = options
        self._ahead: asyncio.Task[ReadBatch | None] | None = None
        self._began_s = 0.0
        """The time when the fetch ahead began."""
        self._empty = 0
        """Consecutive empty responses that came at once."""

    def __aiter__(self) -> ReadBatches:
        return self

    async def __anext__(self) -> ReadBatch:
        loop = asyncio.get_running_loop()
        idle_s = self._options.idle_timeout_s
        until_s = None if idle_s is None else loop.time() + idle_s
        while True:
            batch = await self._take(until_s)
            if batch is not None:
                self._empty = 0
                return batch
            if self._reader.is_finished() or (until_s is not None and loop.time() >= until_s):
                raise StopAsyncIteration
            await self._pause(until_s)

    async def _pause(self, until_s: float | None) -> None:
        """Pause before the next fetch if the Broker did not answer the last one as a long poll."""
        if self._ahead is not None:
            return
        now_s = asyncio.get_running_loop().time()
        held = now_s - self._began_s >= self._options.max_wait_s / 2 > 0
        self._empty = 0 if held else self._empty + 1
        if not held:
            pause_s = POLL.delay_s(self._empty, self._reader.rng)
            await asyncio.sleep(pause_s if until_s is None else max(0.0, min(pause_s, until_s - now_s)))

    async def _take(self, until_s: float | None) -> ReadBatch | None:
        """Return the result of the fetch ahead. A wait that is cancelled or over leaves it going."""
        task = self._ahead = self._ahead or self._fetch_ahead()
        try:
            async with asyncio.timeout_at(until_s):
                batch = await asyncio.shield(task)
        except TimeoutError:
            if not task.done():
                return None
            batch = task.result()
        finally:
            if task.done():
                self._ahead = None
        if batch is not None and not self._reader.is_finished():
            self._ahead = self._fetch_ahead()
        return batch

    def _fetch_ahead(self) -> asyncio.Task[ReadBatch | None]:
        self._began_s = asyncio.get_running_loop().time()
        return self._reader.fetch_ahead(self._options)

    async def aclose(self) -> None:
        """Stop fetching ahead."""
        if self._ahead is not None:
            self._ahead.cancel()
            with contextlib.suppress(BaseException):
                await self._ahead
            self._ahead = None


def _moved_hint(head: ReadRangeResponseB2C) -> str | None:
    if head.err_code != Code.MOVED:
        return None
    return f"the messages there have been deleted; the first offset is now {head.min_offset}"
