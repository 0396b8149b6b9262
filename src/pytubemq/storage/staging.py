"""Messages on their way to the journal: collected, numbered, and built into the bytes that every later step reuses.

The invariant: a message's bytes are built once, here; journal, log, index and fetch answers carry the same bytes.
Nothing here touches a disk, so all of it may run on an event loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from zlib import crc32

from pytubemq.errors import NotFoundError, ServerOverflowError
from pytubemq.model.limits import MAX_MESSAGE_BYTES, MAX_STAGED_BYTES
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.index import encode_index_entry
from pytubemq.storage.run import Run
from pytubemq.wire.hot import stored_entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.storage.partition_log import PartitionLog
    from pytubemq.storage.record import GroupKey

_PARTITION = tuple[str, int]
_new = tuple.__new__
"""Makes a named tuple in half the time of calling its class, which counts when done for every message."""
_Item: TypeAlias = tuple[int, bytes, int, int, int | None, int | None, int | None, int | None]
"""Number in the staging, payload, flag, key code, checksum, producer id, producer epoch, sequence."""


class Appended(NamedTuple):
    """What became of a staged message."""

    message_id: int
    offset: int
    append_time_ms: int


class Staging:
    """What one journal block will hold; get one from `BrokerStore.staging`, hand it to `BrokerStore.prepare`."""

    def __init__(self, partitions: Mapping[_PARTITION, PartitionLog]) -> None:
        self._partitions = partitions
        self.items: dict[_PARTITION, list[_Item]] = {}
        self.confirmed: dict[GroupKey, int] = {}
        self.count = 0
        """Messages staged."""
        self.size_bytes = 0
        """Payload bytes staged."""

    def append(
        self,
        topic: str,
        partition_id: int,
        payload: bytes,
        flag: int,
        key_code: int,
        *,
        check_sum: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        sequence: int | None = None,
    ) -> int:
        """Stage a message; returns its number in this staging, from 0.

        Args:
            check_sum: CRC32(payload) & 0x7FFFFFFF if the caller has just verified it, which saves computing it again.

        Raises:
            NotFoundError: the store has no such partition (`ensure_partition`).
            ServerOverflowError: more is staged than one block may hold.
        """
        key = (topic, partition_id)
        items = self.items.get(key)
        if items is None:
            if key not in self._partitions:
                raise no_partition(topic, partition_id)
            items = self.items[key] = []
        if self.size_bytes > MAX_STAGED_BYTES + MAX_MESSAGE_BYTES:
            raise ServerOverflowError(
                f"{self.size_bytes} bytes wait for the journal already", hint="send again later", code=419
            )
        number = self.count
        items.append((number, payload, flag, key_code, check_sum, producer_id, producer_epoch, sequence))
        self.count = number + 1
        self.size_bytes += len(payload)
        return number

    def confirm(self, group: str, topic: str, partition_id: int, offset: int) -> None:
        """Stage a group's confirmed offset, or FORGOTTEN; a later one for the same partition replaces it."""
        self.confirmed[group, topic, partition_id] = offset


@dataclass(slots=True, eq=False)
class Prepared:
    """A staging with offsets and message ids assigned, ready for the journal. Opaque to callers but for `count`."""

    runs: list[Run]
    confirmed: Mapping[GroupKey, int]
    appended: list[Appended]
    last_message_id: int
    size_bytes: int
    """Bytes of entries and index, which stay in memory until applied."""
    written: bool = False
    journal: int = 0
    journal_end: int = 0
    next_sequence: int = 0

    @property
    def count(self) -> int:
        """Messages in it."""
        return len(self.appended)


def no_partition(topic: str, partition_id: int) -> NotFoundError:
    """The error for a partition that the store does not know."""
    return NotFoundError(
        f"no partition {partition_id} of topic {topic!r} on this Broker",
        hint="create the topic at the Master, or ask it which Broker has the partition",
        code=404,
    )


def build(
    staging: Staging, partitions: Mapping[_PARTITION, PartitionLog], last_message_id: int, now_ms: int
) -> Prepared:
    """Number the staged messages and build their bytes; changes nothing but memory of its own."""
    appended: list[Appended] = [Appended(0, 0, 0)] * staging.count
    runs: list[Run] = []
    size = 0
    message_id = last_message_id
    for (topic, partition_id), items in staging.items.items():
        log = partitions[topic, partition_id]
        time_ms = max(now_ms, log.last_time_ms)  # within a partition time never goes back: it is searched by it
        ordinal, position = base_ordinal, base_position = log.end_ordinal, log.end_position
        entries: list[bytes] = []
        index: list[bytes] = []
        for number, payload, flag, key_code, check_sum, producer_id, producer_epoch, sequence in items:
            message_id += 1
            if check_sum is None:
                check_sum = crc32(payload) & 0x7FFFFFFF
            offset = ordinal * OFFSET_UNIT
            entry = stored_entry(
                message_id, payload, flag, offset, time_ms, check_sum, producer_id, producer_epoch, sequence
            )
            entry_bytes = len(entry)
            entries.append(entry)
            index.append(encode_index_entry(position, ordinal, time_ms, entry_bytes, 1, key_code, crc32(entry), 0))
            appended[number] = _new(Appended, (message_id, offset, time_ms))
            ordinal += 1
            position += entry_bytes
        run = Run(topic, partition_id, base_ordinal, base_position, len(items), b"".join(index), b"".join(entries))
        runs.append(run)
        size += len(run.index) + len(run.entries)
    return Prepared(runs, dict(staging.confirmed), appended, message_id, size)
