"""Packs in the log: one record for many messages, among single ones."""

from __future__ import annotations

import random

import pytest

from pytubemq.core.sequences import AppendedSpan
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.format.index import RecordKind, decode_index_entry
from pytubemq.storage.format.record_range import columns_at, record_is_sound
from pytubemq.testing.disk import FaultyDisk
from pytubemq.wire.batch.record_batch import read_stored_batch
from tests.unit.storage.helpers import (
    NOW_MS,
    ROOT,
    SMALL,
    columns,
    commit,
    messages,
    open_store,
    payloads,
    send,
    send_pack,
)

LOG = ROOT / "logs" / "demo" / "0" / f"{0:020d}.log"
INDEX = LOG.with_suffix(".index")
LATER_MS = NOW_MS + 5000


def test_a_pack_takes_the_offsets_and_ids_that_follow() -> None:
    store = open_store(FaultyDisk())
    [single] = send(store, b"one")
    staging = store.staging()
    assert staging.append_batch("demo", 0, columns([b"two", b"three", b"four"])) == 0
    assert staging.append("demo", 0, b"five", 0, -1) == 1
    assert staging.append_batch("demo", 1, columns([b"other"])) == 2
    [([span], _), last, ([other], _)] = commit(store, staging)  # type: ignore[misc]  # packs, and a message between them
    assert span == AppendedSpan(3, 200, OFFSET_UNIT, span.first_message_id)
    assert last.offset == 4 * OFFSET_UNIT  # type: ignore[union-attr]
    assert last.message_id == span.first_message_id + 3  # type: ignore[union-attr]
    assert other.first_offset == 0
    assert other.first_message_id > span.first_message_id + 3
    assert span.first_message_id > single.message_id
    found = messages(store)
    assert [message.payload for message in found] == [b"one", b"two", b"three", b"four", b"five"]
    assert [message.offset for message in found] == [at * OFFSET_UNIT for at in range(5)]
    ids = [message.message_id for message in found]
    assert ids == sorted(set(ids))
    assert payloads(store, 1) == [b"other"]


@pytest.mark.parametrize("codes", [7, [1, 2, 1]])
def test_a_pack_is_one_record_and_its_bytes_are_the_producer_s(codes: int | list[int]) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    sent = columns([b"a" * 10, b"b" * 20, b"c" * 30], codes=codes)
    staging = store.staging()
    staging.append_batch("demo", 0, sent)
    commit(store, staging)
    store.checkpoint()
    assert len(disk.content(INDEX)) == 64 + 48
    entry = decode_index_entry(disk.content(INDEX)[64:], 0)
    assert entry is not None
    mixed = isinstance(codes, list)
    assert (entry.messages, entry.key_code) == (3, -1 if mixed else 7)
    assert entry.kind == (RecordKind.MIXED_PACK if mixed else RecordKind.PACK)
    assert (entry.append_time_ms, entry.size_bytes) == (NOW_MS, len(disk.content(LOG)) - 64)
    record = disk.content(LOG)[64:]
    at = columns_at(memoryview(record))
    assert at is not None
    assert record[at:] == sent.data
    head, again = read_stored_batch(record)
    assert (head.offset, head.append_time_ms, head.producer_id) == (0, NOW_MS, 0)
    assert again.payloads() == [b"a" * 10, b"b" * 20, b"c" * 30]


def test_every_damaged_byte_of_a_pack_is_found() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send_pack(store, b"first", b"second" * 10, codes=[1, 2])
    store.checkpoint()
    entry = decode_index_entry(disk.content(INDEX)[64:], 0)
    assert entry is not None
    record = bytearray(disk.content(LOG)[64:])
    assert record_is_sound(entry, memoryview(record))
    for at in range(len(record)):
        record[at] ^= 1 << at % 8
        assert not record_is_sound(entry, memoryview(record)), at
        record[at] ^= 1 << at % 8


def test_packs_and_single_messages_survive_a_kill_a_power_loss_and_a_clean_stop() -> None:
    rng = random.Random(5)
    for seed in range(6):
        disk = FaultyDisk(seed=seed)
        store = open_store(disk, SMALL)
        wanted: list[bytes] = []
        for number in range(40):
            bodies = [rng.randbytes(rng.randint(1, 90)) for _ in range(rng.randint(1, 6))]
            wanted += bodies
            if rng.random() < 0.6:
                send_pack(store, *bodies, codes=3 if rng.random() < 0.5 else [*range(len(bodies))])
            else:
                send(store, *bodies)
            if rng.random() < 0.2:
                store.apply()
            if number % 13 == 7:
                if seed % 3 == 2:
                    store.close()
                (disk.crash if seed % 3 else disk.kill)()
                store = open_store(disk, SMALL)
                assert payloads(store) == wanted
        store.checkpoint()
        found = messages(store)
        assert [message.payload for message in found] == wanted
        assert [message.offset for message in found] == [at * OFFSET_UNIT for at in range(len(wanted))]


def test_time_never_goes_back_within_a_partition() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    for restart in range(3):
        for now_ms in (LATER_MS, NOW_MS):
            staging = store.staging()
            staging.append("demo", 0, b"single", 0, -1)
            staging.append_batch("demo", 0, columns([b"pack", b"ed"]))
            commit(store, staging, now_ms=now_ms)
        if restart == 1:
            store.close()
        disk.kill()
        store = open_store(disk)
    times = [message.append_time or 0 for message in messages(store)]
    assert times == [LATER_MS] * 18
