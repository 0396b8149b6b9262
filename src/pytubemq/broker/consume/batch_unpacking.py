"""Slices of a log for consumers that do not support record batches: the messages of each batch individually.

The invariants: every message of the slice from its start on is included once and in order, up to the limits; the new
slice ends at the next fetch's offset, which may be within a record batch; damaged bytes are never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pytubemq.errors import FormatError
from pytubemq.model.offset import to_offset, to_ordinal
from pytubemq.wire.batch.fetch_batches import expand
from pytubemq.wire.batch.record_batch import RECORD_BATCH_TAG, read_stored_batch
from pytubemq.wire.batch.stored import decode_stored
from pytubemq.wire.protobuf.varint import decode_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.storage.log.selection import Slice

# Field 4, `messages`, of both fetch responses: stored entries are what goes out, tag included.
_SINGLE_TAG: Final = b"\x22"


@dataclass(slots=True)
class _Room:
    """The space left in the new slice."""

    max_bytes: int
    max_messages: int

    @property
    def none(self) -> bool:
        return self.max_bytes <= 0 or self.max_messages <= 0

    def take(self, size_bytes: int, messages: int) -> None:
        self.max_bytes -= size_bytes
        self.max_messages -= messages


@dataclass(slots=True)
class _NewSlice:
    """The new slice so far; `next_offset` is set once it is known that the slice ends before its end."""

    parts: list[bytes] = field(default_factory=list)
    count: int = 0
    next_offset: int | None = None


def unpack_batches(
    found: Slice,
    *,
    max_bytes: int,
    max_messages: int,
    codes: frozenset[int] | None = None,
    end_offset: int | None = None,
) -> Slice:
    """Return the slice with single messages only.

    Args:
        found: the slice from the store, perhaps with batches that begin before its start or have other codes.
        max_bytes: the slice ends with the message that reaches this size, or before.
        max_messages: the most messages in the slice.
        codes: the consumer's filter codes; None includes all.
        end_offset: the slice ends before this offset.

    Raises:
        FormatError: a record batch, or the beginning of a record, is damaged.
    """
    blob = b"".join(found.parts)
    new, room = _NewSlice(), _Room(max_bytes, max_messages)
    for start, stop, is_batch in _records(blob):
        # Where the next fetch begins is known from the record that did not fit any more.
        if room.none:
            new.next_offset = _offset_of(blob[start:stop], is_batch=is_batch)
        elif is_batch:
            _take_batch(blob[start:stop], found, new, room, codes, end_offset)
        else:
            new.parts.append(blob[start:stop])
            new.count += 1
            room.take(stop - start, 1)
        if new.next_offset is not None:
            break
    next_offset = found.next_offset if new.next_offset is None else new.next_offset
    return replace(
        found,
        parts=[b"".join(new.parts)] if new.parts else [],
        # The last batch may reach beyond the range, and so does the slice of the store.
        next_offset=next_offset if end_offset is None else min(next_offset, end_offset),
        count=new.count,
        payload_bytes=sum(map(len, new.parts)),
        has_batches=False,
    )


def _take_batch(
    record: bytes,
    found: Slice,
    new: _NewSlice,
    room: _Room,
    codes: frozenset[int] | None,
    end_offset: int | None,
) -> None:
    # The head alone is needed here; `expand` checks all of it.
    head, columns = read_stored_batch(record, check=False)
    first, stop = to_ordinal(head.offset), to_ordinal(head.offset) + columns.count
    # The first batch may begin before the slice does.
    wanted = max(first, to_ordinal(found.start_offset))
    if end_offset is not None:
        stop = min(stop, to_ordinal(end_offset))
    if wanted >= stop:
        return
    piece = expand(record, wanted, codes, room.max_bytes, min(room.max_messages, stop - wanted))
    if piece.entries:
        new.parts.append(piece.entries)
    new.count += piece.messages
    room.take(len(piece.entries), piece.messages)
    # There was no room for the rest: the next fetch begins within the batch.
    if piece.next_ordinal < stop:
        new.next_offset = to_offset(piece.next_ordinal)


def _records(blob: bytes) -> Iterator[tuple[int, int, bool]]:
    """Yield where each record begins and ends, and True if it is a record batch."""
    at = 0
    while at < len(blob):
        is_batch = blob.startswith(RECORD_BATCH_TAG, at)
        try:
            # Not by a message's size alone: the tag of a batch takes two bytes, that of a single message one.
            size, begin = decode_varint(blob, at + (len(RECORD_BATCH_TAG) if is_batch else 1))
        except (IndexError, ValueError) as error:
            raise FormatError(f"a record has no length: {error}") from error
        # Nothing is guessed here: a length that is wrong would make every record behind it begin in a wrong place.
        if begin + size > len(blob) or not (is_batch or blob.startswith(_SINGLE_TAG, at)):
            raise FormatError(f"no record begins where one should, {at} bytes into what was read")
        yield at, begin + size, is_batch
        at = begin + size


def _offset_of(record: bytes, *, is_batch: bool) -> int | None:
    """Return a record's first offset."""
    return read_stored_batch(record, check=False)[0].offset if is_batch else decode_stored(record)[0].offset
