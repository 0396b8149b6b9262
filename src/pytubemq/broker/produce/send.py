"""SendMessage: from the request's bytes to the append path, and back to a response.

The invariant: a message is acknowledged only by `complete`, that is once it is as durable as its topic promises
and readable. Consecutive sends are staged and answered together, which keeps the work for each small.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from pytubemq.broker import tracing
from pytubemq.broker.append.submission import ENTRY_OVERHEAD_BYTES
from pytubemq.broker.produce.send_checks import mark, partition_fault
from pytubemq.core.refusal import Refused
from pytubemq.errors import Code, CorruptError, NotFoundError
from pytubemq.model.filters import NO_FILTER_CODE, filter_code
from pytubemq.observe.trace_events import MESSAGE
from pytubemq.wire.batch.checksum import check_sum
from pytubemq.wire.batch.payload import HAS_ATTRIBUTES
from pytubemq.wire.fast import send_message
from pytubemq.wire.fast import sends as hot
from pytubemq.wire.protocol.messages.broker import SendMessageRequestP2B

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.broker.append.send_order import SendOrder
    from pytubemq.broker.append.submission import Result
    from pytubemq.broker.produce.send_checks import SendChecks
    from pytubemq.broker.state import BrokerState
    from pytubemq.core.refusal import Refusal
    from pytubemq.core.sequences import ProducerMark
    from pytubemq.net.server.call import Call
    from pytubemq.storage.journal.staging import Appended, Staging

NO_CHECK_SUM: Final = -1
"""The `checkSum` that all producers send for "do not compare"."""
_MOST_TOGETHER_BYTES: Final = 256 * 1024
"""Sends that are staged together; a write of the journal takes several such groups."""


@lru_cache(maxsize=4096)
def key_code(msg_type: str | None) -> int:
    """Return the filter code of a message's type; few types are in use at a time."""
    return NO_FILTER_CODE if msg_type is None or not msg_type.strip() else filter_code(msg_type)


_Item: TypeAlias = "tuple[str, int, bytes, int, int, int | None, ProducerMark | None]"
"""Topic, partition id, payload, flag, key code, checksum if that was just computed, mark of the producer."""


class _Sends:
    """Consecutive SendMessages, for topics that all promise from memory, or none of them."""

    __slots__ = ("_calls", "_first_deadline_s", "_items", "_state", "deadline_s", "from_memory", "size_bytes")

    order: SendOrder | None = None
    confirmations = 0

    def __init__(self, state: BrokerState, *, from_memory: bool) -> None:
        self.from_memory = from_memory
        self.size_bytes = 0
        self.deadline_s = 0.0
        """The latest of their deadlines; those that expired before are dropped when they are staged."""
        self._first_deadline_s = math.inf
        self._state = state
        self._calls: list[Call] = []
        self._items: list[_Item] = []

    def add(self, call: Call, item: _Item, size_bytes: int) -> None:
        """Add a message."""
        deadline_s = call.deadline_s
        # The path expires the group as a whole, so it may do that only when nobody of it waits any more.
        if deadline_s > self.deadline_s:
            self.deadline_s = deadline_s
        if deadline_s < self._first_deadline_s:
            self._first_deadline_s = deadline_s
        self.size_bytes += size_bytes
        self._calls.append(call)
        self._items.append(item)

    def stage(self, staging: Staging) -> int:
        now_s = self._state.clock.now_s()
        # A producer whose time ran out sends again. Stored as well, an unnumbered message would be there twice.
        if self._first_deadline_s <= now_s:
            self._drop_late(now_s)
        if MESSAGE.on:
            for call, item in zip(self._calls, self._items, strict=True):
                tracing.record_request(call, item[0], (item[1],))
        # The count before, since other submissions of the same block come first and have numbers as well.
        append, before = staging.append, staging.count
        faults: dict[int, Refusal] = {}
        for topic, partition_id, payload, flag, code, check, producer in self._items:
            try:
                append(topic, partition_id, payload, flag, code, check_sum=check, producer=producer)
            except (CorruptError, NotFoundError) as error:
                # A refused message gets no number in the staging, so its place among the calls is that count and the
                # faults before.
                faults[staging.count - before + len(faults)] = partition_fault(error)
        if faults:
            # Before `complete`, which pairs calls and results one to one.
            self._refuse_some(faults)
        return len(self._items)

    def complete(self, results: Sequence[Result]) -> None:
        counters, now_s = self._state.counters, self._state.clock.now_s()
        for call, result in zip(self._calls, cast("Sequence[Appended]", results), strict=True):
            message_id, offset, append_time_ms, code, _, text = result
            if code == Code.SUCCESS:
                # A duplicate has the same response with the offset of the stored message, so the producer cannot tell
                # the difference.
                call.reply(send_message.encode_send_response(message_id, offset, append_time_ms))
            else:
                counters.record_refused_send(code)
                call.reply(hot.encode_send_response(success=False, err_code=code, err_msg=text))
        if self._calls:  # they came together, so the time of one stands for all
            counters.put_s.add(now_s - self._calls[0].received_s, len(self._calls))

    def refuse(self, refusal: Refusal) -> None:
        # Encoded once: after a failure of the disk thousands of calls get the same bytes.
        body = hot.encode_send_response(success=False, err_code=refusal.code, err_msg=refusal.text)
        for call in self._calls:
            self._state.counters.record_refused_send(refusal.code)
            call.reply(body)

    def expire(self) -> None:
        self._state.path.stats.expired += len(self._calls) - 1  # the path counts one
        for call in self._calls:
            call.drop()

    def _refuse_some(self, faults: dict[int, Refusal]) -> None:
        for at, refusal in faults.items():
            _refuse(self._state, self._calls[at], refusal)
        self._calls = [call for at, call in enumerate(self._calls) if at not in faults]
        self._items = [item for at, item in enumerate(self._items) if at not in faults]

    def _drop_late(self, now_s: float) -> None:
        kept = [(call, item) for call, item in zip(self._calls, self._items, strict=True) if call.deadline_s > now_s]
        self._state.path.stats.expired += len(self._calls) - len(kept)
        for call in self._calls:
            if call.deadline_s <= now_s:
                call.drop()
        self._calls = [call for call, _ in kept]
        self._items = [item for _, item in kept]
        self._first_deadline_s = min((call.deadline_s for call in self._calls), default=math.inf)


class SendHandlers:
    """The handler of method 13."""

    def __init__(self, state: BrokerState, checks: SendChecks) -> None:
        self._state = state
        self._path = state.path
        self._checks = checks
        self._open: _Sends | None = None
        """The sends that the next one joins, if nothing else came between."""

    def send(self, call: Call) -> None:
        """Serve SendMessage: one message, acknowledged when it is as durable as its topic promises."""
        request = send_message.decode_send(call.request.body)
        client_id, topic_name, partition_id, payload, flag, check, _, msg_type, _, producer_id, epoch, sequence = (
            request
        )
        size = len(payload)
        try:
            served, from_memory = self._checks.source(call, SendMessageRequestP2B, client_id, topic_name)
            if (
                # The usual message passes these three without a call. What is unusual is checked at leisure, and may
                # well be sound.
                partition_id not in served.partition_ids
                or not 0 < size <= served.max_payload_bytes
                or flag & HAS_ATTRIBUTES
            ):
                self._checks.check_message(served, partition_id, payload, flag)
            # A client may leave the checksum out, and then nothing can be said of the way here.
            if check != NO_CHECK_SUM and check != check_sum(payload):
                raise Refused(
                    Code.FORBIDDEN,
                    f"the message's checksum {check} is not that of its {size} bytes; it was damaged on the way",
                )
            producer = None if sequence is None else mark(producer_id, epoch, sequence)
        except Refused as refused:
            _refuse(self._state, call, refused.refusal)
            return
        # It was computed above, and the log has the same one in the message's entry.
        known_check = None if check == NO_CHECK_SUM else check
        code = NO_FILTER_CODE if msg_type is None else key_code(msg_type)
        item = (served.config.name, partition_id, payload, flag, code, known_check, producer)
        size_bytes = size + ENTRY_OVERHEAD_BYTES
        sends = self._open
        if (
            sends is not None
            # Those that promise from memory are answered before the write. In one group with others, all would wait for
            # the disk.
            and sends.from_memory is from_memory
            # A group is written in one block, which has a limit of its own.
            and sends.size_bytes + size_bytes <= _MOST_TOGETHER_BYTES
            # Only while nothing was submitted behind it, which would otherwise be overtaken.
            and self._path.grow(sends, size_bytes)
        ):
            sends.add(call, item, size_bytes)
            return
        sends = self._open = _Sends(self._state, from_memory=from_memory)
        sends.add(call, item, size_bytes)
        self._path.submit(sends)


def _refuse(state: BrokerState, call: Call, refusal: Refusal) -> None:
    state.counters.record_refused_send(refusal.code)
    call.reply(hot.encode_send_response(success=False, err_code=refusal.code, err_msg=refusal.text))
