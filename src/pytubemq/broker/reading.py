"""Reads for fetches: at once from memory, on a few threads from the disk.

The invariants: the event loop never waits for the disk; reads that wait for a thread are bounded; each read ends in
exactly one call of `done`, on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.broker.submission import Refusal
from pytubemq.errors import Code, NotFoundError, OffsetMovedError, OutOfResourcesError, TubeError
from pytubemq.model.limits import (
    ATTRIBUTE_ALLOWANCE_BYTES,
    MAX_ANSWER_BYTES,
    MAX_FETCH_BYTES,
    MAX_FETCH_MESSAGES,
    MAX_FETCH_WAIT_S,
    MAX_FRAME_BYTES,
    MAX_MESSAGE_BYTES,
)

if TYPE_CHECKING:
    from pytubemq.broker.state import BrokerState
    from pytubemq.net.call import Call
    from pytubemq.storage.selection import Slice

ANSWER_MARGIN_S = 0.2
"""A held fetch is answered so long before its caller gives up, so that the answer arrives in time."""
_FRAME_SLACK_BYTES = 64 * 1024
_MOST_BYTES = min(
    MAX_ANSWER_BYTES, MAX_FRAME_BYTES - MAX_MESSAGE_BYTES - ATTRIBUTE_ALLOWANCE_BYTES - _FRAME_SLACK_BYTES
)
"""A read ends with the message that reaches its limit; with the largest message the answer must still be a frame."""
_MOST_PLAIN_BYTES = MAX_ANSWER_BYTES - _FRAME_SLACK_BYTES
"""The same for a peer that takes small blocks only, and perhaps (C++) no more than MAX_ANSWER_BYTES of them."""

Done = Callable[["Slice | Refusal"], None]


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What one fetch may take."""

    max_bytes: int
    max_messages: int
    wait_until_s: float
    most_bytes: int
    """What an answer may come to with the message that reaches `max_bytes`; a single message may be larger."""

    @classmethod
    def of(
        cls, call: Call, *, now_s: float, max_bytes: int | None, max_messages: int | None, max_wait_ms: int | None
    ) -> ReadLimits:
        """The request's limits within ours; what is absent or not positive is our default."""
        wait_s = min((max_wait_ms or 0) / 1000, MAX_FETCH_WAIT_S)
        return cls(
            max_bytes=min(max_bytes, _MOST_BYTES) if max_bytes and max_bytes > 0 else MAX_FETCH_BYTES,
            max_messages=min(max_messages, MAX_FETCH_MESSAGES)
            if max_messages and max_messages > 0
            else MAX_FETCH_MESSAGES,
            wait_until_s=min(now_s + wait_s, call.deadline_s - ANSWER_MARGIN_S),
            most_bytes=_MOST_PLAIN_BYTES if call.connection.block_bytes is not None else MAX_FRAME_BYTES,
        )


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
) -> None:
    """Read from a partition; `done` gets the slice or why there is none."""
    store = state.store

    def run(max_messages: int = limits.max_messages) -> Slice:
        found = store.read(
            topic,
            partition_id,
            offset,
            end_offset=end_offset,
            max_bytes=limits.max_bytes,
            max_messages=max_messages,
            codes=codes,
        )
        if found.payload_bytes > limits.most_bytes and found.count > 1:
            return run(found.count - 1)  # the last one made it too much: it comes with the next answer
        return found

    if store.in_memory(topic, partition_id, offset):
        try:
            result: Slice | Refusal = run()
        except Exception as error:
            result = _refusal(state, error)
        done(result)
        return
    if state.pending_reads >= state.max_pending_reads:
        done(Refusal(Code.SERVICE_UNAVAILABLE, f"{state.pending_reads} fetches already wait for this Broker's disk"))
        return
    state.pending_reads += 1

    def ended(future: asyncio.Future[Slice]) -> None:
        state.pending_reads -= 1
        error = future.exception()
        done(future.result() if error is None else _refusal(state, error))

    asyncio.get_running_loop().run_in_executor(state.readers, run).add_done_callback(ended)


def _refusal(state: BrokerState, error: BaseException) -> Refusal:
    if isinstance(error, OffsetMovedError):
        return Refusal(Code.MOVED, error.message)
    if isinstance(error, NotFoundError):  # the topic was removed while its files were read
        return Refusal(Code.FORBIDDEN, error.message)
    if isinstance(error, OutOfResourcesError):
        return Refusal(Code.SERVICE_UNAVAILABLE, f"this Broker cannot read its disk now: {error.message}")
    state.on_fault(error)
    what = error.message if isinstance(error, TubeError) else type(error).__name__
    return Refusal(Code.INTERNAL_SERVER_ERROR, f"this Broker could not read its disk: {what}")
