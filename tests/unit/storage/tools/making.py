"""Stores on a real disk for the tools' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.core.sequences import ProducerMark
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.storage.tools.read.read_only_store import open_read_only
from pytubemq.storage.tools.read.records import Skipped, messages_of, raw_records
from pytubemq.wire.batch.record_batch import encode_columns, read_columns

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS = 1_790_000_000_000
SMALL = StoreSettings(
    segment_bytes=700, journal_segment_bytes=1500, journal_padding_bytes=300, checkpoint_bytes=1500, reserve_bytes=0
)
LARGE = StoreSettings(reserve_bytes=0)

Messages = dict[tuple[str, int, int], bytes]
"""Payloads by topic, partition id and offset."""


def fill(root: Path, *, settings: StoreSettings = SMALL, rounds: int = 6, close: bool = True) -> Messages:
    """A store with singles and packs of two partitions, a group's position and a producer's window; half of it in the
    logs, the rest in the journal. Returns what it holds."""
    store = BrokerStore.open(root, settings=settings)
    for partition_id in (0, 1):
        store.ensure_partition("demo", partition_id)
    held: Messages = {}
    for number in range(rounds):
        staging = store.staging()
        mark = ProducerMark(7, 1, number * 3)
        for at in range(3):
            staging.append("demo", 0, b"single %d of round %d" % (at, number), 0, at, producer=mark._replace(
                sequence=mark.sequence + at))  # fmt: skip
        bodies = [b"packed %d of round %d" % (at, number) for at in range(4)]
        staging.append_batch("demo", 1, read_columns(encode_columns(bodies, 0, [number, 1, 2, 3])))
        staging.confirm("readers", "demo", 1, number * 2 * OFFSET_UNIT)
        prepared = store.prepare(staging, NOW_MS + number * 1000)
        store.write(prepared)
        store.publish(prepared)
        if number == rounds // 2:
            store.checkpoint()
    for topic, partition_id in store.partitions():
        held |= _held(store, topic, partition_id)
    store.close(apply=close)
    return held


def held_in(root: Path) -> Messages:
    """What a Broker would give out of the store in `root`, every record checked."""
    with open_read_only(root, check=True) as store:
        found: Messages = {}
        for topic, partition_id in store.partitions():
            found |= _held(store, topic, partition_id)
        return found


def _held(store: BrokerStore, topic: str, partition_id: int) -> Messages:
    start, end = store.ends(topic, partition_id)
    found: Messages = {}
    for record in raw_records(store, topic, partition_id, start, end):
        if not isinstance(record, Skipped):
            for message in messages_of(record):
                assert message.offset is not None
                found[topic, partition_id, message.offset] = message.payload
    return found
