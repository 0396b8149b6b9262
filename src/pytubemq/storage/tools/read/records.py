"""The records of a partition, one after the other, as a Broker would hand them out.

The invariant: records come in the order of their offsets, none twice; messages lost to damage are skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.errors import EnvelopeError, FormatError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.batch.record_batch import RECORD_BATCH_TAG, read_stored_batch
from pytubemq.wire.batch.stored import StoredMessage, decode_stored
from pytubemq.wire.protobuf.varint import decode_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.storage.store.store import BrokerStore

_READ_BYTES: Final = 1024 * 1024
_READ_MESSAGES: Final = 100_000


class Skipped(NamedTuple):
    """A range of messages [from_offset, to_offset) that are lost, at least so many of them."""

    from_offset: int
    to_offset: int
    messages: int


def raw_records(store: BrokerStore, topic: str, partition_id: int, start: int, end: int) -> Iterator[bytes | Skipped]:
    """Yield whole records from the one with the message at `start` to before `end`; the first may begin earlier.

    Raises:
        NotFoundError, StorageError: as `BrokerStore.read`.
    """
    offset = start
    while offset < end:
        piece = store.read(
            topic, partition_id, offset, end_offset=end, max_bytes=_READ_BYTES, max_messages=_READ_MESSAGES
        )
        if piece.skipped:
            yield Skipped(offset, piece.next_offset, piece.skipped)
        for part in piece.parts:
            yield from _split(part)
        # Nothing more can be read; without this a partition that is short of its end would loop.
        if piece.next_offset <= offset:
            return
        offset = piece.next_offset


def _split(part: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(part):
        # A record batch and a single message are two fields of one response, so they have different tags.
        tag = len(RECORD_BATCH_TAG) if part.startswith(RECORD_BATCH_TAG, at) else 1
        size, body = decode_varint(part, at + tag)
        yield part[at : body + size]
        at = body + size


def messages_of(record: bytes) -> list[StoredMessage]:
    """Return the messages in a record; those of a record batch have the checksum 0, as its own check covers them.

    Raises:
        FormatError: it is no sound one.
    """
    if not record.startswith(RECORD_BATCH_TAG):
        try:
            return decode_stored(record)
        except EnvelopeError as error:
            raise FormatError(f"a record that is not a message: {error.message}") from error
    head, pack = read_stored_batch(record)
    # 0 stands for a producer that numbers nothing.
    known = head.producer_id != 0
    return [
        StoredMessage(
            head.message_id + number,
            0,
            payload,
            pack.flag_of(number),
            head.offset + number * OFFSET_UNIT,
            head.append_time_ms,
            head.producer_id if known else None,
            head.producer_epoch if known else None,
            head.sequence + number if known else None,
        )
        for number, payload in enumerate(pack.payloads())
    ]
