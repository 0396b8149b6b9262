"""A damaged journal and sound logs: whatever one of them has whole is there after the start, and the rest is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.core.sequences import ProducerMark
from pytubemq.errors import CorruptError, DiskFullError
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.unit.storage.helpers import ROOT, commit, messages, open_store, payloads, send, send_pack
from tests.unit.storage.journal.filled import COUNT, JOURNAL, SETTINGS, confirmed, filled, found_in

if TYPE_CHECKING:
    from pathlib import Path


def quarantined(disk: FaultyDisk) -> list[Path]:
    return [path for path in disk.files() if "repair-recovery-" in str(path)]


def journals(disk: FaultyDisk) -> list[Path]:
    return [path for path in disk.files() if path.suffix == ".journal" and path.parent == ROOT / "journal"]


@pytest.mark.parametrize("how", ["half", "zeros", "bits"])
def test_what_a_damaged_journal_file_lost_is_taken_from_the_logs(how: str, caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk()
    sent = filled(disk, applied=COUNT)
    data = disk.content(JOURNAL)
    assert len(journals(disk)) > 2
    half = len(data) // 2
    if how == "half":
        disk.put(JOURNAL, data[:half])
    elif how == "zeros":
        disk.put(JOURNAL, data[:half] + bytes(half // 2) + data[half + half // 2 :])
    else:
        for position in range(HEADER_BYTES, len(data), 300):
            disk.flip_bit(JOURNAL, position)
    store = open_store(disk, SETTINGS)
    assert found_in(store) == sent
    assert [message.offset for message in messages(store, 0)] == [28 * at for at in range(len(sent[0]))]
    assert store.lost_ranges() == []
    assert store.stats.recovered_messages > 0
    assert f"{JOURNAL}" in caplog.text
    assert "repair-recovery-" in caplog.text
    assert any(path.name == JOURNAL.name for path in quarantined(disk)), "the damaged file is kept"
    send(store, b"more")
    store.close()
    store = open_store(disk, SETTINGS)
    assert found_in(store) == [[*sent[0], b"more"], sent[1]]
    assert store.stats.recovered_messages == 0


def test_what_is_neither_in_the_journal_nor_in_the_logs_is_named() -> None:
    disk = FaultyDisk()
    sent = filled(disk, applied=20)
    disk.put(JOURNAL, disk.content(JOURNAL)[: len(disk.content(JOURNAL)) // 2])
    store = open_store(disk, SETTINGS)
    found = found_in(store)
    lost = {
        lost_range.partition_id: range(lost_range.from_ordinal, lost_range.to_ordinal)
        for lost_range in store.lost_ranges()
    }
    assert set(lost) == {0, 1}
    for partition_id in range(2):
        kept = [body for at, body in enumerate(sent[partition_id]) if at not in lost[partition_id]]
        assert found[partition_id] == kept


@pytest.mark.parametrize("applied", [COUNT, 200])
def test_a_last_journal_file_that_ends_early_is_noticed_by_the_logs(
    applied: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    sent = filled(disk, applied=applied)
    last = journals(disk)[-1]
    disk.put(last, disk.content(last)[: HEADER_BYTES + 40])
    store = open_store(disk, SETTINGS)
    found = found_in(store)
    if applied == COUNT:
        assert found == sent
        assert "the journal is damaged or ends too early" in caplog.text
        assert send(store, b"next")[0].offset == 28 * len(sent[0])
        assert send(store, b"next")[0].message_id > messages(store, 1)[-1].message_id
    else:
        assert all(some == whole[: len(some)] for some, whole in zip(found, sent, strict=True))


def test_one_damaged_message_of_the_journal_is_taken_from_its_log() -> None:
    disk = FaultyDisk()
    sent = filled(disk, applied=COUNT)
    at = disk.content(JOURNAL).index(b"30 ")
    disk.flip_bit(JOURNAL, at + 10)
    store = open_store(disk, SETTINGS)
    assert found_in(store) == sent
    assert store.lost_ranges() == []


def test_damage_in_a_log_behind_the_checkpoint_costs_nothing_that_the_journal_has() -> None:
    disk = FaultyDisk()
    sent = filled(disk, applied=COUNT)
    for path in disk.files():
        if "/logs/" in str(path):
            disk.flip_bit(path, len(disk.content(path)) // 2)
            disk.flip_bit(path, 3)
    disk.flip_bit(JOURNAL, disk.content(JOURNAL).index(b"30 "))
    store = open_store(disk, SETTINGS)
    lost = {
        lost_range.partition_id: range(lost_range.from_ordinal, lost_range.to_ordinal)
        for lost_range in store.lost_ranges()
    }
    assert sum(map(len, lost.values())) <= 2
    for partition_id in range(2):
        kept = [body for at, body in enumerate(sent[partition_id]) if at not in lost.get(partition_id, ())]
        assert payloads(store, partition_id) == kept


def test_with_a_sound_journal_nothing_is_kept_beside_the_store() -> None:
    disk = FaultyDisk()
    sent = filled(disk, applied=COUNT)
    disk.put(journals(disk)[-1], disk.content(journals(disk)[-1]) + b"torn")
    store = open_store(disk, SETTINGS)
    assert found_in(store) == sent
    assert quarantined(disk) == []


@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.RENAME, Operation.FDATASYNC, Operation.FSYNC_DIR])
@pytest.mark.parametrize("power_loss", [False, True])
def test_a_recovery_that_ends_anywhere_loses_nothing(operation: Operation, *, power_loss: bool) -> None:
    before = FaultyDisk()
    sent = filled(before, applied=60, count=60)
    before.put(JOURNAL, before.content(JOURNAL)[: len(before.content(JOURNAL)) // 2])
    files = {path: before.content(path) for path in before.files()}
    for after_calls in range(400):
        disk = FaultyDisk()
        for path, data in files.items():
            disk.makedirs(path.parent)
            disk.put(path, data)
        for path in files:
            for directory in path.parents:
                disk.fsync_dir(directory)
        disk.fail(operation, after_calls=after_calls, times=1)
        failed = True
        try:
            store = open_store(disk, SETTINGS)
            failed = store._condition.failure is not None
        except Exception:
            pass
        disk.heal()
        disk.crash() if power_loss else disk.kill()
        store = open_store(disk, SETTINGS)
        assert found_in(store) == sent, after_calls
        store.close()
        if not failed:
            return
    raise AssertionError("it never got through")


def test_a_topic_that_was_dropped_does_not_come_back_with_a_damaged_journal() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SETTINGS)
    store.ensure_partition("gone", 0)
    send(store, b"secret" * 10, topic="gone")
    store.apply()
    disk.fail(Operation.UNLINK, path_contains="/gone/")
    with pytest.raises(Exception, match="cannot be removed"):
        store.drop("gone")
    sent = [b"%d" % number * 50 for number in range(20)]
    for body in sent:
        send(store, body)
    store.apply()
    disk.heal()
    disk.kill()
    last = journals(disk)[-1]
    disk.flip_bit(last, disk.content(last).index(b"10" * 50))
    store = open_store(disk, SETTINGS)
    assert payloads(store) == sent
    assert ("gone", 0) not in store.partitions()


def test_producers_of_what_was_taken_from_the_logs_are_known_again() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SETTINGS)
    for number in range(30):
        send(store, b"%d" % number * 100, producer=ProducerMark(7, 1, number))
    send_pack(store, b"p", b"q", producer=ProducerMark(7, 1, 30))
    store.apply()
    disk.kill()
    disk.put(JOURNAL, disk.content(JOURNAL)[:HEADER_BYTES])
    store = open_store(disk, SETTINGS)
    assert len(payloads(store)) == 32
    staging = store.staging()
    staging.append("demo", 0, b"again", 0, -1, producer=ProducerMark(7, 1, 12))
    [outcome] = commit(store, staging)
    assert (outcome.repeated, outcome.offset) == (True, 12 * 28)  # type: ignore[union-attr]


def test_damage_in_very_many_places_is_told_in_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk()
    filled(disk, applied=1)
    for path in journals(disk):
        for position in range(HEADER_BYTES, len(disk.content(path)), 500):
            disk.flip_bit(path, position)
    store = open_store(disk, SETTINGS)
    assert len(store.lost_ranges()) > 30
    assert len(caplog.records) <= 45
    assert "in all the journal is damaged in" in caplog.text


def test_a_missing_journal_file_is_refused_still() -> None:
    disk = FaultyDisk()
    filled(disk, applied=COUNT)
    disk.unlink(JOURNAL)
    with pytest.raises(CorruptError, match=f"{JOURNAL} is missing"):
        open_store(disk, SETTINGS)


@pytest.mark.parametrize("how", ["tail", "gone", "middle"])
def test_positions_that_went_with_blocks_of_the_journal_are_named(how: str, caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk()
    confirmed(disk)
    last = journals(disk)[-1]
    data = disk.content(last)
    if how == "tail":
        disk.put(last, data[: HEADER_BYTES + (len(data) - HEADER_BYTES) // 2])
    elif how == "gone":
        disk.unlink(last)
    else:
        at = data.index(b"readers")
        disk.flip_bit(last, at)
    store = open_store(disk, SETTINGS)
    assert store.lost_ranges() == []
    assert store.positions() == {}
    assert store.lost_records is not None
    assert store.lost_records in caplog.text
    assert str(last if how != "gone" else last.parent) in store.lost_records
    assert "positions" in store.lost_records
    store.close()
    assert open_store(disk, SETTINGS).lost_records is None, "the next start finds nothing wrong"


def test_no_positions_are_said_to_be_lost_where_the_checkpoint_has_them_or_messages_alone_went() -> None:
    disk = FaultyDisk()
    confirmed(disk)
    path = next(path for path in journals(disk) if b"100" * 40 in disk.content(path))
    disk.flip_bit(path, disk.content(path).index(b"100" * 40) + 20)
    store = open_store(disk, SETTINGS)
    assert store.stats.lost_journal_bytes > 0
    assert store.lost_records is None
    assert store.positions() == {("readers", "demo", 0): 28 * 5}


def test_a_start_without_room_for_the_damaged_journal_says_how_much_it_needs(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk()
    sent = filled(disk, applied=COUNT)
    disk.put(JOURNAL, disk.content(JOURNAL)[: len(disk.content(JOURNAL)) // 2])
    disk.capacity_bytes = sum(len(disk.content(path)) for path in disk.files()) + 100
    with pytest.raises(DiskFullError, match=r"to start with .* MiB are free; .* needs up to 1 MiB") as raised:
        open_store(disk, SETTINGS)
    assert "start again" in str(raised.value)
    assert "accepted again" not in str(raised.value)
    disk.capacity_bytes = None
    store = open_store(disk, SETTINGS)
    assert found_in(store) == sent
    assert "lost 0 messages that are in no log" in caplog.text
    assert "is not in the logs is lost" not in caplog.text
