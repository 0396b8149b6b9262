"""Records of a journal block and of the checkpoint: everything beside the messages' own bytes.

The invariant: what `decode_records` gives is what was encoded, whatever mix of kinds is in a block; bytes that are no
records raise and give nothing. All numbers are little-endian. `docs/design/storage.md` shows the layout as tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.core.sequences import StoredLocation, Window
from pytubemq.model.names import is_file_name, shown
from pytubemq.model.offset import to_offset
from pytubemq.storage.format.index import INDEX_BYTES
from pytubemq.storage.format.record_range import RecordRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PartitionKey = tuple[str, int]
"""Topic, partition id."""
GroupKey = tuple[str, str, int]
"""Group, topic, partition id."""
WindowKey = tuple[str, int, int]
"""Topic, partition id, producer id."""
FORGOTTEN: Final = -1
"""In the place of a confirmed offset: the group has none in that partition any more."""

_RECORD = Struct("<BBH")  # kind, bytes of the topic's name, bytes of the group's name
_MESSAGES = Struct("<IQQIII")  # partition id, base ordinal, base position, count, records, bytes of entries
_OFFSET = Struct("<Iq")  # partition id, confirmed offset or FORGOTTEN
_END = Struct("<IQQQQqI")  # partition id, LogEnd
_SEQUENCES = Struct("<IQIQIQQ")  # partition id, producer id, epoch, StoredLocation
_WINDOW = Struct("<IQIQHH")  # partition id, producer id, epoch, floor, runs, places
_WINDOW_RUN = Struct("<QQ")
_PLACE = Struct("<QIQQ")
_LOST_RANGE = Struct("<IQQB")  # partition id, from ordinal, to ordinal, reason
# On disk for good: a new kind gets a new number, and a program that does not know it stops instead of guessing.
_KIND_MESSAGES: Final = 1
_KIND_OFFSET: Final = 2
_KIND_END: Final = 3
_KIND_SEQUENCES: Final = 4
_KIND_WINDOW: Final = 5
_KIND_LOST_RANGE: Final = 6


class LogEnd(NamedTuple):
    """The start and end of a partition's log on the device.

    `last_records` index entries of the last segment count; 0 if there is no segment, because all was expired.
    """

    ordinal: int
    position: int
    first_ordinal: int = 0
    first_position: int = 0
    last_time_ms: int = 0
    """Append time of the newest message."""
    last_records: int = 0


class LossReason(IntEnum):
    """The reasons why messages cannot be read any more."""

    JOURNAL = 1
    """A block of the journal failed its check when the store was opened."""
    RECORD = 2
    """Their bytes in the log fail their check."""
    INDEX = 3
    """Their index entry fails its check."""


class LostRange(NamedTuple):
    """A range of messages of a partition that were lost to damage; readers skip them."""

    topic: str
    partition_id: int
    from_ordinal: int
    to_ordinal: int
    reason: LossReason

    @property
    def from_offset(self) -> int:
        """Offset of the first one."""
        return to_offset(self.from_ordinal)

    @property
    def to_offset(self) -> int:
        """Offset behind the last one."""
        return to_offset(self.to_ordinal)

    @property
    def messages(self) -> int:
        """Number of messages."""
        return self.to_ordinal - self.from_ordinal


class Sequences(NamedTuple):
    """Messages of a block that a producer numbered."""

    topic: str
    partition_id: int
    producer_id: int
    epoch: int
    place: StoredLocation


def encode_meta(
    runs: Iterable[RecordRange], confirmed: Mapping[GroupKey, int], sequences: Iterable[Sequences] = ()
) -> list[bytes]:
    """Encode the records of a block, without the messages' own bytes."""
    # In parts, which the caller joins once; index entries are taken as they are.
    parts: list[bytes] = []
    for run in runs:
        topic = run.topic.encode()
        parts += (
            _RECORD.pack(_KIND_MESSAGES, len(topic), 0),
            topic,
            _MESSAGES.pack(
                run.partition_id, run.base_ordinal, run.base_position, run.count, run.records, len(run.entries)
            ),
            run.index,
        )
    parts += (encode_offset(key, offset) for key, offset in confirmed.items())
    parts += map(encode_sequences, sequences)
    return parts


def encode_offset(key: GroupKey, offset: int) -> bytes:
    """Encode a confirmed offset as a record."""
    group, topic = key[0].encode(), key[1].encode()
    return _RECORD.pack(_KIND_OFFSET, len(topic), len(group)) + topic + group + _OFFSET.pack(key[2], offset)


def encode_end(topic: str, partition_id: int, end: LogEnd) -> bytes:
    """Encode the end of a partition's log on the device, as a record of the checkpoint."""
    return _encode_named(_KIND_END, topic) + _END.pack(partition_id, *end)


def encode_sequences(item: Sequences) -> bytes:
    """Encode a producer's sequences, as a record of a block."""
    return _encode_named(_KIND_SEQUENCES, item.topic) + _SEQUENCES.pack(
        item.partition_id, item.producer_id, item.epoch, *item.place
    )


def encode_window(key: WindowKey, window: Window) -> bytes:
    """Encode a producer's window as a record of the checkpoint."""
    topic, partition_id, producer_id = key
    head = _WINDOW.pack(partition_id, producer_id, window.epoch, window.floor, len(window.runs), len(window.places))
    runs = (_WINDOW_RUN.pack(*run) for run in window.runs)
    return b"".join(
        (_encode_named(_KIND_WINDOW, topic), head, *runs, *(_PLACE.pack(*place) for place in window.places))
    )


def encode_lost_range(lost_range: LostRange) -> bytes:
    """Encode a known lost range as a record of the checkpoint."""
    return _encode_named(_KIND_LOST_RANGE, lost_range.topic) + _LOST_RANGE.pack(*lost_range[1:])


def _encode_named(kind: int, topic: str) -> bytes:
    name = topic.encode()
    return _RECORD.pack(kind, len(name), 0) + name


@dataclass(slots=True)
class Records:
    """The content of a series of records."""

    runs: list[RecordRange] = field(default_factory=list)
    confirmed: dict[GroupKey, int] = field(default_factory=dict)
    ends: dict[PartitionKey, LogEnd] = field(default_factory=dict)
    sequences: list[Sequences] = field(default_factory=list)
    windows: dict[WindowKey, Window] = field(default_factory=dict)
    lost_ranges: list[LostRange] = field(default_factory=list)


def decode_records(meta: bytes, entries: bytes | memoryview = b"") -> Records:
    """Decode what the encoders above encoded; `entries` are the messages' bytes that the runs refer to, in order.

    Raises:
        ValueError, struct.error: the bytes are no records (only if something passed its checksum and is yet wrong).
    """
    reader = _Reader(meta, memoryview(entries))
    while reader.at < len(meta):
        reader.read_one()
    # Bytes that no record claims would be lost without a word.
    if reader.taken != len(entries):
        raise ValueError("messages that no run claims")
    return reader.found


def decode_one(meta: bytes, at: int) -> tuple[Records, int]:
    """Return the one record at byte `at`, which refers to no messages, and where it ends; for bytes that failed their
    check.

    Raises:
        ValueError, struct.error: there is none.
    """
    reader = _Reader(meta, memoryview(b""))
    reader.at = at
    reader.read_one()
    return reader.found, reader.at


class _Reader:
    def __init__(self, meta: bytes, entries: memoryview) -> None:
        self.found = Records()
        self.at = 0
        self.taken = 0
        self._meta = meta
        self._entries = entries
        self._topics: dict[bytes, str] = {}
        """Topics of earlier records by their bytes: a block of small messages has a record for each of them."""
        self._by_kind = {
            _KIND_MESSAGES: self._messages,
            _KIND_OFFSET: self._offset,
            _KIND_END: self._end,
            _KIND_SEQUENCES: self._sequences,
            _KIND_WINDOW: self._window,
            _KIND_LOST_RANGE: self._lost_range,
        }

    def read_one(self) -> None:
        """Take the next record."""
        kind, topic_bytes, group_bytes = self._next(_RECORD)
        encoded = self._bytes(topic_bytes)
        topic = self._topics.get(encoded) or self._topic(encoded)
        group = self._bytes(group_bytes).decode() if group_bytes else ""
        read = self._by_kind.get(kind)
        if read is None:
            raise ValueError(f"unknown record kind {kind}")
        read(topic, group)

    def _topic(self, encoded: bytes) -> str:
        topic = encoded.decode()
        # Names become paths: a record from elsewhere must not lead out of the store.
        if not is_file_name(topic):
            raise ValueError(f"no topic has the name {shown(topic)}")
        self._topics[encoded] = topic
        return topic

    def _next(self, form: Struct) -> tuple[int, ...]:
        fields = form.unpack_from(self._meta, self.at)
        self.at += form.size
        return fields

    def _bytes(self, size: int) -> bytes:
        data = self._meta[self.at : self.at + size]
        self.at += size
        return data

    def _messages(self, topic: str, _: str) -> None:
        partition_id, ordinal, position, count, records, size = self._next(_MESSAGES)
        index = self._bytes(records * INDEX_BYTES)
        # A copy: a run that waits in memory must not keep the whole block there.
        entries = bytes(self._entries[self.taken : self.taken + size])
        # Messages are behind all records, in the records' order, so a count finds them.
        self.taken += size
        # A slice beyond the end is short and raises nothing.
        if len(entries) != size or len(index) != records * INDEX_BYTES:
            raise ValueError("a run is shorter than it says")
        self.found.runs.append(RecordRange(topic, partition_id, ordinal, position, count, index, entries))

    def _offset(self, topic: str, group: str) -> None:
        partition_id, offset = self._next(_OFFSET)
        self.found.confirmed[group, topic, partition_id] = offset

    def _end(self, topic: str, _: str) -> None:
        partition_id, *end = self._next(_END)
        self.found.ends[topic, partition_id] = LogEnd._make(end)

    def _sequences(self, topic: str, _: str) -> None:
        partition_id, producer_id, epoch, *place = self._next(_SEQUENCES)
        self.found.sequences.append(Sequences(topic, partition_id, producer_id, epoch, StoredLocation._make(place)))

    def _window(self, topic: str, _: str) -> None:
        partition_id, producer_id, epoch, floor, runs, places = self._next(_WINDOW)
        window = Window(epoch, floor)
        for _number in range(runs):
            start, end = self._next(_WINDOW_RUN)
            window.runs.append((start, end))
        window.places = [StoredLocation._make(self._next(_PLACE)) for _number in range(places)]
        self.found.windows[topic, partition_id, producer_id] = window

    def _lost_range(self, topic: str, _: str) -> None:
        partition_id, start, end, reason = self._next(_LOST_RANGE)
        self.found.lost_ranges.append(LostRange(topic, partition_id, start, end, LossReason(reason)))
