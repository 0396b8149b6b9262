"""SendBatch: many messages of one topic in one request; each is accepted or refused by itself.

The invariant: the answer tells of every entry at its position; it is given once all that was accepted is as durable as
the topic promises, and readable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from pytubemq.broker import tracing
from pytubemq.broker.append.submission import ENTRY_OVERHEAD_BYTES, PARTITION_OVERHEAD_BYTES
from pytubemq.broker.produce.bulk_send import BulkCall, BulkSend
from pytubemq.broker.produce.send import key_code
from pytubemq.broker.produce.send_checks import mark, message_fault, partition_fault
from pytubemq.broker.refusal import Refusal, Refused
from pytubemq.errors import Code, CorruptError, NotFoundError
from pytubemq.model.limits import MAX_BATCH_ENTRIES
from pytubemq.observe.story import MESSAGE
from pytubemq.wire.batch.payload import HAS_ATTRIBUTES, attributes_fit
from pytubemq.wire.fast import sends
from pytubemq.wire.protocol.messages.extension import SendBatchRequestP2B

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.broker.append.submission import Result
    from pytubemq.broker.produce.send_checks import SendChecks
    from pytubemq.broker.state import BrokerState
    from pytubemq.broker.topics import ServedTopic
    from pytubemq.core.sequences import ProducerMark
    from pytubemq.net.server.call import Call
    from pytubemq.storage.journal.staging import Appended, Staging

_Entry: TypeAlias = "tuple[int, bytes, int, int, ProducerMark | None]"
"""Partition id, payload, flag, key code, mark of the producer."""


class _Batch(BulkSend):
    """A SendBatch that waits for the journal; `faults` are the entries that did not pass the checks, by position."""

    __slots__ = ("_entries", "_faults", "_topic")

    def __init__(
        self, bulk: BulkCall, topic: str, entries: list[_Entry], faults: dict[int, Refusal], payload_bytes: int
    ) -> None:
        partitions = len({entry[0] for entry in entries})
        super().__init__(
            bulk, payload_bytes + ENTRY_OVERHEAD_BYTES * len(entries) + PARTITION_OVERHEAD_BYTES * partitions
        )
        self._topic = topic
        self._entries = entries
        self._faults = faults

    def stage(self, staging: Staging) -> int:
        append, topic, before = staging.append, self._topic, staging.count
        if MESSAGE.on:
            tracing.record_request(self._bulk.call, topic, (entry[0] for entry in self._entries))
        late: dict[int, Refusal] = {}
        for partition_id, payload, flag, code, producer in self._entries:
            try:
                append(topic, partition_id, payload, flag, code, producer=producer)
            except (CorruptError, NotFoundError) as error:
                late[staging.count - before + len(late)] = partition_fault(error)
        if late:
            self._fault_some(late)
        return len(self._entries)

    def _fault_some(self, late: dict[int, Refusal]) -> None:
        """What is wrong with entries, by their number among those that were staged."""
        positions = [at for at in range(len(self._entries) + len(self._faults)) if at not in self._faults]
        self._entries = [entry for at, entry in enumerate(self._entries) if at not in late]
        self._faults = {**self._faults, **{positions[at]: refusal for at, refusal in late.items()}}

    def complete(self, results: Sequence[Result]) -> None:
        state, call = self._bulk.state, self._bulk.call
        call.reply(batch_response(cast("Sequence[Appended]", results), self._faults))
        state.counters.put_s.add(state.clock.now_s() - call.received_s)
        if self._faults:
            state.counters.send_refused(self._faults[min(self._faults)].code)


class BatchHandlers:
    """Method 100."""

    def __init__(self, state: BrokerState, checks: SendChecks) -> None:
        self._state = state
        self._checks = checks

    def send_batch(self, call: Call) -> None:
        """SendBatch: many messages of one topic; one answer with a code, id and offset for each."""
        batch = sends.decode_send_batch(call.request.body)
        bulk = BulkCall(self._state, call, batch, sends.encode_send_batch_response)
        try:
            served = self._checks.bulk_source(bulk, SendBatchRequestP2B, len(batch.items), MAX_BATCH_ENTRIES, "message")
            entries, faults, payload_bytes = self._checked(served, batch)
        except Refused as refused:
            bulk.refuse(refused.refusal)
            return
        if not entries:
            self._state.counters.send_refused(faults[0].code)
            call.reply(batch_response((), faults))
            return
        self._state.path.submit(_Batch(bulk, served.config.name, entries, faults, payload_bytes))

    def _checked(self, served: ServedTopic, batch: sends.SendBatch) -> tuple[list[_Entry], dict[int, Refusal], int]:
        """The entries that can be taken, what is wrong with the others by their position, and bytes of payload.

        Raises:
            Refused: a producer's numbers are none.
        """
        entries: list[_Entry] = []
        faults: dict[int, Refusal] = {}
        payload_bytes = 0
        ids, most = served.partition_ids, served.max_payload_bytes
        producer_id, epoch = batch.producer_id, batch.producer_epoch
        for partition_id, payload, flag, msg_type, _, sequence in batch.items:
            size = len(payload)
            if partition_id in ids and 0 < size <= most and (not flag & HAS_ATTRIBUTES or attributes_fit(payload)):
                payload_bytes += size
                producer = None if sequence is None else mark(producer_id, epoch, sequence)
                entries.append((partition_id, payload, flag, key_code(msg_type), producer))
            else:
                faults[len(entries) + len(faults)] = self._fault(served, partition_id, payload, flag)
        return entries, faults, payload_bytes

    def _fault(self, served: ServedTopic, partition_id: int, payload: bytes, flag: int) -> Refusal:
        fault = self._checks.partition_refusal(served, partition_id) or message_fault(served, payload, flag)
        assert fault is not None  # the caller found that one of the checks fails
        return fault


def batch_response(appended: Sequence[Appended], faults: dict[int, Refusal]) -> bytes:
    """The answer to a batch of which some entries may have been refused, before they were staged (`faults`, by their
    position in the request) or then (by their code)."""
    if not faults:
        ids, offsets, times, codes, _, texts = zip(*appended, strict=True)
    else:
        accepted = iter(appended)
        results = [
            (-1, -1, 0, fault.code, False, fault.text)
            if (fault := faults.get(position)) is not None
            else next(accepted)
            for position in range(len(appended) + len(faults))
        ]
        ids, offsets, times, codes, _, texts = zip(*results, strict=True)
    first = next((at for at, code in enumerate(codes) if code != Code.SUCCESS), None)
    return sends.encode_send_batch_response(
        success=first is None,
        err_code=Code.SUCCESS if first is None else codes[first],
        err_msg="OK!" if first is None else texts[first],
        err_codes=codes,
        message_ids=ids,
        offsets=offsets,
        append_time=max(times) or None,
    )
