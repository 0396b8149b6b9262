"""Fetch responses with record batches beside single messages, and record batches expanded for consumers that know none.

The invariant: the records of a response come out in the order in which the Broker wrote them, which is that of their
offsets; a record batch's columns are views of the response's bytes, given only if head and columns pass their checks. A
record batch that fails them is reported as damaged and does not spoil the rest of the response.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar
from zlib import crc32

from pytubemq.errors import FormatError
from pytubemq.model.limits import MAX_FETCH_MESSAGES
from pytubemq.model.offset import OFFSET_UNIT, to_ordinal
from pytubemq.wire.batch import stored
from pytubemq.wire.batch.record_batch import (
    DAMAGED,
    HEAD_BYTES,
    Columns,
    RecordBatchHead,
    checks,
    claimed_count,
    read_record_batch,
    read_record_batch_head,
    read_stored_batch,
)
from pytubemq.wire.protobuf.fields import MAX_USUAL_FIELDS, UnusualError, read_field
from pytubemq.wire.protobuf.varint import PAIRS, decode_varint, encode_varint
from pytubemq.wire.protocol.extensions import ExtensionField
from pytubemq.wire.protocol.messages.broker import GetMessageResponseB2C
from pytubemq.wire.protocol.messages.extension import ReadRangeResponseB2C
from pytubemq.wire.serialization.message_bytes import malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.wire.batch.stored import StoredMessage

H = TypeVar("H", GetMessageResponseB2C, ReadRangeResponseB2C)


class FetchedBatch(NamedTuple):
    """A record batch of a fetch response; its first message is at `head.offset`, perhaps before the offset that was
    asked for."""

    head: RecordBatchHead
    columns: Columns


class DamagedBatch(NamedTuple):
    """A record batch that cannot be read; `offset` is its first message's, None if its head cannot be trusted either.

    `messages`: how many it says it has, which nothing proves.
    """

    offset: int | None
    text: str
    messages: int


class Fetched(NamedTuple, Generic[H]):
    """A fetch response: its head without messages and record batches, and its records in order."""

    head: H
    records: list[StoredMessage | FetchedBatch]
    damaged: list[DamagedBatch]


def decode_get_message(body: bytes, *, check: bool = True) -> Fetched[GetMessageResponseB2C]:
    """Decode a response to GetMessage.

    Args:
        body: the response.
        check: whether to compute the CRC-32 of each batch's columns.

    Raises:
        EnvelopeError: the bytes are no such response.
    """
    return _decode_fetched(body, stored.decode_get_message, check=check)


def decode_read_range(body: bytes | memoryview, *, check: bool = True) -> Fetched[ReadRangeResponseB2C]:
    """Decode a response to READ_RANGE, as `decode_get_message`; batches are views of `body`.

    Raises:
        EnvelopeError: the bytes are no such response.
    """
    return _decode_fetched(body, stored.decode_read_range, check=check)


def check_batches(fetched: Fetched[H]) -> Fetched[H]:
    """Check the batches of a response that was decoded without `check`: those that fail are among the damaged."""
    failed = [record for record in fetched.records if isinstance(record, FetchedBatch) and not checks(record.columns)]
    if not failed:
        return fetched
    also: list[DamagedBatch] = [DamagedBatch(batch.head.offset, DAMAGED, batch.columns.count) for batch in failed]
    # By identity: to compare two batches would compare their bytes.
    gone = {id(batch) for batch in failed}
    whole = [record for record in fetched.records if id(record) not in gone]
    return Fetched(fetched.head, whole, [*fetched.damaged, *also])


def _decode_fetched(
    body: bytes | memoryview, read: Callable[..., tuple[H, list[StoredMessage]]], *, check: bool
) -> Fetched[H]:
    records: list[StoredMessage | FetchedBatch] = []
    damaged: list[DamagedBatch] = []
    try:
        # Protobuf would copy each batch out of the response. Its place is found here instead, and it is given as a
        # view.
        places = _find_batches(body)
    except UnusualError:
        head, singles = read(bytes(body))
        records.extend(singles)
        for data in head.packs:
            _take(data, records, damaged, check=check)
        # Protobuf gives messages and batches as two lists; which came before which, only the offsets still say.
        records.sort(key=_offset)
        return Fetched(replace(head, packs=()), records, damaged)
    # From here on messages and batches are counted, so protobuf may read the message.
    if not places:
        head, singles = read(bytes(body), counted=True)
        records.extend(singles)
        return Fetched(head, records, damaged)
    # Without the batches the rest is small, and protobuf may copy it.
    head, singles = read(_without(body, places), counted=True)
    view = memoryview(body)
    taken = 0
    # `before` counts the single messages ahead of a batch, so both lists come out in the Broker's order.
    for before, _, start, stop in places:
        records.extend(singles[taken:before])
        taken = before
        _take(view[start:stop], records, damaged, check=check)
    records.extend(singles[taken:])
    return Fetched(head, records, damaged)


def _find_batches(body: bytes | memoryview) -> list[tuple[int, int, int, int]]:
    """Find each batch: the count of single messages before it, and the offsets of its field, its value and its end.

    Raises:
        UnusualError: protobuf is to be asked.
        EnvelopeError: there are more than any Broker sends.
    """
    found: list[tuple[int, int, int, int]] = []
    singles, others, short, at, end = 0, 0, 0, 0, len(body)
    # Bounds before memory: protobuf takes 96 bytes for an empty message of two.
    most = MAX_FETCH_MESSAGES
    while at < end:
        # The usual field without a call of `read_field`, as there may be 100,000 of them.
        if body[at] == _MESSAGE:
            try:
                size, at = decode_varint(body, at + 1)
            except (IndexError, ValueError) as error:
                raise UnusualError from error
            at += size
            # A size that goes beyond the end is found after the loop; nothing reads there meanwhile.
            singles += 1
            if singles > most:
                raise malformed(GetMessageResponseB2C, FormatError(f"it has more than {most} messages"))
            continue
        field_at = at
        key, value, at = read_field(body, at, end)
        if key == _PACKS:
            # As many as single messages, since a batch may have one message only.
            if len(found) == MAX_FETCH_MESSAGES:
                raise malformed(GetMessageResponseB2C, FormatError(f"more than {MAX_FETCH_MESSAGES} record batches"))
            found.append((singles, field_at, value, at))
            # Such a batch is damage for sure, but it is reported and not refused: the others may be sound.
            short += at - value < HEAD_BYTES
            if short > _MOST_SHORT_BATCHES:
                raise malformed(
                    GetMessageResponseB2C, FormatError(f"more than {_MOST_SHORT_BATCHES} record batches without head")
                )
        # Protobuf takes it for an unknown field; it decides.
        elif key >> 3 == _PACKS >> 3:
            raise UnusualError  # a batch in another wire type
        else:
            others += 1
            if others > MAX_USUAL_FIELDS:
                raise UnusualError
    if at > end:
        raise UnusualError
    return found


_MOST_SHORT_BATCHES: Final = 1_000
"""Limit on batches shorter than a head in one response, because each takes more memory than it has bytes."""
# The keys of both fetch responses: field 4 and field 1003, length-delimited.
_MESSAGE: Final = 4 << 3 | 2
_PACKS: Final = 1003 << 3 | 2


def _without(body: bytes | memoryview, places: Sequence[tuple[int, int, int, int]]) -> bytes:
    parts = []
    at = 0
    for _, field_at, _, stop in places:
        if field_at > at:
            parts.append(body[at:field_at])
        at = stop
    parts.append(body[at:])
    return b"".join(parts)


def _take(
    data: bytes | memoryview, records: list[StoredMessage | FetchedBatch], damaged: list[DamagedBatch], *, check: bool
) -> None:
    offset = None
    try:
        # Before the whole: if only the columns are damaged, the reader still learns where, and can go on behind them.
        offset = read_record_batch_head(data).offset
        records.append(FetchedBatch(*read_record_batch(data, check=check)))
    except FormatError as error:
        # Reported and passed over: all other records of the response are sound.
        damaged.append(DamagedBatch(offset, error.message, claimed_count(data)))


def _offset(record: Any) -> int:
    found = record.head.offset if isinstance(record, FetchedBatch) else record.offset
    return found or 0


# --- for consumers that know no batches ---------------------------------------------------------------------------


_OFFSET_TAG: Final = encode_varint(ExtensionField.OFFSET << 3)
_APPEND_TIME_TAG: Final = encode_varint(ExtensionField.APPEND_TIME << 3)
_PRODUCER_ID_TAG: Final = encode_varint(ExtensionField.PRODUCER_ID << 3)
_PRODUCER_EPOCH_TAG: Final = encode_varint(ExtensionField.PRODUCER_EPOCH << 3)
_SEQUENCE_TAG: Final = encode_varint(ExtensionField.SEQUENCE << 3)


class Expanded(NamedTuple):
    """Stored entries made of a record batch, how many, and the ordinal after the last message that was looked at."""

    entries: bytes
    next_ordinal: int
    messages: int


def expand(
    record: bytes | memoryview,
    first_ordinal_wanted: int,
    codes: frozenset[int] | None,
    max_bytes: int,
    max_messages: int | None = None,
) -> Expanded:
    """Expand a stored record batch to the stored entries that its messages would be if they had come individually.

    Args:
        record: the whole stored batch.
        first_ordinal_wanted: messages before it are skipped.
        codes: only messages with one of these filter codes; None takes all.
        max_bytes: of payload; a message beyond them ends it, unless it is the first that is taken.
        max_messages: so many are taken at most.

    Raises:
        FormatError: it is no stored batch, or was damaged.
    """
    head, columns = read_stored_batch(record)
    # In ordinals from here on, since the messages of a batch count up by one.
    first_ordinal = to_ordinal(head.offset)
    # A fetch may begin inside of a batch, and a batch that ended before it has nothing for it.
    start = max(first_ordinal_wanted - first_ordinal, 0)
    wanted: Sequence[int] = range(start, columns.count)
    # By hash, as Brokers of the original filter; consumers look again at the text.
    if codes is not None:
        if columns.codes is not None:
            by_message = columns.codes
            wanted = [at for at in wanted if by_message[at] in codes]
        # One code for all messages, so all or none of them pass.
        elif columns.key_code not in codes:
            wanted = ()
    # Where the next read begins. Messages that a filter leaves out are passed as well, or it would look at them again.
    stop = first_ordinal + max(columns.count, start)
    if max_messages is not None and len(wanted) > max_messages:
        stop = first_ordinal + wanted[max_messages]
        wanted = wanted[:max_messages]
    sizes = list(accumulate(columns.lengths[at] for at in wanted))
    # At least one, or a message larger than the limit would stop its partition for good.
    fitting = max(bisect_right(sizes, max_bytes), 1)
    if fitting < len(wanted):
        stop = first_ordinal + wanted[fitting]
        wanted = wanted[:fitting]
    entries = b"".join(_entries(head, columns, wanted)) if wanted else b""
    return Expanded(entries, stop, len(wanted))


def _entries(head: RecordBatchHead, columns: Columns, wanted: Sequence[int]) -> list[bytes | memoryview]:
    """Return the stored entries of these messages, in pieces."""
    data, bounds = memoryview(columns.data), columns.bounds()
    varint, join, pairs = encode_varint, b"".join, PAIRS
    # What all messages share is written once, before the loop: taking a batch apart costs some 5 us a message as it is.
    flags, flag = columns.flags, varint(columns.flag)
    time = _APPEND_TIME_TAG + varint(head.append_time_ms)
    producer = b""
    if head.producer_id:
        producer = join(
            (
                _PRODUCER_ID_TAG,
                varint(head.producer_id),
                _PRODUCER_EPOCH_TAG,
                varint(head.producer_epoch),
                _SEQUENCE_TAG,
            )
        )
    # Ids and offsets count up, so their upper bits are the same for many messages.
    id_high = offset_high = -1
    id_tail = offset_tail = sequence = b""
    parts: list[bytes | memoryview] = []
    extend = parts.extend
    for at in wanted:
        # A view; the bytes are copied once, when the entries are joined.
        payload = data[bounds[at] : bounds[at + 1]]
        size = bounds[at + 1] - bounds[at]
        # A batch has one check for all, and these consumers want one for each message.
        check = crc32(payload) & 0x7FFFFFFF
        message_id = head.message_id + at
        if message_id >> 14 != id_high:
            id_high = message_id >> 14
            id_tail = varint(id_high)
        offset = head.offset + OFFSET_UNIT * at
        if offset >> 14 != offset_high:
            offset_high = offset >> 14
            offset_tail = varint(offset_high)
        if producer:
            sequence = varint(head.sequence + at)
        lead = join(
            (
                b"\x08",
                pairs[message_id & 0x3FFF] + id_tail if id_high else varint(message_id),
                b"\x10",
                varint(check),
                b"\x1a",
                varint(size),
            )
        )
        trail = join(
            (
                b"\x20",
                varint(flags[at]) if flags else flag,
                _OFFSET_TAG,
                pairs[offset & 0x3FFF] + offset_tail if offset_high else varint(offset),
                time,
                producer,
                sequence,
            )
        )
        # The bytes of a stored entry (`stored_entry`), so consumers without batches cannot see how messages were kept.
        extend((b"\x22", varint(len(lead) + size + len(trail)), lead, payload, trail))
    return parts
