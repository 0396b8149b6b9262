"""Export of the messages of a store whose Broker does not run, one after the other.

The invariant: messages come partition by partition, in the order of their offsets, each once, and every one was
checked; what is lost is counted. Nothing is changed.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pytubemq.errors import Code, FormatError, NotFoundError
from pytubemq.model.missing_topic import missing_text
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.tools.read.read_only_store import open_read_only
from pytubemq.storage.tools.read.records import Skipped, messages_of, raw_records
from pytubemq.storage.tools.read.store_access import check_store, lock_store
from pytubemq.wire.batch.payload import decode_payload
from pytubemq.wire.text.attributes import parse_attributes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytubemq.storage.store.store import BrokerStore


@dataclass(frozen=True, slots=True)
class ExportBound:
    """A start or an end of an export: an offset, or the first message that came at a time or later."""

    offset: int | None = None
    time_ms: int | None = None


class Exported(NamedTuple):
    """One message; `body` is without the attributes that travel in front of it."""

    topic: str
    partition_id: int
    offset: int
    time_ms: int
    message_id: int
    msg_type: str | None
    msg_time: str | None
    attributes: dict[str, str]
    body: bytes

    def as_json(self) -> dict[str, Any]:
        """Return an object for JSON: the body as text if it is UTF-8, else as Base64 in `body_base64`."""
        row = {
            "topic": self.topic,
            "partition": self.partition_id,
            "offset": self.offset,
            "time_ms": self.time_ms,
            "message_id": self.message_id,
            "type": self.msg_type,
            "msg_time": self.msg_time,
            "attributes": self.attributes,
        }
        try:
            return row | {"body": self.body.decode()}
        except UnicodeDecodeError:
            return row | {"body_base64": b64encode(self.body).decode()}


@dataclass(slots=True)
class ExportCount:
    """The progress of an export."""

    messages: int = 0
    lost: int = 0
    """Messages in the range that cannot be read any more."""
    wanted: int = 0
    """In the range, lost ones among them."""


def export(
    root: Path,
    topic: str,
    *,
    partition_id: int | None = None,
    start: ExportBound | None = None,
    end: ExportBound | None = None,
    count: ExportCount | None = None,
) -> Iterator[Exported]:
    """Yield the messages of a topic, or of one partition of it, from `start` to before `end`; `count` is kept up to
    date.

    Raises:
        NotFoundError: no such topic or partition. StorageError: no store, or files that cannot be read.
        DirectoryLockedError: a Broker runs there. CorruptError: a Broker would not open it: repair it first.
    """
    check_store(root)
    count = count or ExportCount()
    # Under the lock, as a Broker that starts meanwhile would change the files that are read.
    with lock_store(root), open_read_only(root, check=True) as store:
        ranges = []
        for name, number in store.partitions():
            if name == topic and partition_id in (None, number):
                first, last = store.ends(name, number)
                # Bounds outside what is kept are moved to it, so that all there is comes out.
                begin = max(first, _offset(store, topic, number, start, first))
                ranges.append((number, begin, min(last, _offset(store, topic, number, end, last))))
        if not ranges:
            raise NotFoundError(
                f"{missing_text([topic])} in {root}"
                if partition_id is None
                else f"partition {partition_id} of topic {topic!r} does not exist in {root}",
                hint=f"pytubemq store inspect {root}  shows its contents",
                code=Code.NOT_FOUND,
            )
        # Known before the first message comes, so that a caller can show how far it is.
        count.wanted = sum(max(0, stop - begin) for _, begin, stop in ranges) // OFFSET_UNIT
        for number, begin, stop in ranges:
            yield from _partition(store, topic, number, begin, stop, count)


def _offset(store: BrokerStore, topic: str, partition_id: int, place: ExportBound | None, otherwise: int) -> int:
    if place is None:
        return otherwise
    if place.offset is not None:
        return place.offset
    return store.offset_at(topic, partition_id, place.time_ms or 0)


def _partition(
    store: BrokerStore, topic: str, partition_id: int, start: int, end: int, count: ExportCount
) -> Iterator[Exported]:
    for record in raw_records(store, topic, partition_id, start, end):
        if isinstance(record, Skipped):
            count.lost += record.messages
            continue
        for message in messages_of(record):
            offset = message.offset or 0
            # A record is read whole: a batch may begin before the range, or end behind it.
            if not start <= offset < end:
                continue
            try:
                body, text = decode_payload(message.payload, message.flag)
            except FormatError:  # the flag says more than there is: the bytes are given as they are
                body, text = message.payload, None
            attributes, msg_type, msg_time = parse_attributes(text) if text else ({}, None, None)
            count.messages += 1
            yield Exported(
                topic,
                partition_id,
                offset,
                message.append_time or 0,
                message.message_id,
                msg_type,
                msg_time,
                attributes,
                body,
            )
