"""SEND_PACKS: record batches of one topic; each message of each batch is accepted or refused individually.

The invariant: a batch is checked once and stored as its producer built it; only one with a message that cannot be
accepted is cut, into parts that can, and not more often than a request may have such messages: so neither the work nor
the response grows with a producer's errors. The response's spans cover every message of every batch, in order.
"""

from __future__ import annotations

from itertools import chain, islice, repeat
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from pytubemq.broker import tracing
from pytubemq.broker.append.submission import RECORD_BATCH_OVERHEAD_BYTES
from pytubemq.broker.produce.bulk_send import BulkCall, BulkSend
from pytubemq.broker.produce.send_checks import attributes_fault, mark, partition_fault, size_fault
from pytubemq.core.refusal import Refusal, Refused
from pytubemq.core.sequences import NOWHERE, ProducerMark
from pytubemq.errors import Code, CorruptError, FormatError, NotFoundError
from pytubemq.model.limits import MAX_RECORD_BATCH_BYTES, MAX_RECORD_BATCH_FAULTS, MAX_RECORD_BATCHES
from pytubemq.observe.trace_events import MESSAGE
from pytubemq.wire.batch.payload import HAS_ATTRIBUTES
from pytubemq.wire.batch.record_batch import Columns, read_columns
from pytubemq.wire.batch.send_batches import SendPacks, decode_send_packs, encode_send_packs_response
from pytubemq.wire.protocol.messages.extension import SendPacksRequestP2B

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.broker.append.submission import Result
    from pytubemq.broker.produce.send_checks import SendChecks
    from pytubemq.broker.state import BrokerState
    from pytubemq.broker.topics import ServedTopic
    from pytubemq.net.server.call import Call
    from pytubemq.storage.journal.staging import AppendedRun, Staging

_read_size: Final = Struct(">i").unpack_from

_Span = tuple[int, int, int, int, bool, str]
"""Count, code, first offset, first message id, whether repeated, text."""


class _BatchPart(NamedTuple):
    """Consecutive messages of a batch with the same outcome so far: the columns to store, or a `refusal`."""

    messages: int
    refusal: Refusal | None
    columns: Columns | None
    producer: ProducerMark | None


class _CheckedBatch(NamedTuple):
    """A record batch with the results of its checks."""

    partition_id: int
    parts: list[_BatchPart]


class _BatchSubmission(BulkSend):
    """A SEND_PACKS request that waits for the journal."""

    __slots__ = ("_batches", "_topic")

    def __init__(self, bulk: BulkCall, topic: str, batches: list[_CheckedBatch], size_bytes: int) -> None:
        super().__init__(bulk, size_bytes)
        self._topic = topic
        self._batches = batches

    def stage(self, staging: Staging) -> int:
        staged = 0
        if MESSAGE.on:
            sizes = ((partition_id, part.messages) for partition_id, some in self._batches for part in some)
            tracing.record_request(self._bulk.call, self._topic, chain.from_iterable(repeat(*size) for size in sizes))
        for partition_id, parts in self._batches:
            for at, (messages, _, columns, producer) in enumerate(parts):
                # Refused before staging: it has no number in the staging, and `_answer` takes none for it.
                if columns is None:
                    continue
                try:
                    staging.append_batch(self._topic, partition_id, columns, producer=producer)
                    staged += 1
                # The topic may have been removed, or a file found damaged, since the request was checked. Only this
                # part of it is refused: other partitions of the same request are not concerned.
                except (CorruptError, NotFoundError) as error:
                    # In place, since `stage` may be called again with another staging, and the refusal holds then as
                    # well.
                    parts[at] = _BatchPart(messages, partition_fault(error), None, None)
        return staged

    def complete(self, results: Sequence[Result]) -> None:
        state, call = self._bulk.state, self._bulk.call
        call.reply(_encode_response(state, self._batches, cast("Sequence[AppendedRun]", results)))
        state.counters.put_s.add(state.clock.now_s() - call.received_s)


class BatchSendHandlers:
    """The handler of method 103."""

    def __init__(self, state: BrokerState, checks: SendChecks) -> None:
        self._state = state
        self._checks = checks

    def send_packs(self, call: Call) -> None:
        """Serve SendPacks: record batches of one topic; one response with spans for each."""
        request = decode_send_packs(call.request.body)
        bulk = BulkCall(self._state, call, request, encode_send_packs_response)
        try:
            served = self._checks.bulk_source(bulk, SendPacksRequestP2B, len(request.packs), MAX_RECORD_BATCHES)
            batches, size_bytes = self._check_batches(served, request)
        except Refused as refused:
            bulk.refuse(refused.refusal)
            return
        # Nothing of it can be stored, so it need not wait for the journal.
        if not size_bytes:
            call.reply(_encode_response(self._state, batches, ()))
            return
        self._state.path.submit(_BatchSubmission(bulk, served.config.name, batches, size_bytes))

    def _check_batches(self, served: ServedTopic, request: SendPacks) -> tuple[list[_CheckedBatch], int]:
        """Return the batches with the faults in them, and the size of those that can be stored.

        Raises:
            Refused: a batch is malformed or damaged, so that its messages are unknown, or a producer's numbers are
                invalid.
        """
        batches: list[_CheckedBatch] = []
        size_bytes = 0
        faults_left = MAX_RECORD_BATCH_FAULTS
        for number, (partition_id, data, sequence) in enumerate(request.packs):
            try:
                # The check covers all messages together. One that fails says nothing about which of them is damaged, so
                # the producer has to send the whole request again.
                columns = read_columns(data)
            except FormatError as error:
                raise Refused(Code.BAD_REQUEST, f"record batch {number} of the request: {error.message}") from error
            # Without the last message, which may be of any size that the topic takes: a record batch is closed by the
            # message that reaches the bound, not before it.
            if columns.payload_bytes - columns.lengths[-1] > MAX_RECORD_BATCH_BYTES:
                raise Refused(
                    Code.BAD_REQUEST,
                    f"record batch {number} of the request has {columns.payload_bytes} bytes of messages; "
                    f"a record batch ends with the message that reaches {MAX_RECORD_BATCH_BYTES}",
                )
            # Also of a batch that is refused below: numbers that no producer uses mean that the request itself is
            # wrong.
            producer = mark(request.producer_id, request.producer_epoch, sequence, columns.count)
            refusal = None
            # The set is asked first, as nearly every batch is for a partition that is here.
            if partition_id not in served.partition_ids:
                refusal = self._checks.partition_refusal(served, partition_id)
            if refusal is not None:
                batches.append(_CheckedBatch(partition_id, [_BatchPart(columns.count, refusal, None, None)]))
                continue
            faults = _faults(served, columns, faults_left)
            # Each fault cuts a batch once more. With one bound for all batches of the request, neither the work nor the
            # response grows with the number of messages that are wrong.
            if len(faults) > faults_left:
                parts = [_BatchPart(columns.count, _too_many(faults), None, None)]
            else:
                faults_left -= len(faults)
                parts = _split(columns, faults, producer)
            batches.append(_CheckedBatch(partition_id, parts))
            for part in parts:
                if part.columns is not None:
                    # Only what is stored counts against the bound on staged bytes.
                    size_bytes += len(part.columns.data) + RECORD_BATCH_OVERHEAD_BYTES
        return batches, size_bytes


def _split(columns: Columns, faults: dict[int, Refusal], producer: ProducerMark | None) -> list[_BatchPart]:
    """Return the whole batch, or, if some of its messages cannot be accepted, the parts between them."""
    if not faults:
        return [_BatchPart(columns.count, None, columns, producer)]
    found: list[_BatchPart] = []
    start = 0
    for at, fault in faults.items():
        if start < at:
            found.append(_part(columns, start, at, producer))
        # Neighbours with the same fault share a span, which keeps the response small.
        if found and found[-1].refusal == fault:
            found[-1] = found[-1]._replace(messages=found[-1].messages + 1)
        else:
            found.append(_BatchPart(1, fault, None, None))
        start = at + 1
    if start < columns.count:
        found.append(_part(columns, start, columns.count, producer))
    return found


def _part(columns: Columns, start: int, stop: int, producer: ProducerMark | None) -> _BatchPart:
    # The whole batch has passed its check, and the part has a new one, so it need not be verified.
    part = read_columns(columns.part(start, stop), check=False)
    if producer is not None:
        # The sequences count all messages of the batch, refused ones too, so a duplicate is recognised whatever
        # was cut out.
        producer = producer._replace(sequence=producer.sequence + start)
    return _BatchPart(stop - start, None, part, producer)


def _faults(served: ServedTopic, columns: Columns, most: int) -> dict[int, Refusal]:
    """Return the faults of a batch's messages by their number, rising; if there are more than `most`, only some."""
    lengths, limit = columns.lengths, served.max_payload_bytes
    faults: dict[int, Refusal] = {}
    # Where all of them together are not too large, none is: nearly always, and finding the largest takes longer.
    if 0 in lengths or (columns.payload_bytes > limit and max(lengths) > limit):
        wrong = (at for at, size in enumerate(lengths) if not 0 < size <= limit)
        for at in islice(wrong, most + 1):
            fault = size_fault(served, lengths[at])
            if fault is not None:
                faults[at] = fault
    # One flag for all, and no attributes in any: nothing more can be wrong.
    if columns.flags is None and not columns.flag & HAS_ATTRIBUTES:
        return faults
    data, flag_of = columns.data, columns.flag_of
    for number, (at, size) in enumerate(zip(columns.bounds(), lengths, strict=False)):
        # Not `attributes_fit`, which would take a slice of each payload: this runs for every message of a batch with
        # attributes.
        if size < 4 or _read_size(data, at)[0] > size - 4:
            flag = flag_of(number)
            if flag & HAS_ATTRIBUTES and number not in faults:
                faults[number] = attributes_fault(flag, size)
                if len(faults) > most:
                    break
    # Sizes and attributes are looked at in two passes, and `_split` cuts from front to back.
    return dict(sorted(faults.items()))


def _too_many(faults: dict[int, Refusal]) -> Refusal:
    """Return the refusal of all messages of a batch with one more fault than its request may have."""
    return Refusal(
        Code.BAD_REQUEST,
        f"more than {MAX_RECORD_BATCH_FAULTS} messages of the request are refused, so this record batch is refused as "
        f"a whole: {next(iter(faults.values())).text}",
    )


def _encode_response(state: BrokerState, batches: list[_CheckedBatch], results: Sequence[AppendedRun]) -> bytes:
    """Return the response for batches of which some messages may have been refused, before or during staging."""
    outcomes = iter(results)
    spans: list[list[_Span]] = []
    first: tuple[int, str] | None = None
    for batch in batches:
        mine: list[_Span] = []
        for part in batch.parts:
            if part.refusal is not None:
                mine.append((part.messages, part.refusal.code, NOWHERE, NOWHERE, False, part.refusal.text))
            else:
                # In the order of staging, which has left out the refused parts.
                mine += next(outcomes).spans
        for _, code, _, _, _, text in mine:
            # A producer that looks only at the response's own code still learns that something was refused.
            if code != Code.SUCCESS and first is None:
                first = code, text
        spans.append(mine)
    if first is not None:
        state.counters.record_refused_send(first[0])
    err_code, err_msg = first or (Code.SUCCESS.value, "OK!")
    # The response has room for one time, and partitions may differ: where a clock was ahead once, times wait for it.
    time_ms = max((result.append_time_ms for result in results), default=None)
    return encode_send_packs_response(
        success=first is None, err_code=err_code, err_msg=err_msg, results=spans, append_time=time_ms
    )
