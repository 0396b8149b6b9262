"""Reads for fetches: at once from memory, on a few threads from the disk.

The invariants: the event loop never waits for the disk, nor for record batches to be unpacked; reads that wait for a
thread are bounded; each read ends in exactly one call of `done`, on the event loop. A partition that cannot be read
affects no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytubemq.broker.consume.batch_unpacking import unpack_batches
from pytubemq.core.refusal import Refusal
from pytubemq.errors import Code, FormatError, NotFoundError, OffsetMovedError, OutOfResourcesError, TubeError
from pytubemq.model.limits import (
    ATTRIBUTE_ALLOWANCE_BYTES,
    MAX_ANSWER_BYTES,
    MAX_FETCH_BYTES,
    MAX_FETCH_MESSAGES,
    MAX_FETCH_WAIT_S,
    MAX_FRAME_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_RECORD_BATCH_BYTES,
    MAX_RECORD_BATCH_MESSAGES,
)
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.net.server.response_budget import ReadSize
from pytubemq.wire.protocol.extensions import Capability

if TYPE_CHECKING:
    from pytubemq.broker.append.waiters import PartitionKey
    from pytubemq.broker.state import BrokerState
    from pytubemq.net.server.call import Call
    from pytubemq.storage.log.partition_reads import Extent
    from pytubemq.storage.log.selection import Slice

logger = logging.getLogger(__name__)

MAX_READ_FAULTS = 1_000
"""Partitions that cannot be read and are named in the health; further ones are only logged."""
ANSWER_MARGIN_S = 0.2
"""The time before its caller's deadline at which a waiting fetch is answered, so that the response arrives in time."""
# For what is around the records in a frame.
_FRAME_SLACK_BYTES = 64 * 1024
_MOST_RECORD_BYTES = (
    MAX_RECORD_BATCH_BYTES + MAX_MESSAGE_BYTES + ATTRIBUTE_ALLOWANCE_BYTES + 12 * MAX_RECORD_BATCH_MESSAGES
)
"""The largest record batch, which ends with the message that reaches its bound, with its columns."""
_MOST_BYTES = min(MAX_ANSWER_BYTES, MAX_FRAME_BYTES - _MOST_RECORD_BYTES - _FRAME_SLACK_BYTES)
"""The largest limit of a read: with the largest record beyond it the response must still fit into a frame."""
_MOST_PLAIN_BYTES = MAX_ANSWER_BYTES - _FRAME_SLACK_BYTES
"""The same limit for a peer that accepts small blocks only, and perhaps (C++) no more than MAX_ANSWER_BYTES of them."""

Done = Callable[["Slice | Refusal"], None]


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits of one fetch."""

    max_bytes: int
    max_messages: int
    wait_until_s: float
    most_bytes: int
    """The largest response, with the message that reaches `max_bytes`; a single message may be larger."""
    takes_batches: bool
    """True if the peer supports record batches."""

    def within(self, max_bytes: int) -> ReadLimits:
        """Return these limits with no more bytes than this."""
        return self if max_bytes >= self.max_bytes else replace(self, max_bytes=max_bytes)

    @classmethod
    def of(
        cls, call: Call, *, now_s: float, max_bytes: int | None, max_messages: int | None, max_wait_ms: int | None
    ) -> ReadLimits:
        """Return the request's limits within ours; a missing or non-positive one gets our default."""
        # The original's clients request no wait, and get their response at once.
        wait_s = min((max_wait_ms or 0) / 1000, MAX_FETCH_WAIT_S)
        return cls(
            max_bytes=min(max_bytes, _MOST_BYTES) if max_bytes and max_bytes > 0 else MAX_FETCH_BYTES,
            max_messages=min(max_messages, MAX_FETCH_MESSAGES)
            if max_messages and max_messages > 0
            else MAX_FETCH_MESSAGES,
            wait_until_s=min(now_s + wait_s, call.deadline_s - ANSWER_MARGIN_S),
            most_bytes=_MOST_PLAIN_BYTES if call.connection.block_bytes is not None else MAX_FRAME_BYTES,
            takes_batches=Capability.PACKS in call.connection.capabilities,
        )


def expected_size(extent: Extent, offset: int, max_bytes: int) -> ReadSize:
    """Estimate the size of a read from `offset` by the average size of the messages in a partition of this extent."""
    min_offset, max_offset, min_position, max_position = extent
    # By averages of the partition: it decides how much is reserved, not how much is read.
    kept = max_offset - min_offset
    left = min(max_offset - offset, kept)
    if left <= 0:
        return ReadSize(0)
    kept_bytes = max_position - min_position
    return ReadSize(min(kept_bytes * left // kept, max_bytes), kept_bytes * OFFSET_UNIT // kept)


def read(
    state: BrokerState,
    topic: str,
    partition_id: int,
    offset: int,
    limits: ReadLimits,
    done: Done,
    *,
    end_offset: int | None = None,
    codes: frozenset[int] | None = None,
    check: bool = False,
) -> None:
    """Read from a partition and call `done` with the slice, or with a refusal; `check` as in the store's `read`."""
    store = state.store

    def run(max_messages: int = limits.max_messages, *, take_apart: bool = True, doubted: bool = False) -> Slice:
        found = store.read(
            topic,
            partition_id,
            offset,
            end_offset=end_offset,
            max_bytes=limits.max_bytes,
            max_messages=max_messages,
            codes=codes,
            check=check,
        )
        if found.has_batches and not limits.takes_batches:
            # Taking batches apart is work for a thread; the loop hands on what it finds.
            if not take_apart:
                return found
            try:
                found = unpack_batches(
                    found, max_bytes=limits.max_bytes, max_messages=max_messages, codes=codes, end_offset=end_offset
                )
            except FormatError:
                if doubted:
                    raise
                # The batch was not checked until here. The store knows how many messages there were, so it can.
                store.doubt(topic, partition_id, found.next_offset - OFFSET_UNIT)
                return run(max_messages, doubted=True)
        # A peer takes no frame beyond its bound: it would break the connection, and then fetch the same again.
        if found.payload_bytes > limits.most_bytes and found.count > 1 and not found.has_batches:
            return run(found.count - 1)  # the last one exceeds the limit: it comes with the next response
        return found

    key = (topic, partition_id)
    # Nothing to wait for, so that handing it to a thread would only cost time.
    if store.in_memory(topic, partition_id, offset):
        try:
            result: Slice | Refusal = run(take_apart=False)
        except Exception as error:
            result = _refusal(state, key, error)
        if isinstance(result, Refusal) or not result.has_batches or limits.takes_batches:
            done(result)
            return
    # A disk that is slow must not gather reads without bound; clients try again.
    if state.pending_reads >= state.max_pending_reads:
        done(Refusal(Code.SERVICE_UNAVAILABLE, f"{state.pending_reads} fetches already wait for this Broker's disk"))
        return
    state.pending_reads += 1

    def finish(future: asyncio.Future[Slice]) -> None:
        # On the event loop, which alone changes the state.
        state.pending_reads -= 1
        error = future.exception()
        if error is None:
            # A read that succeeds ends what health reports of the partition.
            state.read_faults.pop(key, None)
        done(future.result() if error is None else _refusal(state, key, error))

    asyncio.get_running_loop().run_in_executor(state.readers, run).add_done_callback(finish)


def _refusal(state: BrokerState, key: PartitionKey, error: BaseException) -> Refusal:
    if isinstance(error, OffsetMovedError):
        return Refusal(Code.MOVED, error.message)
    if isinstance(error, NotFoundError):  # the topic was removed while its files were read
        return Refusal(Code.FORBIDDEN, error.message)
    if isinstance(error, OutOfResourcesError):
        return Refusal(Code.SERVICE_UNAVAILABLE, f"this Broker cannot read its disk now: {error.message}")
    what = error.message if isinstance(error, TubeError) else f"{type(error).__name__}: {error}"
    text = f"partition {key[1]} of {key[0]} cannot be read: {what}"
    faults = state.read_faults
    # Log once for each partition; `health` counts those that are not listed.
    hint = error.hint if isinstance(error, TubeError) else None
    fault = text if hint is None else f"{text}; {hint}"
    if faults.get(key) != fault and (len(faults) < MAX_READ_FAULTS or key in faults):
        logger.error("%s", fault, exc_info=None if isinstance(error, TubeError) else error)
        faults[key] = fault
    return Refusal(Code.INTERNAL_SERVER_ERROR, text)
