"""Accepting, reading and applying; a full disk and a failing one."""

from __future__ import annotations

import errno
import random
from contextlib import suppress
from dataclasses import replace
from threading import Event, Thread, get_ident
from typing import TYPE_CHECKING, Any, cast
from zlib import crc32

import pytest

from pytubemq.core.sequences import ProducerMark
from pytubemq.errors import (
    ClosedError,
    DirectoryLockedError,
    DiskFailedError,
    DiskFullError,
    MessageError,
    NotFoundError,
    OffsetMovedError,
    OutOfResourcesError,
    ServerOverflowError,
    StorageError,
)
from pytubemq.model.durability import Durability
from pytubemq.model.limits import MAX_SCAN_ENTRIES
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.format.checkpoint import read_checkpoint, write_checkpoint
from pytubemq.storage.format.header import FileKind, decode_header
from pytubemq.storage.format.record import FORGOTTEN
from pytubemq.storage.journal import checkpoints
from pytubemq.storage.journal.journal import Journal
from pytubemq.storage.journal.staging import Appended
from pytubemq.storage.store import applier
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk, Operation
from pytubemq.wire.batch.stored import decode_stored
from tests.unit.storage.helpers import NOW_MS, ROOMY, ROOT, SMALL, commit_singles, messages, open_store, payloads, send

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytubemq.storage.journal.staging import Prepared
    from pytubemq.testing.disk import FaultyFile


def test_an_appended_message_tells_where_and_when() -> None:
    store = open_store(FaultyDisk())
    staging = store.staging()
    assert staging.append("demo", 1, b"first", 1, 7, producer=ProducerMark(9, 2, 41)) == 0
    assert staging.append("demo", 0, b"second", 0, -1, check_sum=123) == 1
    assert staging.append("demo", 1, b"third", 0, -1) == 2
    assert (staging.count, staging.size_bytes) == (3, 16)
    prepared = store.prepare(staging, NOW_MS)
    assert store.ends("demo", 1) == (0, 0)
    store.write(prepared)
    assert store.ends("demo", 1) == (0, 0)  # nothing is readable before it is published
    appended = cast("list[Appended]", store.publish(prepared))
    assert [(item.offset, item.append_time_ms) for item in appended] == [(0, NOW_MS), (0, NOW_MS), (28, NOW_MS)]
    first, third = messages(store, 1)
    assert first == (
        appended[0].message_id, crc32(b"first") & 0x7FFFFFFF, b"first", 1, 0, NOW_MS, 9, 2, 41,
    )  # fmt: skip
    assert (third.offset, third.append_time, third.message_id) == (28, NOW_MS, appended[2].message_id)
    assert messages(store, 0)[0].check_sum == 123


def test_the_bytes_of_the_journal_are_counted_as_the_file_grows_also_by_a_position_alone() -> None:
    store = open_store(FaultyDisk())
    before = store._writer._journal.end
    for _ in range(2):
        staging = store.staging()
        staging.confirm("g", "demo", 0, 0)
        prepared = store.prepare(staging, NOW_MS)
        store.write(prepared)
        store.publish(prepared)
    assert store.stats.journal_bytes == store._writer._journal.end - before > 0


def test_unknown_partitions_and_bad_names_are_refused() -> None:
    store = open_store(FaultyDisk())
    with pytest.raises(NotFoundError, match="no partition 7 of topic 'demo'"):
        store.staging().append("demo", 7, b"x", 0, -1)
    with pytest.raises(NotFoundError):
        store.ends("other", 0)
    with pytest.raises(NotFoundError):
        store.in_memory("other", 0, 0)
    with pytest.raises(NotFoundError):
        store.read("other", 0, 0, max_bytes=1, max_messages=1)
    for topic in ("", "..", "a/b", "../../etc", "x\0"):
        with pytest.raises(MessageError):
            store.ensure_partition(topic, 0)
    with pytest.raises(MessageError):
        store.ensure_partition("demo", -1)


def test_a_staging_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.storage.journal.staging.MAX_STAGED_BYTES", 10)
    monkeypatch.setattr("pytubemq.storage.journal.staging.MAX_MESSAGE_BYTES", 5)
    staging = open_store(FaultyDisk()).staging()
    staging.append("demo", 0, b"x" * 16, 0, -1)
    with pytest.raises(ServerOverflowError):
        staging.append("demo", 0, b"x", 0, -1)


def staged(store: BrokerStore, payload: bytes) -> Prepared:
    staging = store.staging()
    staging.append("demo", 0, payload, 0, -1)
    return store.prepare(staging, NOW_MS)


def test_two_batches_are_written_and_published_in_the_order_prepared() -> None:
    store = open_store(FaultyDisk())
    first, second = staged(store, b"a"), staged(store, b"b")
    with pytest.raises(RuntimeError, match="of the two batches"):
        store.prepare(store.staging(), NOW_MS)
    with pytest.raises(StorageError, match="before this one was not written"):
        store.write(second)
    store.write(first)
    store.write(second)
    with pytest.raises(RuntimeError, match="only the batch under way"):
        store.publish(second)
    assert [item.offset for item in store.publish(first) if isinstance(item, Appended)] == [0]
    assert payloads(store) == [b"a"]
    assert [item.offset for item in store.publish(second) if isinstance(item, Appended)] == [28]
    assert payloads(store) == [b"a", b"b"]


def test_an_abandoned_batch_takes_the_one_behind_it_along_and_leaves_no_gap() -> None:
    store = open_store(FaultyDisk())
    first, second = staged(store, b"never"), staged(store, b"nor this")
    with pytest.raises(RuntimeError, match="only once it is written"):
        store.publish(first)
    store.abandon(second)
    second = staged(store, b"nor that")
    store.abandon(first)
    with pytest.raises(StorageError, match="before this one was not written"):
        store.write(second)
    assert [item.offset for item in send(store, b"kept")] == [0]
    assert payloads(store) == [b"kept"]


def test_a_read_is_the_same_from_memory_and_from_disk_for_any_limits() -> None:
    rng = random.Random(7)
    in_memory, on_disk = open_store(FaultyDisk()), open_store(FaultyDisk(), SMALL)
    entries: list[tuple[int, bytes]] = []
    for _ in range(30):
        batch = [(rng.randrange(3), rng.randbytes(rng.randint(1, 300))) for _ in range(rng.randint(1, 4))]
        for store in (in_memory, on_disk):
            staging = store.staging()
            for code, payload in batch:
                staging.append("demo", 0, payload, 0, code)
            prepared = store.prepare(staging, NOW_MS)
            store.write(prepared)
            store.publish(prepared)
        entries += batch
    on_disk.checkpoint()
    assert in_memory.in_memory("demo", 0, 0)
    assert not on_disk.in_memory("demo", 0, 0)
    sizes = [message.payload for message in messages(in_memory)]
    assert sizes == [payload for _, payload in entries]
    for _ in range(300):
        start, stop = sorted(rng.sample(range(len(entries) + 3), 2))
        codes = rng.choice([None, frozenset({1}), frozenset({0, 2}), frozenset({9})])
        max_bytes, max_messages = rng.choice([1, 500, 5000]), rng.choice([1, 3, 1000])
        for store in (in_memory, on_disk):
            got = store.read(
                "demo", 0, start * OFFSET_UNIT + 5, end_offset=stop * OFFSET_UNIT,
                max_bytes=max_bytes, max_messages=max_messages, codes=codes,
            )  # fmt: skip
            found = decode_stored(b"".join(got.parts))
            seen = range(start, got.next_offset // OFFSET_UNIT)
            wanted = [at for at in seen if at < len(entries) and (codes is None or entries[at][0] in codes)]
            assert [message.offset for message in found] == [at * OFFSET_UNIT for at in wanted]
            assert [message.payload for message in found] == [entries[at][1] for at in wanted]
            assert (got.start_offset, got.count) == (start * OFFSET_UNIT, len(found))
            assert got.payload_bytes == sum(map(len, got.parts))
            assert got.next_offset <= max(start, min(stop, len(entries))) * OFFSET_UNIT
            assert len(found) <= max_messages
            if found:
                assert sum(len(message.payload) for message in found[:-1]) < max_bytes


def test_a_read_says_how_much_is_left() -> None:
    store = open_store(FaultyDisk())
    send(store, *[b"x" * 100] * 10)
    for _ in range(2):
        whole = store.read("demo", 0, 0, max_bytes=1 << 20, max_messages=100)
        part = store.read("demo", 0, 0, max_bytes=1 << 20, max_messages=4)
        assert (whole.remaining_bytes, part.remaining_bytes) == (0, whole.payload_bytes - part.payload_bytes)
        store.apply()
    beyond = store.read("demo", 0, 9999, max_bytes=1, max_messages=1)
    assert (beyond.parts, beyond.count, beyond.next_offset) == ([], 0, beyond.start_offset)


def test_a_filtered_read_looks_at_a_bounded_number_of_entries() -> None:
    store = open_store(FaultyDisk())
    total = MAX_SCAN_ENTRIES + 10
    send(store, *[b"x"] * total, code=1)
    for _ in range(2):
        got = store.read("demo", 0, 0, max_bytes=1 << 20, max_messages=10, codes=frozenset({2}))
        assert (got.count, got.next_offset) == (0, MAX_SCAN_ENTRIES * OFFSET_UNIT)
        store.apply()


def test_an_offset_below_what_is_kept_is_told() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    for number in range(10):
        send(store, b"%d" % number * 500)
    store.close()
    kept = read_checkpoint(disk, ROOT)
    assert kept is not None
    second = sorted(path for path in disk.files() if path.suffix == ".log")[1]
    base = decode_header(disk.content(second), FileKind.LOG, second)
    assert base is not None
    ends = {key: end._replace(first_ordinal=base.number, first_position=base.base) for key, end in kept.ends.items()}
    write_checkpoint(disk, ROOT, replace(kept, ends=ends))
    store = open_store(disk, SMALL)
    first, end = store.ends("demo", 0)
    assert 0 < first < end == 280
    with pytest.raises(OffsetMovedError, match="offset 0 of demo:0 is no longer kept") as raised:
        store.read("demo", 0, 0, max_bytes=1, max_messages=1)
    assert (raised.value.code, raised.value.hint) == (301, f"the first one kept is {first}")
    assert store.read("demo", 0, first, max_bytes=1, max_messages=1).count == 1


def test_a_damaged_index_entry_is_read_from_the_log_instead() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"a" * 50, b"b" * 50)
    store.checkpoint()
    disk.flip_bit(ROOT / "logs" / "demo" / "0" / f"{0:020d}.index", 64 + 48 + 3)
    assert payloads(store) == [b"a" * 50, b"b" * 50]
    assert (store.stats.repaired_entries, store.lost_ranges()) == (1, [])


def test_a_full_disk_refuses_and_returns_by_itself() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"before", confirm=28)
    disk.capacity_bytes = sum(len(disk.content(path)) for path in disk.files()) + 500
    for _ in range(3):
        with pytest.raises(DiskFullError, match="no space left") as raised:
            send(store, b"x" * 1000, confirm=0)
        assert raised.value.retriable
    assert store.stats.full_refusals == 3
    assert payloads(store) == [b"before"]
    disk.capacity_bytes = None
    assert send(store, b"after")[0].offset == 28
    disk.crash()
    again = open_store(disk)
    assert payloads(again) == [b"before", b"after"]
    assert again.confirmed("g", "demo", 0) == 28


def test_space_that_runs_out_in_the_middle_of_a_write_leaves_nothing_behind() -> None:
    disk = FaultyDisk(short_writes=True)
    store = open_store(disk)
    send(store, b"before")
    for after_bytes in (0, 1, 40, 100, 600):
        disk.fail(Operation.WRITE, errno.ENOSPC, after_bytes=after_bytes, path_contains="journal")
        with pytest.raises(DiskFullError):
            send(store, b"x" * 1000)
        disk.heal()
    disk.kill()
    again = open_store(disk)
    assert payloads(again) == [b"before"]
    assert again.stats.cut_bytes == 0


def test_the_reserve_is_kept_free() -> None:
    disk = FaultyDisk(capacity_bytes=100_000)
    store = open_store(disk, StoreSettings(reserve_bytes=90_000, journal_padding_bytes=0))
    accepted = 0
    while disk.free_bytes(ROOT) > 93_000:
        accepted += len(send(store, b"x" * 500))
    with pytest.raises(DiskFullError):
        send(store, b"x" * 5000)
    assert accepted > 0
    assert disk.free_bytes(ROOT) >= 90_000
    store.checkpoint()  # what was accepted still fits
    assert store.unapplied_bytes == 0


def test_the_next_journal_file_that_cannot_be_made_is_tried_again() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    send(store, b"a" * 1000)
    disk.fail(Operation.FSYNC_DIR, errno.ENOSPC, path_contains="journal", times=1)
    with pytest.raises(DiskFullError):
        send(store, b"x" * 1000)
    send(store, b"b")
    send(store, b"c" * 1000)
    disk.crash()
    assert payloads(open_store(disk, SMALL)) == [b"a" * 1000, b"b", b"c" * 1000]


@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.FDATASYNC])
def test_a_failing_disk_stops_writing_for_good_and_reading_goes_on(operation: Operation) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"before")
    disk.fail(operation, errno.EIO, path_contains="journal")
    with pytest.raises(DiskFailedError, match="the disk failed under"):
        send(store, b"x")
    disk.heal()
    with pytest.raises(DiskFailedError):
        send(store, b"x")
    with pytest.raises(DiskFailedError):
        store.apply()
    assert payloads(store) == [b"before"]
    store.close()
    assert payloads(open_store(disk)) == [b"before"]


def test_no_space_while_applying_loses_nothing() -> None:
    disk = FaultyDisk()
    store = open_store(disk, partitions=3)
    for number in range(3):
        for partition_id in range(3):
            send(store, b"%d" % number * 200, partition_id=partition_id)
    wanted = [b"%d" % number * 200 for number in range(3)]
    for after_bytes in (0, 100, 700, 900, 1500):
        disk.fail(Operation.WRITE, errno.ENOSPC, after_bytes=after_bytes, path_contains="logs")
        with pytest.raises(DiskFullError):
            store.apply()
        disk.heal()
        assert [payloads(store, partition_id) for partition_id in range(3)] == [wanted] * 3
    send(store, b"later")
    assert store.apply() > 0
    assert store.unapplied_bytes == 0
    assert [payloads(store, partition_id) for partition_id in range(3)] == [[*wanted, b"later"], wanted, wanted]


def test_what_was_applied_before_space_ran_out_is_not_applied_twice() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    for payload in (b"first", b"second"):
        _send_to_each(store, payload)
    begun_bytes = store.unapplied_bytes
    disk.fail(Operation.WRITE, errno.ENOSPC, path_contains="demo/1")
    with pytest.raises(DiskFullError):
        store.apply()
    assert store.unapplied_bytes == begun_bytes / 2, "what is written has left memory"
    disk.heal()
    disk.fail(Operation.WRITE, errno.ENOSPC, path_contains="demo/0")
    store.apply()
    assert store.unapplied_bytes == 0
    assert [payloads(store, partition_id) for partition_id in range(2)] == [[b"first", b"second"]] * 2


def _send_to_each(store: BrokerStore, payload: bytes) -> None:
    staging = store.staging()
    for partition_id in range(2):
        staging.append("demo", partition_id, payload, 0, -1)
    prepared = store.prepare(staging, NOW_MS)
    store.write(prepared)
    store.publish(prepared)


def test_space_that_runs_out_while_more_comes_in_is_no_loss() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    _send_to_each(store, b"first")
    disk.fail(Operation.WRITE, errno.ENOSPC, path_contains="demo")
    with pytest.raises(DiskFullError):
        store.apply()
    _send_to_each(store, b"second")
    with pytest.raises(DiskFullError):
        store.apply()
    disk.heal()
    store.checkpoint()
    assert (store.unapplied_bytes, store.worth_applying) == (0, False)
    disk.crash()
    again = open_store(disk)
    assert again.stats.replayed_messages == 0
    assert [payloads(again, partition_id) for partition_id in range(2)] == [[b"first", b"second"]] * 2


class SendsMeanwhile(FaultyDisk):
    """Sends something when a partition's file is made."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[], object]] = []
        self.made: list[str] = []

    def open(self, path: Path | str, *, create: bool = False) -> FaultyFile:
        if create and str(path).endswith(".log"):
            self.made.append(str(path).split("/")[-2])
            if self.waiting:
                self.waiting.pop()()
        return super().open(path, create=create)


def test_a_partition_that_gets_much_does_not_wait_for_a_round_over_many_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applier, "_MEANWHILE_BYTES", 300)
    monkeypatch.setattr(applier, "_LARGE_BYTES", 200)
    disk = SendsMeanwhile()
    store = open_store(disk, partitions=12)
    for partition_id in range(10):
        send(store, b"one", partition_id=partition_id)

    def much() -> None:
        for _ in range(3):
            send(store, b"x" * 100, partition_id=11)
            send(store, b"x" * 100, partition_id=9)
        send(store, b"little", partition_id=10)

    disk.waiting = [much]
    store.apply()
    assert disk.made[1:3] == ["11", "9"], "large ones come next, and what the round had of them goes with it"
    assert disk.made[3:] == [str(number) for number in range(1, 9)]
    assert store.unapplied_bytes > 0, "what is little waits for the next round"
    store.checkpoint()
    assert store.unapplied_bytes == 0
    disk.kill()
    again = open_store(disk, partitions=12)
    assert payloads(again, 9) == [b"one", *[b"x" * 100] * 3]
    assert payloads(again, 10) == [b"little"]


def test_a_cut_that_fails_for_want_of_space_is_done_before_the_next_block() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"before")
    disk.fail(Operation.WRITE, errno.ENOSPC, after_bytes=700, path_contains="journal")
    disk.fail(Operation.TRUNCATE, errno.ENOSPC, path_contains="journal", times=1)
    with pytest.raises(DiskFullError):
        send(store, b"x" * 1000)
    disk.heal()
    send(store, b"short")
    disk.kill()
    again = open_store(disk)
    assert payloads(again) == [b"before", b"short"]
    assert again.stats.cut_bytes == 0


def test_a_log_that_fails_while_applying_stops_the_store() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"a")
    disk.fail(Operation.WRITE, errno.EIO, path_contains="logs")
    with pytest.raises(DiskFailedError):
        store.apply()
    with pytest.raises(DiskFailedError):
        send(store, b"b")
    assert payloads(store) == [b"a"]


def test_a_checkpoint_that_fails_leaves_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"a")
    store.checkpoint()
    send(store, b"b")
    disk.fail(Operation.WRITE, errno.ENOSPC, path_contains="checkpoint")
    with pytest.raises(DiskFullError):
        store.checkpoint()
    store.close()  # says so in the log, and gives up the directory
    disk.heal()
    assert payloads(open_store(disk)) == [b"a", b"b"]


@pytest.mark.slow
def test_thousands_of_partitions_need_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Handles are what counts here, on real files; nine thousand flushes would take most of the test's time.
    monkeypatch.setattr("pytubemq.storage.disk.disk._fdatasync", lambda fd: None)
    monkeypatch.setattr("pytubemq.storage.disk.disk.OsDisk.fsync_dir", lambda self, path: None)
    store = BrokerStore.open(tmp_path, settings=StoreSettings(max_open_files=64, reserve_bytes=0))
    partitions = [(f"t{number // 100}", number % 100) for number in range(3000)]
    staging = store.staging()
    for topic, partition_id in partitions:
        store.ensure_partition(topic, partition_id)
        staging.append(topic, partition_id, f"{topic}/{partition_id}".encode(), 0, -1)
    prepared = store.prepare(staging, NOW_MS)
    store.write(prepared)
    store.publish(prepared)
    store.apply()
    assert store.open_files <= 64
    for topic, partition_id in partitions[::37]:
        assert [found.payload for found in messages(store, partition_id, topic=topic)] == [
            f"{topic}/{partition_id}".encode()
        ]
    assert store.open_files <= 64
    store.close()
    again = BrokerStore.open(tmp_path, settings=ROOMY)
    assert all(again.ends(*partition) == (0, 28) for partition in partitions)
    again.close()


@pytest.mark.slow
def test_reading_goes_on_while_another_thread_applies(tmp_path: Path) -> None:
    settings = StoreSettings(segment_bytes=20_000, journal_segment_bytes=20_000, reserve_bytes=0, max_open_files=2)
    store = BrokerStore.open(tmp_path, settings=settings)
    store.ensure_partition("demo", 0)
    done, failures = Event(), list[BaseException]()

    def apply() -> None:
        try:
            while not done.is_set():
                store.apply()
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=apply)
    thread.start()
    try:
        for number in range(300):
            send(store, b"%06d" % number * 30)
            start = max(0, number - 9) * OFFSET_UNIT
            found: list[bytes] = []
            while start < (number + 1) * OFFSET_UNIT:
                piece = store.read("demo", 0, start, max_bytes=1 << 20, max_messages=100)
                found += [message.payload[:6] for message in decode_stored(b"".join(piece.parts))]
                start = piece.next_offset
            assert found == [b"%06d" % at for at in range(max(0, number - 9), number + 1)]
    finally:
        done.set()
        thread.join()
    assert not failures
    store.close()


def test_a_closed_store_says_so() -> None:
    store = open_store(FaultyDisk())
    store.close()
    for call in (store.apply, store.checkpoint, lambda: store.prepare(store.staging(), NOW_MS)):
        with pytest.raises(ClosedError):
            call()


SCARCE = [errno.EMFILE, errno.ENFILE, errno.ENOMEM]


@pytest.mark.parametrize("error", SCARCE, ids=errno.errorcode.get)
def test_a_journal_file_that_cannot_be_opened_for_now_is_opened_later(error: int) -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    sent: list[bytes] = []
    for round_ in range(4):
        disk.fail(Operation.OPEN, error, path_contains="journal")
        refused = 0
        for number in range(12):  # more than one journal file takes
            payload = b"%d-%d" % (round_, number) * 30
            try:
                send(store, payload)
            except OutOfResourcesError:
                refused += 1
            else:
                sent.append(payload)
        assert refused
        with pytest.raises(OutOfResourcesError, match="cannot be opened") as raised:
            send(store, b"x")
        assert raised.value.retriable
        disk.heal()
        send(store, b"again")
        sent.append(b"again")
    assert payloads(store) == sent
    disk.crash()
    assert payloads(open_store(disk, SMALL)) == sent


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_a_directory_that_cannot_be_opened_for_its_flush_is_flushed_later(error: int) -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    send(store, b"f" * 1500)  # the next one goes into another file
    disk.fail(Operation.FSYNC_DIR, error, path_contains="journal", times=2)
    for _ in range(2):
        with pytest.raises(OutOfResourcesError):
            send(store, b"x")
    send(store, b"a")
    disk.crash()
    assert payloads(open_store(disk, SMALL)) == [b"f" * 1500, b"a"]


@pytest.mark.parametrize("error", SCARCE, ids=errno.errorcode.get)
@pytest.mark.parametrize("after_calls", range(5))
def test_log_files_that_cannot_be_opened_for_now_are_opened_later(error: int, after_calls: int) -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    for partition_id in range(2):
        send(store, b"a" * 100, partition_id=partition_id)
    disk.fail(Operation.OPEN, error, after_calls=after_calls, path_contains="/data")
    with pytest.raises(OutOfResourcesError):
        store.checkpoint()
    disk.heal()
    send(store, b"b")
    store.checkpoint()
    assert [payloads(store, partition_id) for partition_id in range(2)] == [[b"a" * 100, b"b"], [b"a" * 100]]
    disk.crash()
    again = open_store(disk, SMALL)
    assert [payloads(again, partition_id) for partition_id in range(2)] == [[b"a" * 100, b"b"], [b"a" * 100]]


def test_a_read_that_cannot_open_its_file_says_so_and_works_later() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"a")
    store.close()
    store = open_store(disk)
    disk.fail(Operation.OPEN, errno.EMFILE)
    with pytest.raises(OutOfResourcesError):
        payloads(store)
    disk.heal()
    assert payloads(store) == [b"a"]


def test_any_other_fault_at_opening_is_the_disk_s() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    send(store, b"f" * 1500)  # the next one goes into another file
    disk.fail(Operation.OPEN, errno.EIO, path_contains="journal", times=1)
    with pytest.raises(DiskFailedError):
        send(store, b"x")
    with pytest.raises(DiskFailedError):
        send(store, b"x")


@pytest.mark.parametrize("year_ms", [1 << 41, (1 << 41) - 1, 4_102_444_800_000, 1 << 63])
def test_message_ids_keep_their_range_and_rise_whatever_the_clock_says(year_ms: int) -> None:
    """Milliseconds in the upper bits of an id of 63 bits last until September 2039."""
    disk = FaultyDisk()
    store = open_store(disk)
    ids: list[int] = []
    for now_ms in (NOW_MS, year_ms, year_ms, NOW_MS, year_ms + 1000):
        staging = store.staging()
        for _ in range(3):
            staging.append("demo", 0, b"x", 0, -1)
        appended = commit_singles(store, staging, now_ms=min(now_ms, (1 << 63) - 1))
        ids += [one.message_id for one in appended]
        store.close()
        store = open_store(disk)
    assert ids == sorted(set(ids))
    assert ids[-1] < (1 << 63) - (1 << 57), "with room for all that are still to come"
    assert [message.message_id for message in messages(store)] == ids


def test_a_forgotten_position_stays_forgotten_over_replay_and_checkpoint() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"one", confirm=OFFSET_UNIT)
    send(store, partition_id=1, confirm=0)
    send(store, confirm=FORGOTTEN)
    assert store.confirmed("g", "demo", 0) is None
    assert store.positions() == {("g", "demo", 1): 0}
    assert store.position_count == 1
    disk.crash()
    replayed = open_store(disk)
    assert replayed.positions() == {("g", "demo", 1): 0}
    replayed.close()
    kept = open_store(disk)
    assert kept.positions() == {("g", "demo", 1): 0}


def test_positions_of_messages_are_the_same_in_memory_and_on_disk() -> None:
    store = open_store(FaultyDisk(), SMALL)
    for size in (10, 700, 3, 900, 50, 1200, 1):
        send(store, bytes(size))
    assert store.extent("demo", 1) == (0, 0, 0, 0)
    offsets = range(0, 8 * OFFSET_UNIT, OFFSET_UNIT)
    in_memory = [store.position_of("demo", 0, offset) for offset in offsets]
    assert in_memory == sorted(set(in_memory))
    assert store.extent("demo", 0) == (0, 7 * OFFSET_UNIT, 0, in_memory[-1])
    store.checkpoint()
    assert [store.position_of("demo", 0, offset) for offset in offsets] == in_memory
    assert store.position_of("demo", 0, 1 << 40) == in_memory[-1]


def _topics(disk: FaultyDisk) -> set[str]:
    return {path.parts[4] for path in disk.files() if path.parts[3] == "logs"}


@pytest.mark.parametrize("where", ["memory", "logs", "checkpoint"])
@pytest.mark.parametrize("durability", list(Durability))
def test_a_dropped_topic_is_gone_and_stays_gone(where: str, durability: Durability) -> None:
    disk = FaultyDisk()
    settings = replace(SMALL, durability=durability)
    store = open_store(disk, settings)
    store.ensure_partition("other", 0)
    for number in range(8):
        send(store, b"%d" % number * 300, confirm=number * OFFSET_UNIT)
    staging = store.staging()
    staging.append("other", 0, b"kept", 0, -1)
    staging.confirm("g", "other", 0, 28)
    prepared = store.prepare(staging, NOW_MS)
    store.write(prepared)
    store.publish(prepared)
    if where == "logs":
        store.apply()
    if where == "checkpoint":
        store.checkpoint()
    store.drop("demo")
    store.drop("demo")
    assert store.partitions() == [("other", 0)]
    assert store.positions() == {("g", "other", 0): 28}
    assert _topics(disk) == {"other"}
    assert not disk.exists(ROOT / "logs" / "demo")
    with pytest.raises(NotFoundError):
        store.read("demo", 0, 0, max_bytes=1, max_messages=1)
    disk.kill()
    again = BrokerStore.open(ROOT, disk=disk, settings=settings)
    assert again.partitions() == [("other", 0)]
    assert again.positions() == {("g", "other", 0): 28}
    again.ensure_partition("demo", 0)
    assert send(again, b"anew")[0].offset == 0
    again.close()
    assert payloads(open_store(disk, settings)) == [b"anew"]


def test_a_topic_without_a_message_is_dropped_without_a_trace() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    store.drop("demo")
    store.drop("never heard of")
    assert store.partitions() == []
    store.close()
    assert open_store(disk).partitions() == [("demo", 0), ("demo", 1)]


def test_a_drop_that_finds_no_space_changes_nothing_and_works_later() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"one", confirm=0)
    disk.fail(Operation.WRITE, errno.ENOSPC, path_contains="checkpoint")
    with pytest.raises(DiskFullError):
        store.drop("demo")
    assert payloads(store) == [b"one"]
    assert store.positions()
    disk.heal()
    store.drop("demo")
    assert not store.partitions()
    assert not store.positions()


def test_a_position_forgotten_while_its_topic_is_dropped_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"one", confirm=OFFSET_UNIT)

    def forget_meanwhile(*args: Any) -> None:
        write_checkpoint(*args)
        send(store, confirm=FORGOTTEN)

    monkeypatch.setattr(checkpoints, "write_checkpoint", forget_meanwhile)
    store.drop("demo")
    assert (store.partitions(), store.positions()) == ([], {})
    assert not disk.exists(ROOT / "logs" / "demo")
    disk.kill()
    assert BrokerStore.open(ROOT, disk=disk, settings=ROOMY).positions() == {}


class AddsAPartition(str):
    """A topic's name that makes a new partition known in the middle of the first look for its own."""

    __slots__ = ("store",)
    __hash__ = str.__hash__
    store: BrokerStore

    def __eq__(self, other: object) -> bool:
        self.store.ensure_partition("added", 0)
        return str.__eq__(self, other)


def test_partitions_that_are_added_while_a_topic_is_dropped_stay() -> None:
    store = open_store(FaultyDisk())
    name = AddsAPartition("demo")
    name.store = store
    store.drop(name)
    assert store.partitions() == [("added", 0)]


@pytest.mark.parametrize("operation", [Operation.UNLINK, Operation.RMDIR])
def test_files_that_cannot_be_removed_are_removed_by_the_next_call_or_the_next_start(operation: Operation) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    store.ensure_partition("other", 0)
    send(store, b"one")
    disk.fail(operation, errno.EACCES, times=2)
    for _ in range(2):
        with pytest.raises(StorageError, match="demo cannot be removed"):
            store.drop("demo")
    assert store.partitions() == [("other", 0)]
    store.drop("demo")
    assert not disk.exists(ROOT / "logs" / "demo")
    store.ensure_partition("demo", 0)
    send(store, b"two")
    disk.fail(operation, errno.EACCES, times=1)
    with pytest.raises(StorageError):
        store.drop("demo")
    disk.kill()
    again = BrokerStore.open(ROOT, disk=disk, settings=ROOMY)
    assert again.partitions() == []
    assert not disk.exists(ROOT / "logs" / "demo")


def test_a_reader_of_a_dropped_topic_is_told_that_it_is_gone_and_never_sees_its_files_again() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"old" * 100)
    store.checkpoint()
    assert payloads(store) == [b"old" * 100], "its files are open now"
    store.drop("demo")
    assert store.open_files == 0
    store.ensure_partition("demo", 0)
    send(store, b"new")
    store.checkpoint()
    assert payloads(store) == [b"new"]


_STEPS = [
    (operation, after_calls)
    for operation in (
        Operation.WRITE,
        Operation.FDATASYNC,
        Operation.RENAME,
        Operation.FSYNC_DIR,
        Operation.UNLINK,
        Operation.RMDIR,
    )
    for after_calls in range(6)
]


@pytest.mark.parametrize(("operation", "after_calls"), _STEPS)
@pytest.mark.parametrize("power_loss", [False, True])
def test_a_crash_at_any_step_of_a_drop_leaves_all_of_it_or_nothing(
    operation: Operation, after_calls: int, power_loss: bool
) -> None:
    for seed in range(5):
        disk = FaultyDisk(seed=seed)
        store = open_store(disk, SMALL)
        sent = [b"%d" % number * 300 for number in range(8)]
        for payload in sent[:5]:
            send(store, payload, confirm=OFFSET_UNIT)
        store.checkpoint()
        for payload in sent[5:]:
            send(store, payload)
        disk.fail(operation, after_calls=after_calls)
        with suppress(StorageError):
            store.drop("demo")
        disk.heal()
        (disk.crash if power_loss else disk.kill)()
        again = BrokerStore.open(ROOT, disk=disk, settings=SMALL)
        if again.partitions():
            assert payloads(again) == sent
            assert again.positions() == {("g", "demo", 0): OFFSET_UNIT}
        else:
            assert not again.positions()
            assert not disk.exists(ROOT / "logs" / "demo")
        again.close()


def test_dropping_many_partitions_flushes_no_directory_that_goes_itself() -> None:
    disk = FaultyDisk()
    store = open_store(disk, partitions=50)
    for partition_id in range(50):
        send(store, b"x", partition_id=partition_id)
    store.checkpoint()
    before = disk.calls[Operation.FSYNC_DIR]
    store.drop("demo")
    assert disk.calls[Operation.FSYNC_DIR] - before < 10


def test_a_store_whose_write_hangs_is_closed_without_another_write_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    store.set_durability("demo", Durability.MEMORY)
    send(store, b"before")
    begun, go = Event(), Event()
    written: list[int] = []
    write = Journal.write

    def held(journal: Journal, prepared: Prepared, meta: bytes) -> None:
        begun.set()
        assert go.wait(30)
        written.append(get_ident())
        write(journal, prepared, meta)

    monkeypatch.setattr(Journal, "write", held)
    staging = store.staging()
    staging.append("demo", 0, b"promised from memory", 0, -1)
    prepared = store.prepare(staging, NOW_MS)
    store.publish_early(prepared)
    writer = Thread(target=store.write, args=(prepared,))
    writer.start()
    assert begun.wait(30)
    before = {path: disk.content(path) for path in disk.files()}
    store.close()
    assert {path: disk.content(path) for path in disk.files()} == before
    with pytest.raises(DirectoryLockedError):
        open_store(disk)
    go.set()
    writer.join(30)
    assert written == [writer.ident], "nobody else wrote"
    disk.kill()
    assert payloads(open_store(disk)) == [b"before", b"promised from memory"]
