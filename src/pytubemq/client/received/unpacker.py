"""Unpacking of a fetch response's records to the user's messages.

The invariants: messages are in the order of their offsets, none from outside of what was requested; each byte of them
has passed one check; what cannot be read is reported and affects nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytubemq.errors import CorruptError, FormatError
from pytubemq.model.message import Message, plain_messages, unread_message
from pytubemq.model.offset import OFFSET_UNIT, messages_between, to_ordinal
from pytubemq.wire.batch.checksum import check_sum
from pytubemq.wire.batch.fetch_batches import FetchedBatch
from pytubemq.wire.batch.payload import decode_payload
from pytubemq.wire.text.attributes import parse_attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.errors import EnvelopeError
    from pytubemq.model.ids import Partition
    from pytubemq.wire.batch.fetch_batches import DamagedBatch
    from pytubemq.wire.batch.stored import StoredMessage


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message, or a record batch, that fails its check."""

    offset: int | None
    reason: str
    messages: int = 1


@dataclass(slots=True)
class Unpacked:
    """The messages of a response.

    `malformed` has the positions of those whose attributes cannot be read and that are handed out raw all the same.
    """

    messages: list[Message] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    malformed: set[int] = field(default_factory=set)

    def gap(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the first range [from, to) within [start, end) without a message; None if there is none.

        For a Broker with dense offsets that returned everything it has there.
        """
        if not self.messages:  # also where the range is shorter than one message, which no sound Broker says
            return (start, end) if start < end else None
        if len(self.messages) == messages_between(start, end):
            return None
        expected = start
        for message in self.messages:
            if message.offset is not None and message.offset > expected:
                return expected, message.offset
            expected += OFFSET_UNIT
        return (expected, end) if expected < end else None

    def left_out(self, start: int | None, end: int | None) -> int:
        """Return the number of missing messages: all that [start, end) lacks, as in `gap`.

        If that range is not known, it is the number that the unreadable records claim, which nothing proves.
        """
        if start is None or end is None:
            return sum(one.messages for one in self.unreadable)
        return max(messages_between(start, end) - len(self.messages), 0)


class Unpacker:
    """Unpacks the records of one partition."""

    def __init__(self, partition: Partition, wanted: frozenset[str] | None = None, *, raw: bool = False) -> None:
        """`wanted` filters again by text: Brokers choose by a hash that different items may share, and hand out packs
        whole. As in the original's Java client a message without a type is not among those wanted. `raw`: hand out
        messages whose attributes cannot be read, with their whole payload as body."""
        self._partition = partition
        self._wanted = wanted
        self._raw = raw

    def read(
        self,
        records: Sequence[StoredMessage | FetchedBatch],
        damaged: Sequence[DamagedBatch] = (),
        *,
        start: int | None = None,
        end: int | None = None,
    ) -> Unpacked:
        """Return the messages in [start, end), also if record batches reach beyond that."""
        out = Unpacked()
        out.unreadable.extend(Unreadable(pack.offset, pack.text, pack.messages) for pack in damaged)
        for record in records:
            if isinstance(record, FetchedBatch):
                self._pack(out, record, start, end)
            elif record.check_sum != check_sum(record.payload):
                out.unreadable.append(Unreadable(record.offset, "its checksum does not match"))
            else:
                self._one(out, record.payload, record.flag, record.offset, record.append_time, record.message_id)
        return out

    def _pack(self, out: Unpacked, pack: FetchedBatch, start: int | None, end: int | None) -> None:
        head, columns = pack
        first = 0 if start is None or start <= head.offset else to_ordinal(start - head.offset + OFFSET_UNIT - 1)
        last = columns.count
        if end is not None and end < head.offset + last * OFFSET_UNIT:
            last = to_ordinal(end - head.offset + OFFSET_UNIT - 1)
        if first >= last:
            return
        payloads = columns.payloads()
        if (first, last) != (0, columns.count):
            payloads = payloads[first:last]
        offset, message_id = head.offset + first * OFFSET_UNIT, head.message_id + first
        if columns.flags is None and not columns.flag:
            if self._wanted is None:  # the most usual: nothing to look at in any of them
                offsets = range(offset, offset + len(payloads) * OFFSET_UNIT, OFFSET_UNIT)
                ids = range(message_id, message_id + len(payloads))
                out.messages.extend(plain_messages(self._partition, payloads, offsets, ids, head.append_time_ms))
            return
        for number, payload in enumerate(payloads):
            self._one(
                out,
                payload,
                columns.flag_of(first + number),
                offset + number * OFFSET_UNIT,
                head.append_time_ms,
                message_id + number,
            )

    def _one(
        self, out: Unpacked, payload: bytes, flag: int, offset: int | None, time_ms: int | None, message_id: int
    ) -> None:
        text: str | None = None
        body = payload
        if flag:
            try:
                body, text = decode_payload(payload, flag)
            except FormatError as error:
                if not self._raw:
                    out.unreadable.append(Unreadable(offset, error.message))
                    return
                out.malformed.add(len(out.messages))
        message = unread_message(self._partition, body, text, parse_attributes, offset, time_ms, message_id)
        if self._wanted is not None and message.msg_type not in self._wanted:
            out.malformed.discard(len(out.messages))
            return
        out.messages.append(message)


def unreadable_error(partition: Partition, offset: int, error: EnvelopeError) -> CorruptError:
    """Return the error for a response that is unreadable although the Broker checked its records."""
    return CorruptError(
        f"{partition} from offset {offset} on cannot be read: the Broker's response is damaged: {error.text}",
        hint="look at the health of its Broker; `pytubemq store verify` checks its files once it is stopped",
    )


MAX_CONTRADICTIONS: Final = 3
"""The most consecutive responses that report no message at an offset and an end of the partition behind it."""


def contradiction_error(partition: Partition, offset: int, newest: int) -> CorruptError:
    """Return the error for a Broker that contradicts itself repeatedly."""
    return CorruptError(
        f"the Broker of {partition} contradicts itself: it reports no message at offset {offset}, but the end of the "
        f"partition at {newest}",
        hint="look at the health and the log of the Broker; its implementation may not follow the protocol",
    )


LOST_THERE: Final = Unreadable(None, "they are lost to damage on the Broker's disk")


class Portions:
    """Messages of one fetch, handed out in portions of a bounded size: a record batch is fetched as a whole."""

    __slots__ = ("_at", "_end", "_malformed", "_messages", "_start")

    def __init__(self, messages: list[Message], malformed: set[int], start: int | None, end: int | None) -> None:
        """The messages are in [start, end)."""
        self._messages = messages
        self._malformed = malformed
        self._start = start
        self._end = end
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._messages)

    def take(self, most: int, most_bytes: int | None) -> Portion:
        """Return the next `most` messages, at least one whatever its size."""
        messages, at = self._messages, self._at
        stop = min(at + most, len(messages))
        if most_bytes is not None and at < len(messages):
            size_bytes = len(messages[at].body)
            fits = at + 1
            while fits < stop and (size_bytes := size_bytes + len(messages[fits].body)) <= most_bytes:
                fits += 1
            stop = fits
        following = messages[stop].offset if stop < len(messages) else None
        if following is None:  # the last, or from a Broker that does not say where each message is
            stop = len(messages)
        end = self._end if following is None else following
        part = messages if stop - at == len(messages) else messages[at:stop]
        malformed = frozenset(position - at for position in self._malformed if at <= position < stop)
        portion = Portion(tuple(part), malformed, self._start, end)
        self._at, self._start = stop, end
        return portion


@dataclass(frozen=True, slots=True)
class Portion:
    """Some messages of a fetch, from [start, end); None each if not known."""

    messages: tuple[Message, ...]
    malformed: frozenset[int]
    start: int | None
    end: int | None
