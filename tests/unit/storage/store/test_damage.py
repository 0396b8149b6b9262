"""Damage that readers meet: what is sound is delivered, what is not is skipped, counted and told once."""

from __future__ import annotations

import errno
import logging
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import CorruptError, StorageError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.format.record import LossReason
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.unit.storage.helpers import NOW_MS, ROOT, open_store, send, send_pack, split

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.store.store import BrokerStore

CHECKED = StoreSettings(reserve_bytes=0)
UNCHECKED = StoreSettings(reserve_bytes=0, check_on_read=False, check_packs_on_read=False)
PARTITION = ROOT / "logs" / "demo" / "0"


def log_path(base: int = 0) -> Path:
    return PARTITION / f"{base:020d}.log"


def index_path(base: int = 0) -> Path:
    return PARTITION / f"{base:020d}.index"


def filled(disk: FaultyDisk, settings: StoreSettings = CHECKED) -> tuple[BrokerStore, list[bytes]]:
    """A store with singles and packs in one segment on disk, and all its payloads."""
    store = open_store(disk, settings)
    sent: list[bytes] = []
    for at in range(12):
        bodies = [b"%d " % (len(sent) + number) + bytes(20) for number in range(at % 4 or 1)]
        if at % 4:
            send_pack(store, *bodies, codes=list(range(len(bodies))) if at % 3 else 5)
        else:
            send(store, *bodies)
        sent += bodies
    store.checkpoint()
    return store, sent


def read_all(store: BrokerStore, partition_id: int = 0) -> tuple[dict[int, bytes], int]:
    """What a reader gets of a partition, by ordinal, and how many messages it was told are lost."""
    found: dict[int, bytes] = {}
    lost = 0
    offset, end = store.ends("demo", partition_id)
    while offset < end:
        piece = store.read("demo", partition_id, offset, max_bytes=150, max_messages=100)
        assert piece.next_offset > offset
        for message in split(b"".join(piece.parts)):
            assert message.offset is not None
            found[message.offset // OFFSET_UNIT] = message.payload
        lost += piece.skipped
        offset = piece.next_offset
    return found, lost


def test_a_record_that_fails_its_check_is_passed_over_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk()
    store, sent = filled(disk)
    at = disk.content(log_path()).index(sent[5])
    disk.flip_bit(log_path(), at)
    with caplog.at_level(logging.ERROR):
        first, lost = read_all(store)
        again, lost_again = read_all(store)
    [lost_range] = store.lost_ranges()
    assert lost_range.from_ordinal <= 5 < lost_range.to_ordinal
    assert (lost_range.topic, lost_range.partition_id, lost_range.reason) == ("demo", 0, LossReason.RECORD)
    kept = {
        number: payload
        for number, payload in enumerate(sent)
        if not lost_range.from_ordinal <= number < lost_range.to_ordinal
    }
    assert first == again == kept
    assert lost == lost_again == lost_range.messages == store.stats.fenced_messages
    [told] = caplog.messages
    assert f"offsets {lost_range.from_offset} to before {lost_range.to_offset}" in told
    assert str(log_path()) in told
    assert "demo:0" in told


def test_without_checks_on_read_the_record_is_left_to_its_receiver() -> None:
    disk = FaultyDisk()
    store, sent = filled(disk, UNCHECKED)
    disk.flip_bit(log_path(), disk.content(log_path()).index(sent[0]))
    piece = store.read("demo", 0, 0, max_bytes=1 << 20, max_messages=1000)
    assert (piece.count, piece.skipped, store.lost_ranges()) == (len(sent), 0, [])


@pytest.mark.parametrize("check", [False, True])
def test_any_bit_of_an_index_may_flip_and_nothing_is_lost(check: bool) -> None:
    disk = FaultyDisk()
    store, sent = filled(disk, CHECKED if check else UNCHECKED)
    whole = disk.content(index_path())
    rng = Random(11)
    for _ in range(60):
        position = rng.randrange(64, len(whole))
        disk.put(index_path(), whole)
        disk.flip_bit(index_path(), position, rng.randrange(8))
        store._state.files.forget(index_path())
        store._reader._repaired.clear()
        for codes in (None, frozenset({5, 0, 1, 2, -1})):
            assert read_codes(store, codes) == dict(enumerate(sent)), position
        assert store.offset_at("demo", 0, 1) == 0
    assert store.lost_ranges() == []


def read_codes(store: BrokerStore, codes: frozenset[int] | None) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    offset, end = store.ends("demo", 0)
    while offset < end:
        piece = store.read("demo", 0, offset, max_bytes=150, max_messages=100, codes=codes)
        found |= {(message.offset or 0) // OFFSET_UNIT: message.payload for message in split(b"".join(piece.parts))}
        offset = piece.next_offset
    return found


def test_an_index_that_is_cut_short_is_read_from_the_log() -> None:
    disk = FaultyDisk()
    store, sent = filled(disk)
    disk.put(index_path(), disk.content(index_path())[: 64 + 3 * 48 + 7])
    store._state.files.forget(index_path())
    assert read_all(store) == (dict(enumerate(sent)), 0)
    assert store.stats.repaired_entries == 9


@pytest.mark.parametrize("check", [False, True])
def test_a_log_that_is_cut_short_loses_what_is_missing(check: bool) -> None:
    disk = FaultyDisk()
    store, sent = filled(disk, CHECKED if check else UNCHECKED)
    at = disk.content(log_path()).index(sent[9])
    disk.put(log_path(), disk.content(log_path())[:at])
    store._state.files.forget(log_path())
    found, lost = read_all(store)
    assert found == {
        number: payload for number, payload in enumerate(sent) if number < min(set(range(20)) - set(found))
    }
    assert lost == len(sent) - len(found) == store.stats.fenced_messages
    send(store, b"and on it goes")
    store.checkpoint()
    assert read_all(store)[0][len(sent)] == b"and on it goes"


def test_damage_met_before_a_restart_is_passed_over_behind_it_too() -> None:
    disk = FaultyDisk()
    store, sent = filled(disk)
    disk.flip_bit(log_path(), disk.content(log_path()).index(sent[5]))
    found, lost = read_all(store)
    send(store, b"so that there is something to write down")
    store.close()
    again = open_store(disk, UNCHECKED)  # without checks of its own
    assert [lost_range.messages for lost_range in again.lost_ranges()] == [lost]
    assert again.stats.fenced_messages == lost
    found[len(sent)] = b"so that there is something to write down"
    assert read_all(again) == (found, lost)


def test_index_and_record_damaged_together_lose_that_record_alone() -> None:
    disk = FaultyDisk()
    store, sent = filled(disk)
    disk.flip_bit(log_path(), disk.content(log_path()).index(sent[5]) + 3)
    disk.flip_bit(index_path(), 64 + 3 * 48 + 17)
    found, lost = read_all(store)
    assert lost == len(sent) - len(found)
    assert {number: sent[number] for number in found} == found
    assert set(range(4)) | set(range(8, len(sent))) <= set(found), "the records around it are there"


def test_a_file_that_cannot_be_read_is_named_and_other_partitions_go_on() -> None:
    disk = FaultyDisk()
    store, sent = filled(disk)
    send(store, b"other", partition_id=1)
    store.checkpoint()
    disk.fail(Operation.READ, errno.EIO, path_contains="demo/0/")
    with pytest.raises(StorageError, match=r"demo/0/.* cannot be read: Input/output error"):
        store.read("demo", 0, 0, max_bytes=100, max_messages=10)
    problem = store.partition_problem("demo", 0)
    assert problem is not None
    assert "cannot be read" in problem
    assert store.partition_problem("demo", 1) is None
    assert store.read("demo", 1, 0, max_bytes=100, max_messages=10).count == 1
    assert send(store, b"writing goes on")[0].offset == len(sent) * OFFSET_UNIT
    disk.heal()
    assert read_all(store)[0][0] == sent[0]
    assert store.partition_problem("demo", 0) is None


def test_a_file_that_somebody_took_away_is_named() -> None:
    disk = FaultyDisk()
    store, _ = filled(disk)
    disk.unlink(log_path())
    store._state.files.forget(log_path())
    with pytest.raises(CorruptError, match=r"\.log is missing"):
        store.read("demo", 0, 0, max_bytes=100, max_messages=10)
    problem = store.partition_problem("demo", 0)
    assert problem is not None
    assert problem.endswith(".log is missing")


def test_a_file_that_is_put_back_ends_the_trouble_with_the_next_read() -> None:
    disk = FaultyDisk()
    store, sent = filled(disk)
    content = disk.content(log_path())
    disk.unlink(log_path())
    store._state.files.forget(log_path())
    with pytest.raises(CorruptError, match=r"\.log is missing"):
        store.read("demo", 0, 0, max_bytes=100, max_messages=10)
    disk.put(log_path(), content)
    found, lost = read_all(store)
    assert (list(found.values()), lost) == (sent, 0)
    assert store.partition_problem("demo", 0) is None


def test_a_read_error_is_told_until_what_failed_was_read() -> None:
    disk = FaultyDisk()
    store, _ = filled(disk)
    disk.fail(Operation.READ, times=1, path_contains="demo/0/")
    with pytest.raises(StorageError):
        store.read("demo", 0, 3 * OFFSET_UNIT, max_bytes=1, max_messages=1)
    store.read("demo", 0, 10 * OFFSET_UNIT, max_bytes=1, max_messages=1)
    assert store.partition_problem("demo", 0) is not None, "another part was read"
    store.read("demo", 0, 0, max_bytes=10_000, max_messages=100)
    assert store.partition_problem("demo", 0) is None


def test_a_file_that_cannot_be_opened_is_the_trouble_of_its_partition_alone() -> None:
    disk = FaultyDisk()
    store, _ = filled(disk)
    store.close()
    disk.kill()
    store = open_store(disk, CHECKED)
    disk.fail(Operation.OPEN, errno.EIO, path_contains="demo/0/")
    with pytest.raises(CorruptError, match=r"demo/0/.* cannot be opened: Input/output error"):
        store.read("demo", 0, 0, max_bytes=100, max_messages=10)
    assert send(store, b"other", partition_id=1)[0].code == 200
    disk.heal()
    assert read_all(store)[0]
    assert store.partition_problem("demo", 0) is None


def test_nothing_is_made_up_about_a_partition_that_cannot_be_used() -> None:
    disk = FaultyDisk()
    store, sent = filled(disk)
    store.close()
    disk.kill()
    for path in disk.files():
        if "demo/0/" in str(path):
            disk.unlink(path)
    store = open_store(disk, CHECKED)
    for ask in (partial(store.position_of, "demo", 0, OFFSET_UNIT), partial(store.offset_at, "demo", 0, 1)):
        with pytest.raises(CorruptError, match="is missing"):
            ask()
    assert store.ends("demo", 0) == (0, len(sent) * OFFSET_UNIT)
    assert store.offset_at("demo", 0, NOW_MS + 1) == len(sent) * OFFSET_UNIT, "nothing came so late"


@pytest.mark.parametrize("end", ["closed", "killed"])
def test_a_loss_that_a_reader_met_is_known_after_a_restart(end: str) -> None:
    disk = FaultyDisk()
    store, sent = filled(disk)
    store.close()
    store = open_store(disk, CHECKED)
    disk.flip_bit(log_path(), disk.content(log_path()).index(sent[5]))
    lost = read_all(store)[1]
    assert lost
    before = store.checkpoints
    assert store.apply() == 0
    assert store.checkpoints == before + 1
    store.apply()
    assert store.checkpoints == before + 1, "once"
    if end == "closed":
        store.close()
    else:
        disk.crash()
    again = open_store(disk, CHECKED)
    assert sum(lost_range.messages for lost_range in again.lost_ranges()) == lost
    again.close()


def test_a_loss_that_a_reader_met_is_known_after_a_stop_without_anything_sent() -> None:
    disk = FaultyDisk()
    store, sent = filled(disk)
    store.close()
    store = open_store(disk, CHECKED)
    disk.flip_bit(log_path(), disk.content(log_path()).index(sent[5]))
    lost = read_all(store)[1]
    assert lost
    store.close()
    again = open_store(disk, CHECKED)
    assert sum(lost_range.messages for lost_range in again.lost_ranges()) == lost
    again.close()
