"""When a topic's messages count: on the device, with the operating system, or in memory."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from pytubemq.core.sequences import ProducerMark
from pytubemq.errors import DiskFailedError, DiskFullError, StorageError
from pytubemq.model.durability import Durability
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.store.store import BrokerStore
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.unit.storage.helpers import NOW_MS, ROOMY, ROOT, SMALL, columns, commit, messages, payloads, send

MARK = ProducerMark(5, 0, 0)


def open_store(disk: FaultyDisk) -> BrokerStore:
    """A store with a topic of each durability."""
    store = BrokerStore.open(ROOT, disk=disk, settings=ROOMY)
    for durability in Durability:
        store.ensure_partition(durability.value, 0)
        store.set_durability(durability.value, durability)
    return store


def topic_payloads(store: BrokerStore, topic: str) -> list[bytes]:
    return [message.payload for message in messages(store, topic=topic)]


def test_a_topic_that_says_nothing_has_the_store_s_durability() -> None:
    store = BrokerStore.open(ROOT, disk=FaultyDisk(), settings=replace(SMALL, durability=Durability.PROCESS))
    assert store.durability_of("a") is Durability.PROCESS
    store.set_durability("a", Durability.DISK)
    assert store.durability_of("a") is Durability.DISK
    store.set_durability("a", None)
    assert store.durability_of("a") is Durability.PROCESS


@pytest.mark.parametrize(
    ("topics", "flushes"), [(["memory", "process"], 0), (["process", "disk"], 1), (["disk"], 1), ([], 0)]
)
def test_a_block_is_flushed_only_for_what_was_promised_so(topics: list[str], flushes: int) -> None:
    for kind in ("message", "pack", "position"):
        disk = FaultyDisk()
        store = open_store(disk)
        send(store, b"the first makes the file", topic="disk")
        before = disk.calls[Operation.FDATASYNC]
        staging = store.staging()
        for topic in topics:
            if kind == "message":
                staging.append(topic, 0, b"x", 0, -1)
            elif kind == "pack":
                staging.append_batch(topic, 0, columns([b"x", b"y"]))
            else:
                staging.confirm("g", topic, 0, 0)
        commit(store, staging)
        assert disk.calls[Operation.FDATASYNC] - before == flushes


@pytest.mark.parametrize("seed", range(8))
def test_each_level_survives_what_it_promises(seed: int) -> None:
    disk = FaultyDisk(seed=seed)
    store = open_store(disk)
    for number in range(6):
        for durability in (Durability.PROCESS, Durability.MEMORY):
            send(store, b"%d" % number, topic=durability.value)
        if number == 3:
            send(store, b"x", topic="disk")
    disk.kill()
    store = open_store(disk)
    assert [topic_payloads(store, topic) for topic in ("disk", "process")] == [
        [b"x"],
        [b"%d" % number for number in range(6)],
    ]
    send(store, b"6", topic="process")
    disk.crash()
    store = open_store(disk)
    # What a power cut takes is the end of it, and never what lies before something that was flushed.
    found = topic_payloads(store, "process")
    assert found in ([b"%d" % number for number in range(count)] for count in (6, 7))
    assert topic_payloads(store, "disk") == [b"x"]


def test_what_is_promised_from_memory_is_readable_before_it_is_written() -> None:
    store = open_store(FaultyDisk())
    staging = store.staging()
    staging.append("disk", 0, b"d", 0, -1)
    staging.append("memory", 0, b"m", 0, -1)
    staging.append_batch("memory", 0, columns([b"n", b"o"]))
    prepared = store.prepare(staging, NOW_MS)
    assert prepared.early == {1, 2}
    assert topic_payloads(store, "memory") == []
    store.publish_early(prepared)
    store.publish_early(prepared)
    assert topic_payloads(store, "memory") == [b"m", b"n", b"o"]
    assert topic_payloads(store, "disk") == []
    store.write(prepared)
    outcome = store.publish(prepared)
    assert topic_payloads(store, "memory") == [b"m", b"n", b"o"]
    assert topic_payloads(store, "disk") == [b"d"]
    assert outcome[1].offset == 0  # type: ignore[union-attr]
    store.checkpoint()
    assert topic_payloads(store, "memory") == [b"m", b"n", b"o"]


def test_what_was_promised_from_memory_outlives_a_block_that_was_refused() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    disk.fail(Operation.WRITE, errno.ENOSPC, path_contains="journal")
    for attempt in range(3):
        staging = store.staging()
        staging.append("disk", 0, b"refused", 0, -1, producer=MARK)
        staging.append("memory", 0, b"m%d" % attempt, 0, -1, producer=MARK._replace(sequence=attempt))
        prepared = store.prepare(staging, NOW_MS)
        store.publish_early(prepared)
        # The second one is not promised: memory must not fill up while nothing can be written.
        assert prepared.early == (frozenset() if attempt else {1})
        with pytest.raises(DiskFullError):
            store.write(prepared)
        store.abandon(prepared)
        assert topic_payloads(store, "memory") == [b"m0"]
    disk.heal()
    staging = store.staging()
    staging.append("memory", 0, b"m0", 0, -1, producer=MARK)
    staging.append("memory", 0, b"m1", 0, -1, producer=MARK._replace(sequence=1))
    repeated, stored = commit(store, staging)
    assert repeated.repeated  # type: ignore[union-attr]
    assert repeated.offset == 0  # type: ignore[union-attr]
    assert stored.offset == OFFSET_UNIT  # type: ignore[union-attr]
    for _ in range(2):
        assert topic_payloads(store, "memory") == [b"m0", b"m1"]
        assert topic_payloads(store, "disk") == []
        store.apply()
    disk.kill()
    store = open_store(disk)
    assert topic_payloads(store, "memory") == [b"m0", b"m1"]
    assert not send(store, b"now", topic="disk", producer=MARK)[0].repeated


def test_a_stop_writes_what_is_still_owed() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    disk.fail(Operation.WRITE, errno.ENOSPC, path_contains="journal", times=1)
    staging = store.staging()
    staging.append("memory", 0, b"m", 0, -1)
    prepared = store.prepare(staging, NOW_MS)
    store.publish_early(prepared)
    with pytest.raises(DiskFullError):
        store.write(prepared)
    store.abandon(prepared)
    store.close()
    assert topic_payloads(open_store(disk), "memory") == [b"m"]


def test_what_a_topic_is_owed_is_written_before_the_topic_is_dropped() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    disk.fail(Operation.WRITE, errno.ENOSPC, path_contains="journal", times=1)
    staging = store.staging()
    staging.append("memory", 0, b"old", 0, -1, producer=MARK)
    prepared = store.prepare(staging, NOW_MS)
    store.publish_early(prepared)
    with pytest.raises(DiskFullError):
        store.write(prepared)
    store.abandon(prepared)
    with pytest.raises(StorageError, match="on their way"):
        store.drop("memory")
    send(store, b"the next block", topic="disk")
    store.drop("memory")
    store.ensure_partition("memory", 0)
    [item] = send(store, b"new", topic="memory", producer=MARK)
    assert (item.offset, item.repeated) == (0, False)
    store.close()
    assert topic_payloads(open_store(disk), "memory") == [b"new"]


@pytest.mark.parametrize("seed", range(10))
def test_what_memory_promises_may_end_with_a_kill_but_never_changes(seed: int) -> None:
    disk = FaultyDisk(seed=seed)
    store = open_store(disk)
    sent: list[bytes] = []
    for number in range(10):
        staging = store.staging()
        staging.append("memory", 0, b"%d" % number, 0, -1)
        prepared = store.prepare(staging, NOW_MS)
        store.publish_early(prepared)
        sent.append(b"%d" % number)
        if number == 9:
            break  # killed between the answer and the write
        store.write(prepared)
        store.publish(prepared)
    (disk.crash if seed % 2 else disk.kill)()
    store = open_store(disk)
    found = messages(store, topic="memory")
    assert [(message.offset, message.payload) for message in found] == [
        (at * OFFSET_UNIT, payload)
        for at, payload in enumerate(sent)
        if payload in [message.payload for message in found]
    ]
    assert seed % 2 or [message.payload for message in found] == sent[:9]
    # What a power loss took before something that is there is a hole, and told.
    assert store.ends("memory", 0)[1] == (len(found) + store.stats.fenced_messages) * OFFSET_UNIT
    [more] = send(store, b"more", topic="memory")
    assert [message.offset for message in messages(store, topic="memory")] == [
        *(message.offset for message in found), more.offset,
    ]  # fmt: skip


def test_a_disk_that_failed_keeps_what_is_readable() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    disk.fail(Operation.WRITE, errno.EIO, path_contains="journal")
    staging = store.staging()
    staging.append("memory", 0, b"m", 0, -1)
    prepared = store.prepare(staging, NOW_MS)
    store.publish_early(prepared)
    with pytest.raises(DiskFailedError):
        store.write(prepared)
    store.abandon(prepared)
    assert topic_payloads(store, "memory") == [b"m"]
    with pytest.raises(DiskFailedError):
        store.prepare(store.staging(), NOW_MS)


def test_the_default_is_the_device() -> None:
    disk = FaultyDisk(seed=2)
    store = BrokerStore.open(ROOT, disk=disk, settings=ROOMY)
    store.ensure_partition("demo", 0)
    send(store, b"kept")
    disk.crash()
    again = BrokerStore.open(ROOT, disk=disk, settings=ROOMY)
    again.ensure_partition("demo", 0)
    assert payloads(again) == [b"kept"]
