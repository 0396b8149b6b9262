"""What the storage tests share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.wire.batch.record_batch import RECORD_BATCH_TAG, Columns, encode_columns, read_columns, read_record_batch
from pytubemq.wire.batch.stored import StoredMessage, decode_stored
from pytubemq.wire.protobuf.varint import decode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.core.sequences import AppendedSpan, ProducerMark
    from pytubemq.storage.journal.staging import Appended, AppendedRun, Outcome, Staging
    from pytubemq.testing.disk import FaultyDisk

ROOT = Path("/data/broker-1")
NOW_MS = 1_790_000_000_000
SMALL = StoreSettings(
    segment_bytes=2000,
    journal_segment_bytes=1500,
    journal_padding_bytes=0,
    checkpoint_bytes=1500,
    reserve_bytes=0,
    max_open_files=4,
)
ROOMY = StoreSettings(reserve_bytes=0, journal_padding_bytes=0)


def open_store(disk: FaultyDisk, settings: StoreSettings = ROOMY, *, partitions: int = 2) -> BrokerStore:
    """A store at ROOT with partitions of the topic `demo`."""
    store = BrokerStore.open(ROOT, disk=disk, settings=settings)
    for partition_id in range(partitions):
        store.ensure_partition("demo", partition_id)
    return store


def send(
    store: BrokerStore,
    *payloads: bytes,
    partition_id: int = 0,
    code: int = -1,
    confirm: int | None = None,
    topic: str = "demo",
    producer: ProducerMark | None = None,
) -> list[Appended]:
    """One batch through the journal; `producer` is the mark of the first message."""
    staging = store.staging()
    for at, payload in enumerate(payloads):
        mark = None if producer is None else producer._replace(sequence=producer.sequence + at)
        staging.append(topic, partition_id, payload, 0, code, producer=mark)
    if confirm is not None:
        staging.confirm("g", topic, partition_id, confirm)
    return commit_singles(store, staging)


def columns(payloads: Sequence[bytes], *, codes: int | Sequence[int] = -1) -> Columns:
    """A pack as a Broker has it from a producer."""
    return read_columns(encode_columns(payloads, 0, codes))


def send_pack(
    store: BrokerStore,
    *payloads: bytes,
    partition_id: int = 0,
    codes: int | Sequence[int] = -1,
    topic: str = "demo",
    producer: ProducerMark | None = None,
) -> tuple[AppendedSpan, ...]:
    """One pack through the journal."""
    staging = store.staging()
    staging.append_batch(topic, partition_id, columns(payloads, codes=codes), producer=producer)
    [result] = commit(store, staging)
    return cast("AppendedRun", result).spans


def commit_singles(store: BrokerStore, staging: Staging, *, now_ms: int = NOW_MS) -> list[Appended]:
    """A staging of single messages through the journal."""
    return cast("list[Appended]", commit(store, staging, now_ms=now_ms))


def commit(store: BrokerStore, staging: Staging, *, now_ms: int = NOW_MS) -> list[Outcome]:
    """A staging through the journal."""
    prepared = store.prepare(staging, now_ms)
    try:
        store.write(prepared)
    except BaseException:
        store.abandon(prepared)
        raise
    return store.publish(prepared)


def split(blob: bytes) -> list[StoredMessage]:
    """The messages of records that stand one after the other, packs taken apart."""
    found: list[StoredMessage] = []
    at = 0
    while at < len(blob):
        size, body = decode_varint(blob, at + (2 if blob.startswith(RECORD_BATCH_TAG, at) else 1))
        if blob.startswith(RECORD_BATCH_TAG, at):
            head, pack = read_record_batch(blob[body : body + size])
            found += (
                StoredMessage(
                    head.message_id + number,
                    0,
                    payload,
                    pack.flag_of(number),
                    head.offset + number * OFFSET_UNIT,
                    head.append_time_ms,
                    head.producer_id or None,
                    head.producer_epoch if head.producer_id else None,
                    head.sequence + number if head.producer_id else None,
                )
                for number, payload in enumerate(pack.payloads())
            )
        else:
            found += decode_stored(blob[at : body + size])
        at = body + size
    return found


def messages(store: BrokerStore, partition_id: int = 0, *, topic: str = "demo") -> list[StoredMessage]:
    """All messages of a partition, by small fetches."""
    found: list[StoredMessage] = []
    offset, end = store.ends(topic, partition_id)
    while offset < end:
        piece = store.read(topic, partition_id, offset, max_bytes=1000, max_messages=7)
        assert piece.next_offset > offset
        found += [message for message in split(b"".join(piece.parts)) if (message.offset or 0) >= offset]
        offset = piece.next_offset
    return found


def payloads(store: BrokerStore, partition_id: int = 0) -> list[bytes]:
    """The payloads of all messages of a partition."""
    return [message.payload for message in messages(store, partition_id)]
