"""What the storage tests share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytubemq.storage.store import BrokerStore, StoreSettings
from pytubemq.wire.hot import StoredMessage, decode_stored

if TYPE_CHECKING:
    from pytubemq.storage.staging import Appended
    from pytubemq.testing.disk import FaultyDisk

ROOT = Path("/data/broker-1")
NOW_MS = 1_790_000_000_000
SMALL = StoreSettings(segment_bytes=2000, journal_segment_bytes=1500, reserve_bytes=0, max_open_files=4)
ROOMY = StoreSettings(reserve_bytes=0)


def open_store(disk: FaultyDisk, settings: StoreSettings = ROOMY, *, partitions: int = 2) -> BrokerStore:
    """A store at ROOT with partitions of the topic `demo`."""
    store = BrokerStore.open(ROOT, disk=disk, settings=settings)
    for partition_id in range(partitions):
        store.ensure_partition("demo", partition_id)
    return store


def send(
    store: BrokerStore, *payloads: bytes, partition_id: int = 0, code: int = -1, confirm: int | None = None
) -> list[Appended]:
    """One batch through the journal."""
    staging = store.staging()
    for payload in payloads:
        staging.append("demo", partition_id, payload, 0, code)
    if confirm is not None:
        staging.confirm("g", "demo", partition_id, confirm)
    prepared = store.prepare(staging, NOW_MS)
    try:
        store.write(prepared)
    except BaseException:
        store.abandon(prepared)
        raise
    return store.publish(prepared)


def messages(store: BrokerStore, partition_id: int = 0, *, topic: str = "demo") -> list[StoredMessage]:
    """All messages of a partition, by small fetches."""
    found: list[StoredMessage] = []
    offset, end = store.ends(topic, partition_id)
    while offset < end:
        piece = store.read(topic, partition_id, offset, max_bytes=1000, max_messages=7)
        assert piece.next_offset > offset
        found += decode_stored(b"".join(piece.parts))
        offset = piece.next_offset
    return found


def payloads(store: BrokerStore, partition_id: int = 0) -> list[bytes]:
    """The payloads of all messages of a partition."""
    return [message.payload for message in messages(store, partition_id)]
