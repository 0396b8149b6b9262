"""SendMessage and SendBatch: from the request's bytes to the append path, and back to an answer.

The invariant: a message is answered as accepted only by `written`, that is once it is durable and readable; each entry
of a batch is accepted or refused by itself.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from pytubemq.broker import checks
from pytubemq.broker.checks import Gate, Refused
from pytubemq.broker.send_order import SendOrder
from pytubemq.broker.submission import ENTRY_OVERHEAD_BYTES, Confirmation, Entry, Refusal
from pytubemq.broker.topics import HISTORY_TOPIC, ServedTopic, TopicTable
from pytubemq.errors import Code
from pytubemq.model.filters import NO_FILTER_CODE, filter_code
from pytubemq.model.limits import MAX_BATCH_ENTRIES
from pytubemq.wire import hot
from pytubemq.wire.checksum import check_sum
from pytubemq.wire.codec import decode
from pytubemq.wire.messages.broker import SendMessageRequestP2B
from pytubemq.wire.messages.extension import SendBatchRequestP2B
from pytubemq.wire.payload import HAS_ATTRIBUTES, attributes_fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.broker.append import AppendPath
    from pytubemq.broker.visits import Visits
    from pytubemq.broker.waiters import PartitionKey
    from pytubemq.net.call import Call
    from pytubemq.net.clock import Clock
    from pytubemq.storage.staging import Appended

NO_CHECK_SUM: Final = -1
"""All producers send it: "do not compare"."""


@lru_cache(maxsize=4096)
def key_code(msg_type: str | None) -> int:
    """The filter code of a message's type; few types are in use at a time."""
    return NO_FILTER_CODE if msg_type is None or not msg_type.strip() else filter_code(msg_type)


class _Pending:
    """A send that waits for the journal."""

    __slots__ = ("call", "entries", "partitions", "producer", "size_bytes", "topic")

    confirmation: Confirmation | None = None

    def __init__(
        self,
        call: Call,
        topic: str,
        entries: Sequence[Entry],
        partitions: frozenset[PartitionKey],
        producer: tuple[int | None, int | None],
        payload_bytes: int,
    ) -> None:
        self.call = call
        self.topic = topic
        self.entries = entries
        self.partitions = partitions
        self.producer = producer
        self.size_bytes = payload_bytes + ENTRY_OVERHEAD_BYTES * len(entries)

    @property
    def deadline_s(self) -> float:
        return self.call.deadline_s

    def expired(self) -> None:
        self.call.drop()


class _PendingOne(_Pending):
    """A SendMessage."""

    __slots__ = ()

    order: SendOrder | None = None

    def written(self, appended: Sequence[Appended]) -> None:
        message_id, offset, append_time_ms = appended[0]
        self.call.reply(
            hot.send_answer(
                success=True,
                err_code=Code.SUCCESS,
                err_msg=str(message_id),  # where old clients look for it
                require_auth=False,
                message_id=message_id,
                append_time=append_time_ms,
                append_offset=offset,
            )
        )

    def refused(self, refusal: Refusal) -> None:
        self.call.reply(hot.send_answer(success=False, err_code=refusal.code, err_msg=refusal.text))


class _PendingBatch(_Pending):
    """A SendBatch; `faults` are the entries that did not pass the checks, by their position in the request."""

    __slots__ = ("faults", "order")

    faults: dict[int, Refusal]
    order: SendOrder | None

    def written(self, appended: Sequence[Appended]) -> None:
        self.call.reply(batch_answer(appended, self.faults))

    def refused(self, refusal: Refusal) -> None:
        _refuse_batch(self.call, refusal, self.order)

    def expired(self) -> None:
        if self.order is not None:
            self.order.dropped()
        self.call.drop()


def _refuse_batch(call: Call, refusal: Refusal, order: SendOrder | None) -> None:
    if order is not None:
        order.refused(refusal.code)
    call.reply(hot.send_batch_answer(success=False, err_code=refusal.code, err_msg=refusal.text))


def batch_answer(appended: Sequence[Appended], faults: dict[int, Refusal]) -> bytes:
    """The answer to a batch of which some entries may have been refused."""
    append_time_ms = appended[0].append_time_ms if appended else None
    if not faults:
        ids, offsets, _ = zip(*appended, strict=True)
        return hot.send_batch_answer(
            success=True,
            err_code=Code.SUCCESS,
            err_msg="OK!",
            err_codes=(Code.SUCCESS,) * len(ids),
            message_ids=ids,
            offsets=offsets,
            append_time=append_time_ms,
        )
    accepted = iter(appended)
    results: list[tuple[int, int, int]] = []
    for position in range(len(appended) + len(faults)):
        fault = faults.get(position)
        if fault is None:
            message_id, offset, _ = next(accepted)
            results.append((Code.SUCCESS, message_id, offset))
        else:
            results.append((fault.code, -1, -1))
    codes, ids, offsets = zip(*results, strict=True)
    first = faults[min(faults)]
    return hot.send_batch_answer(
        success=False,
        err_code=first.code,
        err_msg=first.text,
        err_codes=codes,
        message_ids=ids,
        offsets=offsets,
        append_time=append_time_ms,
    )


class SendHandlers:
    """Methods 13 and 100."""

    def __init__(self, *, gate: Gate, visits: Visits, topics: TopicTable, path: AppendPath, clock: Clock) -> None:
        self._gate = gate
        self._visits = visits
        self._clock = clock
        self._topics = topics
        self._path = path

    def send(self, call: Call) -> None:
        """SendMessage: one message, answered when it is durable."""
        request = hot.decode_send(call.request.body)
        payload = request.payload
        try:
            served = self._served(call, SendMessageRequestP2B, request.client_id, request.topic)
            checks.partition(served, request.partition_id)
            fault = _fault(served, payload, request.flag)
            if fault is not None:
                raise Refused(*fault)
            if request.check_sum != NO_CHECK_SUM and request.check_sum != check_sum(payload):
                raise Refused(
                    Code.FORBIDDEN,
                    f"the message's checksum {request.check_sum} is not that of its {len(payload)} bytes; "
                    "it was damaged on the way",
                )
        except Refused as refused:
            code, text = refused.refusal
            call.reply(hot.send_answer(success=False, err_code=code, err_msg=text))
            return
        topic = served.config.name
        entry = Entry(request.partition_id, payload, request.flag, key_code(request.msg_type), request.sequence)
        self._path.submit(
            _PendingOne(
                call,
                topic,
                (entry,),
                frozenset(((topic, request.partition_id),)),
                (request.producer_id, request.producer_epoch),
                len(payload),
            )
        )

    def send_batch(self, call: Call) -> None:
        """SendBatch: many messages of one topic; one answer with a code, id and offset for each."""
        batch = hot.decode_send_batch(call.request.body)
        items, seen = batch.items, batch.refusals_seen
        order = None if seen is None else SendOrder(call.connection, batch.client_id, batch.topic, seen)
        try:
            served = self._served(call, SendBatchRequestP2B, batch.client_id, batch.topic)
            if not items:
                raise Refused(Code.BAD_REQUEST, "the batch has no message")
            if len(items) > MAX_BATCH_ENTRIES:
                raise Refused(Code.BAD_REQUEST, f"the batch has {len(items)} messages, {MAX_BATCH_ENTRIES} are allowed")
            if order is not None and (broken := order.broken()) is not None:
                raise Refused(*broken)
        except Refused as refused:
            _refuse_batch(call, refused.refusal, order)
            return
        entries: list[Entry] = []
        faults: dict[int, Refusal] = {}
        payload_bytes = 0
        ids, most = served.partition_ids, served.max_payload_bytes
        new = tuple.__new__  # half the time of calling the class, and this is done for every message
        for item in items:
            partition_id, payload, flag, msg_type, _, sequence = item
            size = len(payload)
            if partition_id in ids and 0 < size <= most and (not flag & HAS_ATTRIBUTES or attributes_fit(payload)):
                payload_bytes += size
                entries.append(new(Entry, (partition_id, payload, flag, key_code(msg_type), sequence)))
            else:
                faults[len(entries) + len(faults)] = _entry_fault(served, partition_id, payload, flag)
        if not entries:
            call.reply(batch_answer((), faults))
            return
        topic = served.config.name
        pending = _PendingBatch(
            call,
            topic,
            entries,
            frozenset((topic, partition_id) for partition_id in {entry.partition_id for entry in entries}),
            (batch.producer_id, batch.producer_epoch),
            payload_bytes,
        )
        pending.faults, pending.order = faults, order
        self._path.submit(pending)

    def _served(
        self,
        call: Call,
        kind: type[SendMessageRequestP2B | SendBatchRequestP2B],
        client_id: str,
        topic_name: str,
    ) -> ServedTopic:
        """The checks that do not depend on the message, in the original's order."""
        self._gate.check_write()
        if self._visits.asks_producers:  # only then is the request read once more, for what the fast way leaves out
            self._visits.check_producer(decode(kind, call.request.body).auth_info, now_s=self._clock.now_s())
        checks.client(client_id)
        if topic_name.strip() == HISTORY_TOPIC:
            raise Refused(Code.FORBIDDEN, f"topic {HISTORY_TOPIC} takes no messages from producers")
        served = checks.topic(topic_name, self._topics)
        checks.open_for_writing(served)
        return served


def _fault(served: ServedTopic, payload: bytes, flag: int) -> Refusal | None:
    if not payload:
        return Refusal(Code.BAD_REQUEST, "the message is empty")
    if len(payload) > served.max_payload_bytes:
        return Refusal(
            Code.BAD_REQUEST,
            f"the message has {len(payload)} bytes, topic {served.config.name} takes {served.max_payload_bytes}",
        )
    if flag & HAS_ATTRIBUTES and not attributes_fit(payload):
        # no consumer could read it (the original takes it, and its consumers drop it silently)
        return Refusal(
            Code.BAD_REQUEST,
            f"the message's flag {flag} claims attributes that do not fit into its {len(payload)} bytes",
        )
    return None


def _entry_fault(served: ServedTopic, partition_id: int, payload: bytes, flag: int) -> Refusal:
    try:
        checks.partition(served, partition_id)
    except Refused as refused:
        return refused.refusal
    fault = _fault(served, payload, flag)
    assert fault is not None  # the caller found that one of the checks fails
    return fault
