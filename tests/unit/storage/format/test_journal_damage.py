"""Damage to the journal and to the checkpoint: what was acknowledged is there, or its loss is told."""

from __future__ import annotations

import errno
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytubemq.core.sequences import ProducerMark
from pytubemq.errors import CorruptError, DiskFailedError, DiskFullError, MessageError
from pytubemq.model.durability import Durability
from pytubemq.model.policy import RetentionPolicy
from pytubemq.storage.format.block import BLOCK_MAGIC
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.unit.storage.helpers import NOW_MS, ROOT, SMALL, columns, commit, messages, open_store, payloads, send

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytubemq.storage.store.store import BrokerStore

JOURNAL = ROOT / "journal" / "00000000000000000001.journal"


def _journals(disk: FaultyDisk) -> list[Path]:
    return [path for path in disk.files() if path.suffix == ".journal"]


def _relaxed(disk: FaultyDisk) -> BrokerStore:
    """A store with a topic that is not flushed beside one that is."""
    store = open_store(disk)
    store.set_durability("relaxed", Durability.PROCESS)
    store.ensure_partition("relaxed", 0)
    return store


def test_damage_to_what_was_not_flushed_at_first_takes_nothing_that_was(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk()
    store = _relaxed(disk)
    send(store, b"first")
    send(store, b"p" * 50, topic="relaxed")
    kept = [send(store, b"disk%d" % number)[0] for number in range(5)]
    assert [item.code for item in kept] == [200] * 5
    disk.kill()
    disk.flip_bit(JOURNAL, disk.content(JOURNAL).index(b"p" * 50) + 3)
    store = open_store(disk)
    assert payloads(store) == [b"first", *(b"disk%d" % number for number in range(5))]
    assert [(lost_range.topic, lost_range.from_offset, lost_range.to_offset) for lost_range in store.lost_ranges()] == [
        ("relaxed", 0, 28)
    ]
    assert store.stats.lost_journal_bytes > 0
    assert store.stats.cut_bytes == 0
    assert "was not flushed" not in caplog.text, "a later block tells that it was"


@pytest.mark.parametrize("size", [0, 10, 63])
@pytest.mark.parametrize("settled", [False, True])
def test_a_journal_file_without_a_whole_header_is_refused_by_name(size: int, *, settled: bool) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"x")
    if settled:
        store.checkpoint()
        send(store, b"y")
    disk.kill()
    whole = disk.content(JOURNAL)
    disk.put(JOURNAL, whole[:size])
    with pytest.raises(CorruptError, match=f"{JOURNAL} is damaged at byte 0"):
        open_store(disk)
    disk.put(JOURNAL, whole)
    assert payloads(open_store(disk)) == [b"x", b"y"][: 1 + settled]


def test_a_journal_file_whose_making_ended_half_way_is_made_anew() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    sent = [b"%d" % number * 1500 for number in range(3)]
    send(store, sent[0])
    disk.fail(Operation.WRITE, errno.ENOSPC, after_bytes=20, path_contains="journal")
    with pytest.raises(DiskFullError):
        send(store, b"refused")
    disk.kill()
    disk.heal()
    for payload in sent[1:]:
        store = open_store(disk, SMALL)
        send(store, payload)
        disk.kill()
    assert payloads(open_store(disk, SMALL)) == sent
    assert all(path.suffix == ".journal" for path in disk.files() if path.parent.name == "journal")


def test_a_journal_file_that_was_cut_between_two_blocks_loses_those_behind_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = FaultyDisk()
    settings = StoreSettings(reserve_bytes=0, journal_segment_bytes=1500)
    store = open_store(disk, settings)
    sent = [b"m%02d" % number * 30 for number in range(20)]
    for payload in sent:
        send(store, payload)
    disk.kill()
    first = _journals(disk)[0]
    whole = disk.content(first)
    borders = [HEADER_BYTES]
    while (at := whole.find(BLOCK_MAGIC, borders[-1] + 1)) >= 0:
        borders.append(at)
    assert len(borders) > 4
    for kept, border in enumerate(borders[:1] + borders[2:], start=0):
        kept += kept > 0
        files = {path: disk.content(path) for path in disk.files()}
        cut = FaultyDisk()
        for path, data in files.items():
            cut.makedirs(path.parent)
            cut.put(path, data[:border] if path == first else data)
        caplog.clear()
        store = open_store(cut, settings)
        assert payloads(store) == sent[:kept] + sent[len(borders) :]
        assert store.stats.fenced_messages == len(borders) - kept
        assert f"{first} ends at byte {border} without block {kept + 1}" in caplog.text
        assert send(store, b"on")[0].offset == 20 * 28


def test_a_journal_that_is_cut_before_the_checkpoint_s_place_keeps_nothing_from_opening(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"a", b"b", confirm=28)
    store.close()
    whole = disk.content(JOURNAL)
    for size in range(HEADER_BYTES, len(whole)):
        cut = FaultyDisk()
        for path in disk.files():
            cut.makedirs(path.parent)
            cut.put(path, whole[:size] if path == JOURNAL else disk.content(path))
        caplog.clear()
        store = open_store(cut)
        assert payloads(store) == [b"a", b"b"]
        assert f"{JOURNAL} ends at byte {size} without block 2" in caplog.text
        assert store.stats.lost_journal_bytes == len(whole) - size
        send(store, b"c")
        cut.kill()
        caplog.clear()
        assert payloads(open_store(cut)) == [b"a", b"b", b"c"]
        assert "lost" not in caplog.text


def test_a_checkpoint_that_is_missing_is_refused_also_before_the_second_journal_file() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    store.ensure_partition("gone", 0)
    send(store, b"x")
    send(store, b"dropped", topic="gone")
    store.drop("gone")
    store.close()
    checkpoint = disk.content(ROOT / "checkpoint")
    before = {path: disk.content(path) for path in disk.files() if path.name not in ("checkpoint", "lock")}
    disk.unlink(ROOT / "checkpoint")
    with pytest.raises(CorruptError, match=f"{ROOT}/checkpoint is missing"):
        open_store(disk)
    assert {path: disk.content(path) for path in before} == before
    disk.put(ROOT / "checkpoint", checkpoint)
    assert payloads(open_store(disk)) == [b"x"]


@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.FDATASYNC, Operation.RENAME, Operation.FSYNC_DIR])
@pytest.mark.parametrize("after_calls", range(4))
@pytest.mark.parametrize("power_loss", [False, True])
def test_the_first_start_may_end_anywhere(operation: Operation, after_calls: int, *, power_loss: bool) -> None:
    for seed in range(4):
        disk = FaultyDisk(seed=seed)
        disk.fail(operation, after_calls=after_calls)
        with suppress(Exception):  # where it ends is what this is about
            open_store(disk)
        (disk.crash if power_loss else disk.kill)()
        disk.heal()
        send(open_store(disk), b"a")
        disk.crash()
        assert payloads(open_store(disk)) == [b"a"]


class _KilledError(BaseException):
    pass


def _flush_unless_of_the_journal(flush: Callable[[Path], None], path: Path) -> None:
    if path.name == "journal":
        raise _KilledError
    flush(path)


@pytest.mark.parametrize("before", [0, 2])
def test_the_name_of_a_journal_file_is_flushed_before_it_counts(monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    settings = StoreSettings(reserve_bytes=0, journal_segment_bytes=600)
    for seed in range(20):
        disk = FaultyDisk(seed=seed)
        if before:
            store = open_store(disk, settings)
            for number in range(before):
                send(store, b"before%d" % number * 20)
        with monkeypatch.context() as patch, suppress(_KilledError):
            patch.setattr(disk, "fsync_dir", partial(_flush_unless_of_the_journal, disk.fsync_dir))
            if not before:
                open_store(disk, settings)
            for number in range(5):
                send(store, b"w%d" % number * 20)
            pytest.fail("no journal file was made")
        disk.kill()
        store = open_store(disk)
        have = payloads(store)
        for number in range(5):
            send(store, b"acked%d" % number)
        disk.crash()
        assert payloads(open_store(disk, settings)) == have + [b"acked%d" % number for number in range(5)]


@pytest.mark.parametrize("cut_works", [True, False])
@pytest.mark.parametrize("applied", [True, False])
def test_a_restart_trusts_nothing_of_a_journal_that_could_not_be_flushed(*, cut_works: bool, applied: bool) -> None:
    for seed in range(20):
        disk = FaultyDisk(seed=seed)
        store = _relaxed(disk)
        send(store, b"first")
        send(store, b"relaxed", topic="relaxed")
        disk.fail(Operation.FDATASYNC, times=1, path_contains="journal")
        if not cut_works:
            disk.fail(Operation.TRUNCATE, path_contains="journal")
        with pytest.raises(DiskFailedError):
            send(store, b"refused")
        store.close()
        disk.kill()
        disk.heal()
        store = _relaxed(disk)
        seen = payloads(store)
        assert seen == [b"first", b"refused"][: 2 - cut_works]
        if applied:
            store.apply()
            assert len(_journals(disk)) == 1, "nothing of the old one is needed any more"
        acked = [send(store, b"acked%d" % number)[0].offset for number in range(5)]
        disk.crash()
        store = _relaxed(disk)
        found = {message.offset: message.payload for message in messages(store)}
        assert [found[offset] for offset in acked] == [b"acked%d" % number for number in range(5)]
        if applied:
            assert payloads(store)[: len(seen)] == seen
            assert store.ends("relaxed", 0) == (0, 28)
            assert not store.lost_ranges()
        assert (
            len(found) + sum(lost_range.messages for lost_range in store.lost_ranges() if lost_range.topic == "demo")
            == len(seen) + 5
        )


def test_a_disk_that_fails_while_what_was_found_is_taken_in_lets_it_be_read() -> None:
    disk = FaultyDisk()
    send(open_store(disk), b"a")
    disk.kill()
    disk.fail(Operation.FDATASYNC, path_contains="logs")
    store = open_store(disk)
    with pytest.raises(DiskFailedError):
        store.apply()
    assert payloads(store) == [b"a"]
    with pytest.raises(DiskFailedError):
        send(store, b"x")
    disk.kill()
    disk.heal()
    assert payloads(open_store(disk)) == [b"a"]


def test_without_space_a_start_leaves_the_journal_as_it_is_and_goes_on() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"a")
    disk.kill()
    disk.capacity_bytes = sum(len(disk.content(path)) for path in disk.files())
    store = open_store(disk)
    assert payloads(store) == [b"a"]
    with pytest.raises(DiskFullError):
        send(store, b"x")
    disk.capacity_bytes = None
    send(store, b"b")
    disk.crash()
    assert payloads(open_store(disk)) == [b"a", b"b"]


def test_positions_do_not_go_back_where_a_block_is_lost_that_a_checkpoint_knows() -> None:
    disk = FaultyDisk()
    store = open_store(disk, StoreSettings(reserve_bytes=0, segment_bytes=200))
    send(store, b"x" * 300)
    send(store, b"y" * 300)
    store.checkpoint()
    for offset in (1, 2, 3):
        send(store, b"z", confirm=offset, producer=ProducerMark(5, 0, offset))
    # Retention makes a checkpoint that knows the newest positions, and no more of the journal than the last one.
    store.set_retention("demo", RetentionPolicy(0.001, None))
    assert store.retain(NOW_MS + 10**9).segments
    disk.kill()
    journal = _journals(disk)[-1]
    disk.flip_bit(journal, disk.content(journal).rindex(BLOCK_MAGIC) + 20)
    store = open_store(disk)
    assert store.confirmed("g", "demo", 0) == 3
    assert store.stats.cut_bytes == 0, "it was on the device, so it is damage"
    assert store.stats.lost_journal_bytes > 0
    assert send(store, b"z", producer=ProducerMark(5, 0, 3))[0].repeated
    send(store, b"new", confirm=9)
    disk.kill()
    assert open_store(disk).confirmed("g", "demo", 0) == 9


def test_what_waits_for_its_log_holds_its_messages_and_little_else() -> None:
    store = open_store(FaultyDisk())
    for number in range(5):
        send(store, b"x" * 10, producer=ProducerMark(7, 0, 2 * number))
    waiting = store.unapplied_bytes
    assert waiting >= 5 * 800
    owed = store._applier._owed
    assert list(owed) == [("demo", 0)]
    assert not hasattr(owed["demo", 0], "__dict__")
    assert all(isinstance(getattr(owed["demo", 0], name), int) for name in owed["demo", 0].__slots__)
    for number in range(1000):
        send(store, confirm=number)
    assert store.unapplied_bytes == waiting
    store.apply()
    assert store.unapplied_bytes == 0


def _send_on(one: Callable[[int], object]) -> None:
    for number in range(10_000):
        one(number)


def test_positions_leave_room_for_a_checkpoint() -> None:
    disk = FaultyDisk()
    disk.capacity_bytes = 110_000
    store = open_store(
        disk, StoreSettings(reserve_bytes=100_000, journal_segment_bytes=10_000, journal_padding_bytes=0)
    )
    with pytest.raises(DiskFullError):
        _send_on(lambda number: send(store, b"%d" % number * 10))
    store.checkpoint()
    made, begun = store.checkpoints, disk.free_bytes(ROOT)
    with pytest.raises(DiskFullError):
        _send_on(lambda number: send(store, confirm=number))
    assert disk.free_bytes(ROOT) < begun - 20_000, "consumers get on for some time"
    assert disk.free_bytes(ROOT) > 20_000
    taken = store.confirmed("g", "demo", 0)
    assert taken is not None
    assert store.checkpoints == made
    store.apply()
    assert store.checkpoints == made + 1, "due for want of room, so that the journal goes"
    assert disk.free_bytes(ROOT) > 40_000
    send(store, confirm=taken)
    assert store.confirmed("g", "demo", 0) == taken


@pytest.mark.parametrize(
    "mark",
    [
        ProducerMark(1 << 63, 0, 0),
        ProducerMark(0, 0, 0),
        ProducerMark(1, 1 << 31, 0),
        ProducerMark(1, -1, 0),
        ProducerMark(1, 0, -1),
        ProducerMark(1, 0, (1 << 63) - 1),
    ],
)
def test_a_mark_that_does_not_fit_is_refused_at_once(mark: ProducerMark) -> None:
    store = open_store(FaultyDisk())
    staging = store.staging()
    with pytest.raises(MessageError):
        staging.append_run("demo", 0, [b"a", b"b"], 0, -1, producer=mark)
    with pytest.raises(MessageError):
        staging.append_batch("demo", 0, columns([b"a", b"b"]), producer=mark)
    if mark.sequence < 1 << 62:
        with pytest.raises(MessageError):
            staging.append("demo", 0, b"a", 0, -1, producer=mark)
    assert staging.count == 0
    staging.append_run("demo", 0, [b"a"], 0, -1, producer=ProducerMark((1 << 63) - 1, (1 << 31) - 1, (1 << 63) - 2))
    commit(store, staging)
    store.close()


def test_a_topic_whose_name_does_not_fit_is_refused_at_once() -> None:
    store = open_store(FaultyDisk())
    with pytest.raises(MessageError):
        store.ensure_partition("é" * 200, 0)
    store.ensure_partition("é" * 127, 0)
    staging = store.staging()
    staging.append("é" * 127, 0, b"x", 0, -1)
    commit(store, staging)
