"""What is too old or too much goes, whole segments at a time, and never anything else."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import ClosedError, DiskFailedError, DiskFullError, OffsetMovedError, OutOfResourcesError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.model.policy import RetentionPolicy
from pytubemq.storage.log.expired_segments import Surplus, choose
from pytubemq.storage.log.partition_log import PartitionLog
from pytubemq.storage.log.retention import (
    Retained,
    SegmentFacts,
    expiring_segments,
    growth_of,
    roll_at,
    surplus,
)
from pytubemq.storage.store import message_removal
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.unit.storage.helpers import NOW_MS, columns, commit, messages, open_store, send

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.store.store import BrokerStore

HOUR_MS = 3_600_000
NOTHING_RETAINED = Retained(0, 0, 0)
SMALL = StoreSettings(segment_bytes=2000, journal_segment_bytes=1500, reserve_bytes=0)

PIECES = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 100)), max_size=8)


@given(PIECES, st.none() | st.floats(0, 200), st.none() | st.integers(0, 20_000), st.integers(0, 9000))
def test_as_much_goes_as_the_policy_says_and_never_leaves_less(
    shapes: list[tuple[int, int]], age_s: float | None, size_bytes: int | None, tail_bytes: int
) -> None:
    now_ms = NOW_MS
    pieces = []
    time_ms = now_ms - 100_000
    for size, seconds in shapes:
        pieces.append(SegmentFacts(size, time_ms, time_ms + seconds * 1000))
        time_ms += seconds * 1000
    count = surplus(pieces, tail_bytes, RetentionPolicy(age_s, size_bytes), now_ms)
    for at, piece in enumerate(pieces):
        old = age_s is not None and piece.last_time_ms < now_ms - age_s * 1000
        kept_bytes = tail_bytes + sum(other.size_bytes for other in pieces[at:])
        left_bytes = kept_bytes - piece.size_bytes
        much = size_bytes is not None and left_bytes >= size_bytes and at + 1 < len(pieces)
        assert (at < count) == (old or much), "times rise, so what is too old comes first"


@given(
    PIECES, st.none() | st.floats(1, 200), st.none() | st.integers(1, 20_000), st.integers(0, 9000), st.floats(0, 50)
)
def test_what_is_said_to_go_goes_then_and_not_before(
    shapes: list[tuple[int, int]], age_s: float | None, size_bytes: int | None, tail_bytes: int, ahead_s: float
) -> None:
    now_ms = NOW_MS
    pieces, time_ms = [], now_ms - 100_000
    for size, seconds in shapes:
        pieces.append(SegmentFacts(size, time_ms, min(time_ms + seconds * 1000, now_ms)))
        time_ms = pieces[-1].last_time_ms
    policy = RetentionPolicy(age_s, size_bytes)
    pieces = pieces[surplus(pieces, tail_bytes, policy, now_ms) :]
    found = expiring_segments(pieces, tail_bytes, policy, now_ms, ahead_s=ahead_s)
    assert [one.number for one in found] == list(range(len(found)))
    for one in found:
        if one.left_s is not None and age_s is not None:
            assert one.left_s <= max(age_s / 10, ahead_s)
            late_ms = now_ms + int(one.left_s * 1000)
            assert surplus(pieces, 0, RetentionPolicy(age_s, None), late_ms + 2) > one.number
            assert surplus(pieces, 0, RetentionPolicy(age_s, None), late_ms - 2) <= one.number or one.left_s <= 0.002
        if one.left_bytes is not None:
            by_size = RetentionPolicy(None, size_bytes)
            assert surplus(pieces, tail_bytes + one.left_bytes, by_size, now_ms) > one.number
            assert surplus(pieces, tail_bytes + one.left_bytes - 1, by_size, now_ms) <= one.number


def test_a_segment_is_closed_at_a_tenth_of_what_is_kept() -> None:
    assert roll_at(RetentionPolicy(100.0, 50 << 20), 128 << 20) == (5 << 20, 10_000.0)
    assert roll_at(RetentionPolicy(1.0, 100), 128 << 20) == (1 << 20, 1000.0)
    assert roll_at(RetentionPolicy(None, 1 << 40), 128 << 20) == (128 << 20, None)
    assert roll_at(RetentionPolicy(None, None), 128 << 20) == (128 << 20, None)
    assert roll_at(None, 128 << 20) == (128 << 20, None)


def fill(store: BrokerStore, first_ms: int, count: int = 10) -> None:
    """Packs of ten messages, one an hour."""
    for at in range(count):
        staging = store.staging()
        staging.append_batch("demo", 0, columns([b"%d" % number + bytes(90) for number in range(10)]))
        commit(store, staging, now_ms=first_ms + at * HOUR_MS)
    store.apply()


def keep(age_s: float | None = None, size_bytes: int | None = None) -> RetentionPolicy:
    return RetentionPolicy(age_s, size_bytes)


def retain(store: BrokerStore, now_ms: int, policy: RetentionPolicy) -> Retained:
    store.set_retention("demo", policy)
    return store.retain(now_ms)


def files(disk: FaultyDisk) -> list[Path]:
    return [path for path in disk.files() if path.suffix in (".log", ".index")]


def test_what_is_too_old_goes_and_its_offsets_are_refused_as_moved() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    fill(store, NOW_MS)
    assert retain(store, NOW_MS + 5 * HOUR_MS, keep(5 * 3600)) == NOTHING_RETAINED
    before = len(files(disk))
    done = retain(store, NOW_MS + 10 * HOUR_MS, keep(5 * 3600))
    first, end = store.ends("demo", 0)
    assert 0 < first <= 5 * 10 * OFFSET_UNIT
    assert end == 100 * OFFSET_UNIT
    assert done.messages * OFFSET_UNIT == first
    assert done.segments * 2 == before - len(files(disk))
    assert done.bytes == store.extent("demo", 0).min_position
    with pytest.raises(OffsetMovedError, match="no longer kept") as raised:
        store.read("demo", 0, 0, max_bytes=1, max_messages=1)
    assert raised.value.code == 301
    assert store.offset_at("demo", 0, 0) == first
    assert store.read("demo", 0, first, max_bytes=1, max_messages=1).start_offset == first
    disk.crash()
    again = open_store(disk, SMALL)
    assert again.ends("demo", 0) == (first, end)
    assert len(files(disk)) == before - 2 * done.segments


def test_all_of_a_partition_may_go_and_it_goes_on_at_its_end() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    fill(store, NOW_MS)
    done = retain(store, NOW_MS + 1000 * HOUR_MS, keep(3600))
    assert done.messages == 100
    assert store.ends("demo", 0) == (2800, 2800)
    assert files(disk) == []
    store.close()
    again = open_store(disk, SMALL)
    assert again.ends("demo", 0) == (2800, 2800)
    assert send(again, b"next")[0].offset == 2800
    again.checkpoint()
    assert again.read("demo", 0, 2800, max_bytes=100, max_messages=1).count == 1
    disk.crash()
    assert open_store(disk, SMALL).ends("demo", 0) == (2800, 2828)


def test_what_is_only_in_memory_stays() -> None:
    store = open_store(FaultyDisk(), SMALL)
    fill(store, NOW_MS, 3)
    staging = store.staging()
    staging.append("demo", 0, b"in memory", 0, -1)
    commit(store, staging, now_ms=NOW_MS + 3 * HOUR_MS)
    retain(store, NOW_MS + 1000 * HOUR_MS, keep(3600))
    assert store.ends("demo", 0) == (30 * 28, 31 * 28)
    store.checkpoint()
    assert store.read("demo", 0, 30 * 28, max_bytes=100, max_messages=1).count == 1


def test_by_size_the_oldest_go_and_the_last_segment_stays() -> None:
    store = open_store(FaultyDisk(), SMALL)
    fill(store, NOW_MS)
    retain(store, NOW_MS, keep(None, 5000))
    extent = store.extent("demo", 0)
    assert 5000 <= extent.max_position - extent.min_position < 7000
    retain(store, NOW_MS, keep(None, 1))
    assert store.ends("demo", 0)[0] < store.ends("demo", 0)[1]


def test_times_in_the_future_keep_a_segment() -> None:
    store = open_store(FaultyDisk(), SMALL)
    fill(store, NOW_MS + 1000 * HOUR_MS)
    assert retain(store, NOW_MS, keep(1)) == NOTHING_RETAINED


def send_at(store: BrokerStore, time_ms: int, payload: bytes = b"x") -> None:
    staging = store.staging()
    staging.append("demo", 0, payload, 0, -1)
    commit(store, staging, now_ms=time_ms)


def test_a_clock_that_stood_ahead_for_one_message_ends_no_retention_by_age() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    store.set_retention("demo", keep(3600))
    send_at(store, NOW_MS)
    send_at(store, NOW_MS + 10 * 365 * 24 * HOUR_MS)
    for minute in range(0, 300, 3):
        send_at(store, NOW_MS + minute * 60_000)
    store.apply()
    assert store.retain(NOW_MS + 60_000) == NOTHING_RETAINED
    for restarted in (False, True):
        if restarted:
            store.close()
            store = open_store(disk)
            store.set_retention("demo", keep(3600))
        store.retain(NOW_MS + 300 * 60_000)
        first, end = store.ends("demo", 0)
        assert (first // OFFSET_UNIT, end) == (80, 102 * OFFSET_UNIT), "an hour and a tenth of it are kept"
        assert messages(store)[0].append_time == NOW_MS + 234 * 60_000


def test_a_clock_that_stood_behind_lets_nothing_go_that_came_before_and_is_young() -> None:
    store = open_store(FaultyDisk())
    store.set_retention("demo", keep(10 * 3600))
    for time_ms in (NOW_MS, NOW_MS - 1_000_000 * HOUR_MS, NOW_MS + 60_000):
        send_at(store, time_ms)
    store.apply()
    assert store.retain(NOW_MS + 120_000) == NOTHING_RETAINED


@pytest.mark.parametrize("wrong_ms", [NOW_MS + 10**10, NOW_MS - 10**10])
def test_a_lookup_by_time_leaves_nothing_out_where_the_clock_was_wrong(wrong_ms: int) -> None:
    store = open_store(FaultyDisk(), SMALL)
    for minute in range(10):
        send_at(store, NOW_MS + minute * 60_000, bytes(1500))
    send_at(store, wrong_ms, bytes(1500))
    for minute in range(10, 20):
        send_at(store, NOW_MS + minute * 60_000, bytes(1500))
    for applied in (False, True):
        if applied:
            store.apply()
        for minute in range(20):
            found = store.offset_at("demo", 0, NOW_MS + minute * 60_000) // OFFSET_UNIT
            assert found <= (minute if minute < 10 else minute + 1)
            assert found >= min(minute, 10)


def test_a_clock_that_is_a_little_behind_gives_the_time_of_the_message_before() -> None:
    store = open_store(FaultyDisk())
    send_at(store, NOW_MS)
    send_at(store, NOW_MS - 600_000)
    send_at(store, NOW_MS - 600_001)
    assert [message.append_time for message in messages(store)] == [NOW_MS, NOW_MS, NOW_MS - 600_001]


def test_a_busy_partition_begins_a_segment_so_that_the_old_one_can_go() -> None:
    disk = FaultyDisk()
    store = open_store(disk)  # segments of 128 MiB: by size alone none would ever be closed
    for at in range(30):
        staging = store.staging()
        staging.append("demo", 0, b"%d" % at, 0, -1)
        commit(store, staging, now_ms=NOW_MS + at * HOUR_MS)
        store.apply()
        retain(store, NOW_MS + at * HOUR_MS, keep(10 * 3600))
    first, end = store.ends("demo", 0)
    assert end == 30 * 28
    assert 17 * 28 <= first <= 19 * 28, "ten hours and a tenth of it"


def burst(store: BrokerStore, size_bytes: int) -> None:
    """Messages of 10 KiB in one block, and so in one run."""
    staging = store.staging()
    for at in range(size_bytes // 10_240):
        staging.append("demo", 0, at.to_bytes(4, "big") + bytes(10_236), 0, -1)
    commit(store, staging)


def test_a_burst_is_cut_at_a_tenth_and_never_leaves_less_than_is_to_be_kept() -> None:
    disk = FaultyDisk()
    store = open_store(disk)  # segments of 128 MiB, but for what is to be kept
    store.set_retention("demo", keep(None, 30 << 20))
    burst(store, 8 << 20)
    burst(store, 37 << 20)  # both in one go into the log
    store.apply()
    segments = store._partitions["demo", 0].segments
    ends = [segment.base_position for segment in segments[1:]]
    assert all(end - segment.base_position <= 3 << 20 for segment, end in zip(segments, ends, strict=False))
    store.retain(NOW_MS)
    extent = store.extent("demo", 0)
    assert 30 << 20 <= extent.max_position - extent.min_position < 33 << 20
    send(store, b"some more")
    store.checkpoint()
    store.retain(NOW_MS)
    extent = store.extent("demo", 0)
    assert 30 << 20 <= extent.max_position - extent.min_position < 33 << 20
    expected = [at.to_bytes(4, "big") for at in range((8 << 20) // 10_240)]
    expected += [at.to_bytes(4, "big") for at in range((37 << 20) // 10_240)]
    kept = (extent.max_offset - extent.min_offset) // OFFSET_UNIT
    for _ in range(2):
        assert [message.payload[:4] for message in messages(store)] == [*expected, b"some"][-kept:]
        disk.crash()
        store = open_store(disk)


def test_a_burst_of_which_the_disk_took_a_part_is_written_on_from_there() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    store.set_retention("demo", keep(None, 1))
    burst(store, 4 << 20)
    disk.fail(Operation.WRITE, errno.ENOSPC, path_contains=".log", after_calls=4)
    with pytest.raises(DiskFullError):
        store.apply()
    assert 0 < store._partitions["demo", 0].applied_ordinal < (4 << 20) // 10_240
    expected = [at.to_bytes(4, "big") for at in range((4 << 20) // 10_240)]
    assert [message.payload[:4] for message in messages(store)] == expected
    disk.heal()
    store.checkpoint()
    assert not store._partitions["demo", 0].tail
    for _ in range(2):
        assert [message.payload[:4] for message in messages(store)] == expected
        disk.crash()
        store = open_store(disk)


def test_by_age_a_burst_begins_a_segment_where_its_messages_are_a_tenth_younger() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    store.set_retention("demo", keep(100.0))
    for restarted in (False, True):
        if restarted:
            store.checkpoint()
            store.close()
            store = open_store(disk)
            store.set_retention("demo", keep(100.0))
        for at in range(30):
            staging = store.staging()
            staging.append("demo", 0, b"%d" % at, 0, -1)
            commit(store, staging, now_ms=NOW_MS + (at + 30 * restarted) * 1000)
        store.apply()
    assert [segment.base_ordinal for segment in store._partitions["demo", 0].segments] == [0, 11, 22, 33, 44, 55]


def test_a_segment_that_grew_since_the_last_pass_is_as_young_as_its_newest_message() -> None:
    store = open_store(FaultyDisk())
    for at in range(3):  # the first pass looks at the segment, which grows on, and is closed in the end
        staging = store.staging()
        staging.append("demo", 0, b"%d" % at, 0, -1)
        commit(store, staging, now_ms=NOW_MS + at * HOUR_MS)
        store.apply()
        if not at:
            assert retain(store, NOW_MS, keep(100 * 3600)) == NOTHING_RETAINED
    store._partitions["demo", 0].closing = True
    send(store, b"in the next one")
    store.apply()
    assert len(store._partitions["demo", 0].segments) == 2
    retain(store, NOW_MS + 3 * HOUR_MS, keep(1.5 * 3600))
    assert store.ends("demo", 0)[0] == 0, "its newest message is an hour old"


def test_a_reader_inside_a_segment_that_goes_reads_on_or_is_told_that_it_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    fill(store, NOW_MS)
    log = store._partitions["demo", 0]
    stale = log._snapshot(0, 0)
    with store._state.files.borrow(log.segments[0].log_path) as held:
        retain(store, NOW_MS + 1000 * HOUR_MS, keep(3600))
        assert held.pread(10, 64), "an open file can be read on"
    # As a reader still sees it who has not opened the files yet.
    monkeypatch.setattr(PartitionLog, "_snapshot", lambda *_: stale)
    with pytest.raises(OffsetMovedError):
        log.read(store._reader, 0, end_offset=None, max_bytes=1, max_messages=1, codes=None)


@pytest.mark.parametrize("question", ["offset_at", "position_of"])
def test_a_lookup_that_retention_overtakes_looks_again(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    store = open_store(disk, replace(SMALL, max_open_files=1))
    fill(store, NOW_MS)
    store.ensure_partition("other", 0)
    send(store, b"kept", topic="other")
    store.checkpoint()
    snapshot = PartitionLog._snapshot
    first = 0

    def overtaken(log: PartitionLog, ordinal: int, max_bytes: int) -> object:
        nonlocal first
        taken = snapshot(log, ordinal, max_bytes)
        monkeypatch.setattr(PartitionLog, "_snapshot", snapshot)
        retain(store, NOW_MS + 10 * HOUR_MS, keep(5 * 3600))
        store.read("other", 0, 0, max_bytes=1, max_messages=1)  # no file of the other one stays open
        first = store.ends("demo", 0)[0]
        return taken

    monkeypatch.setattr(PartitionLog, "_snapshot", overtaken)
    if question == "offset_at":
        assert store.offset_at("demo", 0, NOW_MS + HOUR_MS) == first
    else:
        assert store.position_of("demo", 0, 3 * OFFSET_UNIT) == store.extent("demo", 0).min_position
    assert first > 0
    assert store.partition_problem("demo", 0) is None


@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.FDATASYNC, Operation.RENAME])
def test_nothing_goes_before_the_checkpoint_knows(operation: Operation) -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    fill(store, NOW_MS)
    before = files(disk)
    disk.fail(operation, errno.EIO, path_contains="checkpoint")
    with pytest.raises(DiskFailedError):
        retain(store, NOW_MS + 1000 * HOUR_MS, keep(3600))
    assert files(disk) == before
    assert store.ends("demo", 0) == (0, 2800)


def test_a_segment_that_was_made_and_could_not_be_filled_harms_nothing() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    fill(store, NOW_MS)
    store._partitions["demo", 0].closing = True
    send(store, b"waits for the disk")
    disk.fail(Operation.WRITE, errno.ENOSPC, path_contains=".index")  # its log yes, its index no
    with pytest.raises(DiskFullError):
        store.apply()
    assert store._partitions["demo", 0].segments[-1].records == 0
    assert store.offset_at("demo", 0, NOW_MS + 9 * HOUR_MS) == 90 * OFFSET_UNIT
    assert retain(store, NOW_MS + 10 * HOUR_MS, keep(5 * 3600)).messages > 0
    first = store.ends("demo", 0)[0]
    disk.crash()
    disk.heal()
    again = open_store(disk, SMALL)
    assert again.ends("demo", 0) == (first, 101 * OFFSET_UNIT)
    assert [message.offset for message in messages(again)] == list(range(first, 101 * OFFSET_UNIT, OFFSET_UNIT))
    assert again.stats.repaired_entries == 0


def test_a_pass_over_partitions_that_were_begun_here_reads_no_file() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    fill(store, NOW_MS)
    disk.fail(Operation.READ)
    disk.fail(Operation.OPEN, path_contains="/logs/")
    assert retain(store, NOW_MS + 9 * HOUR_MS, keep(age_s=3600)) == NOTHING_RETAINED
    assert retain(store, NOW_MS + 11 * HOUR_MS, keep(age_s=3600)).messages == 100
    disk.heal()
    disk.crash()
    again = open_store(disk)
    assert again.ends("demo", 0) == (100 * OFFSET_UNIT, 100 * OFFSET_UNIT)


def test_a_segment_from_before_less_was_kept_goes_once_as_much_has_come_behind_it() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    part = bytes(200_000)
    for _ in range(10):
        send(store, part)
    store.apply()
    assert retain(store, NOW_MS, keep(size_bytes=1 << 20)) == NOTHING_RETAINED, "it is the only one"
    for _ in range(5):
        send(store, part)
        store.apply()
    assert len(store._partitions["demo", 0].segments) == 2, "the next message begins another"
    assert retain(store, NOW_MS, keep(size_bytes=1 << 20)) == NOTHING_RETAINED, "less than is to be kept is behind it"
    send(store, part)
    store.apply()
    assert retain(store, NOW_MS, keep(size_bytes=1 << 20)).messages == 10
    assert retain(store, NOW_MS + 1000 * HOUR_MS, keep(age_s=1.0)).messages == 6, "an age needs nothing behind it"


def test_a_segment_of_which_only_the_log_was_made_is_no_trouble_when_a_pass_is_made() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    fill(store, NOW_MS)
    store._partitions["demo", 0].closing = True
    send(store, b"waits for a handle")
    disk.fail(Operation.OPEN, errno.EMFILE, path_contains=".index", times=1)
    with pytest.raises(OutOfResourcesError):
        store.apply()
    assert retain(store, NOW_MS + 10 * HOUR_MS, keep(5 * 3600)).messages > 0
    assert store.partition_problem("demo", 0) is None
    store.apply()
    assert [message.offset for message in messages(store)][-1] == 100 * OFFSET_UNIT


def test_a_pass_that_is_under_way_ends_before_the_store_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    fill(store, NOW_MS)
    store.set_retention("demo", keep(3600))
    inside, go_on = threading.Event(), threading.Event()

    def choose_slowly(*args: Any, **options: Any) -> Surplus:
        inside.set()
        assert go_on.wait(30)
        return choose(*args, **options)

    monkeypatch.setattr(message_removal, "choose", choose_slowly)
    with ThreadPoolExecutor() as pool:
        passing = pool.submit(store.retain, NOW_MS + 1000 * HOUR_MS)
        assert inside.wait(30)
        closing = pool.submit(store.close)
        go_on.set()
        closing.result(30)
        assert passing.result(30).messages == 100
    with pytest.raises(ClosedError):
        store.retain(NOW_MS)
    assert open_store(disk, SMALL).ends("demo", 0) == (2800, 2800)


def test_files_that_cannot_be_removed_are_removed_by_the_next_pass_or_the_next_start() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    fill(store, NOW_MS)
    disk.fail(Operation.UNLINK, errno.EIO, path_contains=".log", times=3)
    assert retain(store, NOW_MS + 1000 * HOUR_MS, keep(3600)).messages == 100
    assert len(files(disk)) == 3
    disk.fail(Operation.UNLINK, errno.EIO, path_contains=".log", times=1)
    retain(store, NOW_MS + 1000 * HOUR_MS, keep(3600))
    assert len(files(disk)) == 1
    disk.heal()
    store.close()
    assert open_store(disk, SMALL).ends("demo", 0) == (2800, 2800)
    assert files(disk) == []


@pytest.mark.parametrize("pieces", [3, 4])
def test_of_few_segments_the_next_one_to_go_by_size_is_said_a_segment_ahead(pieces: int) -> None:
    segments = [SegmentFacts(1_000_000, at * 1000, at * 1000 + 900) for at in range(pieces)]
    policy = RetentionPolicy(None, 3_000_000)
    kept = segments[surplus(segments, 0, policy, 4000) :]
    soon = expiring_segments(kept, 0, policy, 4000, ahead_s=6)
    assert [(one.number, one.left_bytes) for one in soon] == [(0, 1_000_000)]
    assert growth_of(kept, 0, (pieces - 1) * 1000 + 1000, ahead_s=6) == 1_000_000
    assert growth_of(kept, 0, 20_000, ahead_s=6) is None
