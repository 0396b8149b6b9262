"""What is wrong with the files of one partition is that partition's trouble alone, and ends with its cause."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import CorruptError, OutOfResourcesError, StorageError
from pytubemq.model.durability import Durability
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.unit.storage.helpers import NOW_MS, ROOT, open_store, payloads, send

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.store.store import BrokerStore

FEW_FILES = StoreSettings(reserve_bytes=0, max_open_files=1)


def files_of(disk: FaultyDisk, partition_id: int) -> list[Path]:
    return [path for path in disk.files() if f"/logs/demo/{partition_id}/" in str(path)]


def take_away(disk: FaultyDisk, partition_id: int, suffix: str = "") -> dict[Path, bytes]:
    """Remove files of a partition; what was in them."""
    taken = {path: disk.content(path) for path in files_of(disk, partition_id) if path.name.endswith(suffix)}
    for path in taken:
        disk.unlink(path)
    return taken


def check_refused(store: BrokerStore, partition_id: int, word: str) -> None:
    problem = store.partition_problem("demo", partition_id)
    assert problem is not None
    assert word in problem
    assert f"demo/{partition_id}" in problem
    with pytest.raises(CorruptError) as raised:
        send(store, b"refused", partition_id=partition_id)
    assert raised.value.code == 500
    assert problem in raised.value.message


@pytest.mark.parametrize("suffix", [".log", ""])
@pytest.mark.parametrize("then", ["apply", "checkpoint"])
@pytest.mark.parametrize("restart", [False, True])
def test_files_taken_away_while_running_stop_no_other_partition(suffix: str, then: str, restart: bool) -> None:
    disk = FaultyDisk()
    store = open_store(disk, FEW_FILES, partitions=3)
    for partition_id in range(3):
        send(store, b"a", partition_id=partition_id)
    store.checkpoint()
    payloads(store, 2)
    taken = take_away(disk, 0, suffix)
    for partition_id in range(3):
        send(store, b"b", partition_id=partition_id)
    getattr(store, then)()
    check_refused(store, 0, "is missing")
    for partition_id in (1, 2):
        send(store, b"c", partition_id=partition_id)
    store.checkpoint()
    assert [payloads(store, partition_id) for partition_id in (1, 2)] == [[b"a", b"b", b"c"]] * 2
    assert [store.partition_problem("demo", partition_id) for partition_id in (1, 2)] == [None, None]
    if restart:
        disk.kill()
        store = open_store(disk, FEW_FILES, partitions=3)
        check_refused(store, 0, "is missing")
    for path, content in taken.items():
        disk.put(path, content)
    store.apply()
    assert store.partition_problem("demo", 0) is None, "it heals by itself"
    send(store, b"d")
    store.checkpoint()
    assert payloads(store) == [b"a", b"b", b"d"]
    disk.kill()
    assert payloads(open_store(disk, FEW_FILES)) == [b"a", b"b", b"d"]


@pytest.mark.parametrize("restart", [False, True])
def test_an_index_taken_away_while_running_is_done_without(restart: bool) -> None:
    disk = FaultyDisk()
    store = open_store(disk, FEW_FILES)
    send(store, b"a")
    store.checkpoint()
    payloads(store, 1)
    send(store, b"other", partition_id=1)
    store.checkpoint()
    take_away(disk, 0, ".index")
    send(store, b"b")
    store.apply()
    store.apply()
    if restart:
        disk.kill()
        store = open_store(disk, FEW_FILES)
    assert payloads(store) == [b"a", b"b"]
    problem = store.partition_problem("demo", 0)
    assert problem is not None
    assert ".index is " in problem
    assert "pytubemq store repair" in problem
    send(store, b"c")
    store.checkpoint()
    disk.kill()
    assert payloads(open_store(disk, FEW_FILES)) == [b"a", b"b", b"c"]


def test_a_file_that_is_gone_before_it_was_flushed_is_flushed_once_it_is_back() -> None:
    disk = FaultyDisk()
    store = open_store(disk, FEW_FILES)
    send(store, b"a")
    store.apply()
    send(store, b"other", partition_id=1)
    store.apply()
    payloads(store, 1)
    taken = take_away(disk, 0, ".log")
    store.checkpoint()
    check_refused(store, 0, ".log is missing")
    for path, content in taken.items():
        disk.put(path, content)
    flushes = disk.calls[Operation.FDATASYNC]
    send(store, b"more", partition_id=1)
    store.checkpoint()
    assert disk.calls[Operation.FDATASYNC] - flushes >= 6, "the journal, four files of logs, the checkpoint"
    assert payloads(store) == [b"a"]


@pytest.mark.parametrize("kind", ["memory", "kill"])
def test_a_partition_of_which_no_file_can_be_opened_is_held_and_loses_nothing(kind: str) -> None:
    disk = FaultyDisk()
    store = open_store(disk, FEW_FILES, partitions=3)
    for partition_id in range(3):
        send(store, b"a", partition_id=partition_id)
    store.checkpoint()
    payloads(store, 2)
    disk.fail(Operation.OPEN, errno.EIO, path_contains="demo/0/")
    for partition_id in range(3):
        send(store, b"b", partition_id=partition_id)
    store.checkpoint()
    check_refused(store, 0, "Input/output error")
    held = store.unapplied_bytes
    assert 0 < held < 4096
    for number in range(20):
        send(store, b"%d" % number, partition_id=1)
        store.checkpoint()
    assert store.unapplied_bytes == held
    assert store.partition_problem("demo", 1) is None
    if kind == "kill":
        disk.kill()
        store = open_store(disk, FEW_FILES, partitions=3)
        check_refused(store, 0, "Input/output error")
        store.apply()
    disk.heal()
    store.apply()
    assert store.unapplied_bytes == 0
    assert store.partition_problem("demo", 0) is None
    send(store, b"c")
    store.checkpoint()
    disk.kill()
    again = open_store(disk, FEW_FILES)
    assert again.stats.replayed_messages == 0
    assert payloads(again) == [b"a", b"b", b"c"]
    assert payloads(again, 1) == [b"a", b"b", *(b"%d" % number for number in range(20))]


def test_a_topic_is_dropped_with_what_is_held_of_it_and_stays_gone() -> None:
    disk = FaultyDisk()
    store = open_store(disk, FEW_FILES)
    store.ensure_partition("other", 0)
    send(store, b"kept", topic="other")
    store.apply()
    disk.fail(Operation.OPEN, errno.EIO, path_contains="demo/0/")
    send(store, b"held")
    store.apply()
    assert store.unapplied_bytes > 0
    with pytest.raises(StorageError, match="while the journal is kept for others"):
        store.drop("other")
    store.drop("demo")
    assert store.unapplied_bytes == 0
    disk.kill()
    disk.heal()
    again = open_store(disk, FEW_FILES, partitions=0)
    assert again.partitions() == [("other", 0)]
    again.drop("other")


@pytest.mark.parametrize("operation", [Operation.READ, Operation.OPEN])
def test_files_that_cannot_be_read_at_a_start_are_trouble_of_their_partition_alone(operation: Operation) -> None:
    disk = FaultyDisk()
    store = open_store(disk, partitions=3)
    for partition_id in range(3):
        send(store, b"a", partition_id=partition_id)
    store.close()
    disk.fail(operation, errno.EIO, path_contains="demo/1/")
    store = open_store(disk, partitions=3)
    check_refused(store, 1, "cannot be read: Input/output error")
    for partition_id in (0, 2):
        send(store, b"b", partition_id=partition_id)
        assert payloads(store, partition_id) == [b"a", b"b"]
    store.checkpoint()
    check_refused(store, 1, "cannot be read")
    disk.heal()
    store.apply()
    send(store, b"b", partition_id=1)
    assert payloads(store, 1) == [b"a", b"b"]


def test_want_of_handles_at_a_start_is_no_partition_s_trouble() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"a")
    store.close()
    disk.fail(Operation.OPEN, errno.EMFILE, path_contains="demo/0/", times=1)
    with pytest.raises(StorageError, match="Too many open files"):
        open_store(disk)
    assert payloads(open_store(disk)) == [b"a"]


def test_what_is_no_partition_s_does_not_keep_a_store_from_being_opened() -> None:
    disk = FaultyDisk()
    store = open_store(disk, partitions=1)
    send(store, b"a")
    store.close()
    disk.put(ROOT / "logs" / "notes.txt", b"of somebody")
    disk.put(ROOT / "logs" / "demo" / "7", b"of somebody")
    store = open_store(disk, partitions=8)
    assert payloads(store) == [b"a"]
    send(store, b"in the way", partition_id=7)
    send(store, b"b")
    store.checkpoint()
    check_refused(store, 7, "demo/7 cannot be opened: File exists")
    assert payloads(store) == [b"a", b"b"]
    assert payloads(store, 7) == [b"in the way"]
    disk.unlink(ROOT / "logs" / "demo" / "7")
    store.apply()
    send(store, b"gone", partition_id=7)
    store.checkpoint()
    assert payloads(store, 7) == [b"in the way", b"gone"]
    disk.kill()
    assert payloads(open_store(disk), 7) == [b"in the way", b"gone"]


def test_want_of_handles_while_applying_is_no_partition_s_trouble() -> None:
    disk = FaultyDisk()
    store = open_store(disk, FEW_FILES)
    send(store, b"a")
    disk.fail(Operation.OPEN, errno.EMFILE, path_contains="demo/0/", times=1)
    with pytest.raises(OutOfResourcesError):
        store.apply()
    assert store.partition_problem("demo", 0) is None
    store.apply()
    assert payloads(store) == [b"a"]


def test_a_topic_of_which_something_is_owed_or_under_way_is_not_dropped() -> None:
    disk = FaultyDisk()
    store = open_store(disk, partitions=1)
    store.set_durability("mem", Durability.MEMORY)
    store.ensure_partition("mem", 0)
    staging = store.staging()
    staging.append("mem", 0, b"promised", 0, -1)
    staging.append("demo", 0, b"x", 0, -1)
    owed = store.prepare(staging, NOW_MS)
    store.publish_early(owed)
    for _ in range(2):
        with pytest.raises(StorageError, match="on their way"):
            store.drop("mem")
        store.abandon(owed)
    staging = store.staging()
    staging.append("demo", 0, b"y", 0, -1)
    following = store.prepare(staging, NOW_MS)
    with pytest.raises(StorageError, match="on their way"):
        store.drop("mem")
    store.write(following)
    store.publish(following)
    store.drop("mem")
    assert store.partitions() == [("demo", 0)]
    disk.kill()
    again = open_store(disk, partitions=1)
    assert again.partitions() == [("demo", 0)]
    assert payloads(again) == [b"y"]
