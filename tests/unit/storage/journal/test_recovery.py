"""Opening a store after a crash, after damage, and beside another process."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

from pytubemq.core.sequences import ProducerMark
from pytubemq.errors import CorruptError, DirectoryLockedError, NewerVersionError, OlderVersionError, StorageError
from pytubemq.model.durability import Durability
from pytubemq.storage.disk.disk import OsDisk
from pytubemq.storage.format.block import BLOCK_MAGIC
from pytubemq.storage.format.header import HEADER_BYTES, VERSION
from pytubemq.storage.format.record import LossReason
from pytubemq.storage.journal import checkpoints
from pytubemq.storage.journal.journal import journal_path
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk, FaultyFile
from tests.unit.storage.helpers import ROOMY, ROOT, SMALL, commit, commit_singles, messages, open_store, payloads, send

if TYPE_CHECKING:
    from pathlib import Path

JOURNAL = ROOT / "journal" / "00000000000000000001.journal"


def _copy(disk: FaultyDisk) -> dict[Path, bytes]:
    return {path: disk.content(path) for path in disk.files()}


def _disk_with(files: dict[Path, bytes]) -> FaultyDisk:
    disk = FaultyDisk()
    for path, data in files.items():
        disk.makedirs(path.parent)
        disk.put(path, data)
    return disk


def test_everything_is_there_after_a_kill_and_offsets_continue() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    before = [*send(store, b"a", b"b", confirm=28), *send(store, b"c")]
    disk.kill()
    again = open_store(disk)
    assert payloads(again) == [b"a", b"b", b"c"]
    assert again.confirmed("g", "demo", 0) == 28
    after = send(again, b"d")
    assert [item.offset for item in before + after] == [0, 28, 56, 84]
    ids = [item.message_id for item in before + after]
    assert ids == sorted(set(ids))
    assert all(0 < item < 1 << 63 for item in ids)


def test_message_ids_rise_when_the_clock_goes_back_over_a_restart() -> None:
    disk = FaultyDisk()
    [first] = send(open_store(disk), b"a")
    disk.kill()
    store = open_store(disk)
    staging = store.staging()
    staging.append("demo", 0, b"b", 0, -1)
    [second] = commit_singles(store, staging, now_ms=1_000_000)
    assert second.message_id > first.message_id


@pytest.mark.slow
def test_a_journal_cut_at_any_byte_keeps_the_whole_blocks_before_it() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    ends = [HEADER_BYTES]
    for number in range(4):
        send(store, b"%d" % number * 5, confirm=number * 28)
        ends.append(len(disk.content(JOURNAL)))
    files = _copy(disk)
    for cut in range(HEADER_BYTES, len(files[JOURNAL]) + 1):
        torn = _disk_with({**files, JOURNAL: files[JOURNAL][:cut]})
        again = open_store(torn)
        kept = max(0, sum(end <= cut for end in ends) - 1)
        assert payloads(again) == [b"%d" % number * 5 for number in range(kept)]
        assert again.confirmed("g", "demo", 0) == ((kept - 1) * 28 if kept else None)
        send(again, b"more")
        torn.kill()
        assert payloads(open_store(torn))[kept:] == [b"more"]


def test_a_flipped_bit_in_the_last_block_cuts_that_block() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"kept")
    start = len(disk.content(JOURNAL))
    send(store, b"lost")
    files = _copy(disk)
    for position in range(start, len(files[JOURNAL])):
        damaged = _disk_with(files)
        damaged.flip_bit(JOURNAL, position, position % 8)
        again = open_store(damaged)
        assert payloads(again) == [b"kept"]
        assert again.stats.cut_bytes == len(files[JOURNAL]) - start


@pytest.mark.slow
def test_a_damaged_block_before_sound_ones_is_passed_over_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    start = HEADER_BYTES
    send(store, b"lost or not", producer=ProducerMark(4, 0, 0), confirm=7)
    end = len(disk.content(JOURNAL))
    send(store, b"sound", producer=ProducerMark(4, 0, 1))
    send(store, b"other", partition_id=1)
    files = _copy(disk)
    outcomes = set()
    for position in range(start, end):
        damaged = _disk_with(files)
        damaged.flip_bit(JOURNAL, position, position % 8)
        caplog.clear()
        for restart in range(3):
            store = open_store(damaged)
            assert payloads(store) == [b"sound"]
            assert payloads(store, 1) == [b"other"]
            assert store.ends("demo", 0) == (0, 56)
            assert [(lost_range.from_offset, lost_range.to_offset) for lost_range in store.lost_ranges()] == [(0, 28)]
            assert store.stats.fenced_messages == 1
            assert bool(store.stats.lost_journal_bytes) == (restart == 0)
            outcomes.add(store.confirmed("g", "demo", 0))
            if restart == 1:
                assert send(store, b"again", producer=ProducerMark(4, 0, 1))[0].offset == 28
            damaged.kill()
        said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert any(f"{JOURNAL} is damaged at byte {start}, for {end - start} bytes" in text for text in said)
        assert any("1 messages of demo:0, offsets 0 to before 28, are lost" in text for text in said)
    assert outcomes == {None, 7}, "of a block whose records are sound only the message is lost"


def test_of_a_damaged_block_only_the_damaged_messages_are_lost() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"first", b"s" * 100, b"third")
    send(store, b"fourth")
    disk.flip_bit(JOURNAL, disk.content(JOURNAL).index(b"s" * 100) + 50)
    disk.kill()
    for _ in range(2):
        store = open_store(disk)
        assert payloads(store) == [b"first", b"third", b"fourth"]
        assert [message.offset for message in messages(store)] == [0, 56, 84]
        [lost_range] = store.lost_ranges()
        assert (lost_range.from_offset, lost_range.to_offset, lost_range.reason) == (28, 56, LossReason.JOURNAL)
        store.close()


def test_damage_at_the_end_of_a_journal_file_that_is_not_the_last_is_passed_over() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    sent = [b"%d" % number * 300 for number in range(6)]
    for payload in sent:
        send(store, payload)
    disk.kill()
    journals = [path for path in disk.files() if path.suffix == ".journal"]
    assert len(journals) > 1
    for shorter in (False, True):
        files = _copy(disk)
        data = files[journals[0]]
        last = data.rindex(BLOCK_MAGIC)
        files[journals[0]] = data[: last + 20] if shorter else data[:last] + bytes([data[last] ^ 1]) + data[last + 1 :]
        damaged = _disk_with(files)
        store = open_store(damaged, SMALL)
        missing = [payload for payload in sent if payload not in payloads(store)]
        assert len(missing) == 1
        assert payloads(store) == [payload for payload in sent if payload not in missing]
        assert store.stats.fenced_messages == 1
        assert send(store, b"on")[0].offset == 6 * 28
        damaged.crash()
        assert payloads(open_store(damaged, SMALL))[-1] == b"on"


def test_a_damaged_journal_header_is_refused() -> None:
    disk = FaultyDisk()
    send(open_store(disk), b"a")
    disk.kill()
    disk.flip_bit(JOURNAL, 3)
    with pytest.raises(CorruptError, match="header fails its check"):
        open_store(disk)


def test_bytes_that_look_like_a_block_inside_a_message_do_not_hide_a_torn_tail() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"a")
    block = disk.content(JOURNAL)[HEADER_BYTES:]
    assert block.startswith(BLOCK_MAGIC)
    send(store, b"x" * 10 + block + b"y" * 1000)
    torn = _disk_with({path: data[:-5] if path == JOURNAL else data for path, data in _copy(disk).items()})
    # The copy is sound by its own check, but claims nothing beyond the block it stands in.
    assert payloads(open_store(torn)) == [b"a"]


def test_a_block_that_was_never_flushed_and_is_damaged_takes_no_later_one_along(
    caplog: pytest.LogCaptureFixture,
) -> None:
    relaxed = StoreSettings(durability=Durability.PROCESS, reserve_bytes=0)
    disk = FaultyDisk()
    store = open_store(disk, relaxed)
    send(store, b"a")
    start = len(disk.content(JOURNAL))
    send(store, b"b")
    send(store, b"c")
    disk.kill()
    disk.flip_bit(JOURNAL, start + 60)
    store = open_store(disk, relaxed)
    assert payloads(store) == [b"a", b"c"]
    assert [(lost_range.from_offset, lost_range.to_offset) for lost_range in store.lost_ranges()] == [(28, 56)]
    assert f"{JOURNAL} is damaged at byte {start}" in caplog.text
    assert "it was not flushed" in caplog.text


def test_what_was_written_but_not_yet_flushed_is_flushed_before_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    class DiedError(BaseException):
        pass

    def die(_: FaultyFile) -> None:
        raise DiedError

    for seed in range(8):
        disk = FaultyDisk(seed=seed)
        store = open_store(disk)
        send(store, b"a")
        with monkeypatch.context() as patch:
            patch.setattr(FaultyFile, "fdatasync", die)
            with pytest.raises(DiedError):
                send(store, b"between write and flush")
        disk.kill()
        seen = payloads(open_store(disk))  # consumers may read this now
        disk.crash()
        assert payloads(open_store(disk)) == seen == [b"a", b"between write and flush"]


@pytest.mark.parametrize("kind", ["journal", "log", "index", "checkpoint"])
@pytest.mark.parametrize("field", ["version", "features", "older version"])
def test_a_file_of_another_version_is_refused_and_left_untouched(kind: str, field: str) -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    for number in range(8):
        send(store, b"%d" % number * 300, confirm=28)
        store.apply()
    store.checkpoint()
    send(store, b"torn")
    disk.kill()
    path = [found for found in disk.files() if found.name.endswith(kind)][-1]
    data = bytearray(disk.content(path))
    if field == "features":
        struct.pack_into("<Q", data, 16, 1 << 9)
    else:
        struct.pack_into("<I", data, 8, VERSION + 1 if field == "version" else VERSION - 1)
    data[HEADER_BYTES - 4 : HEADER_BYTES] = crc32(data[: HEADER_BYTES - 4]).to_bytes(4, "little")
    disk.put(path, bytes(data))
    before = _copy(disk)
    older = field == "older version"
    with pytest.raises(OlderVersionError if older else NewerVersionError) as raised:
        open_store(disk, SMALL)
    assert str(path) in raised.value.message
    assert ("older version" if older else "newer version") in str(raised.value.hint)
    assert _copy(disk) == before


def test_a_missing_journal_or_checkpoint_is_refused_and_named() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    for number in range(8):
        send(store, b"%d" % number * 300)
    store.close()
    files = _copy(disk)
    for path in files:
        if path.parent.name == "journal":
            with pytest.raises(CorruptError, match=f"{path} is missing"):
                open_store(_disk_with({name: data for name, data in files.items() if name != path}), SMALL)
    with pytest.raises(CorruptError, match="missing"):
        open_store(_disk_with({name: data for name, data in files.items() if name.name != "checkpoint"}), SMALL)


def _segments(disk: FaultyDisk) -> tuple[list[bytes], list[Path]]:
    """Eight messages in each of two partitions, in several segments, and one in the journal alone; the killed store's
    messages of partition 0, and its files."""
    store = open_store(disk, SMALL)
    for number in range(8):
        for partition_id in range(2):
            send(store, b"%d" % number * 300, partition_id=partition_id)
    store.checkpoint()
    send(store, b"in the journal alone")
    disk.kill()
    paths = [path for path in disk.files() if path.parent == ROOT / "logs" / "demo" / "0"]
    assert len(paths) >= 4
    return [b"%d" % number * 300 for number in range(8)], paths


def test_a_missing_file_of_a_partition_affects_that_partition_alone() -> None:
    disk = FaultyDisk()
    wanted, paths = _segments(disk)
    files = _copy(disk)
    for path in paths:
        if path.suffix == ".index":
            continue
        lacking = _disk_with({name: data for name, data in files.items() if name != path})
        for restart in range(3):
            store = open_store(lacking, SMALL)
            problem = store.partition_problem("demo", 0)
            assert problem is not None
            assert "/demo/0/" in problem
            assert payloads(store, 1) == [*wanted, *[b"on"] * restart]
            assert store.partition_problem("demo", 1) is None
            for use in (payloads, lambda asked: send(asked, b"x")):
                with pytest.raises(CorruptError) as raised:
                    use(store)
                assert problem in raised.value.message
                assert raised.value.code == 500
            send(store, b"on", partition_id=1)
            store.close() if restart else lacking.kill()
        lacking.put(path, files[path])
        store = open_store(lacking, SMALL)
        assert store.partition_problem("demo", 0) is None
        assert payloads(store) == [*wanted, b"in the journal alone"], "once it is restored"


@pytest.mark.parametrize("closes", [False, True])
def test_a_missing_index_costs_nothing_and_is_named(closes: bool) -> None:
    disk = FaultyDisk()
    wanted, paths = _segments(disk)
    files = _copy(disk)
    indexes = [path for path in paths if path.suffix == ".index"]
    for gone in [*([path] for path in indexes), indexes]:
        lacking = _disk_with({name: data for name, data in files.items() if name not in gone})
        held = [*wanted, b"in the journal alone"]
        for restart in range(3):
            store = open_store(lacking, SMALL)
            problem = store.partition_problem("demo", 0)
            assert problem is not None
            assert str(gone[0]) in problem
            assert "pytubemq store repair" in problem
            assert payloads(store) == held
            assert store.lost_ranges() == []
            assert send(store, b"%d" % restart)[0].offset == 28 * len(held)
            held.append(b"%d" % restart)
            store.close() if closes else lacking.kill()


@pytest.mark.slow
def test_a_damaged_head_of_a_segment_costs_nothing_and_is_named() -> None:
    disk = FaultyDisk()
    wanted, paths = _segments(disk)
    files = _copy(disk)
    for path in paths:
        for position in range(HEADER_BYTES):
            damaged = _disk_with(files)
            damaged.flip_bit(path, position, position % 8)
            store = open_store(damaged, SMALL)
            problem = store.partition_problem("demo", 0)
            assert problem is not None
            assert problem.startswith(f"{path} is damaged at byte 0")
            assert payloads(store) == [*wanted, b"in the journal alone"]
            assert store.lost_ranges() == []
            send(store, b"more")
            store.close()
            store = open_store(damaged, SMALL)
            assert payloads(store) == [*wanted, b"in the journal alone", b"more"]
            assert store.partition_problem("demo", 0) == problem
            store.close()
            damaged.put(path, files[path])
            assert open_store(damaged, SMALL).partition_problem("demo", 0) is None


@pytest.mark.parametrize("cut", [1, 30, 48, 200, 400, 10_000])
def test_a_segment_s_file_that_is_too_short_costs_what_is_missing_and_is_named(cut: int) -> None:
    disk = FaultyDisk()
    wanted, paths = _segments(disk)
    files = _copy(disk)
    for path in paths:
        damaged = _disk_with(files)
        damaged.put(path, files[path][:-cut] if cut < len(files[path]) else b"")
        for _ in range(2):
            store = open_store(damaged, SMALL)
            problem = store.partition_problem("demo", 0)
            assert problem is not None
            assert str(path) in problem
            found = payloads(store)
            lost = {
                at for lost_range in store.lost_ranges() for at in range(lost_range.from_ordinal, lost_range.to_ordinal)
            }
            assert found[: 8 - len(lost)] == [body for at, body in enumerate(wanted) if at not in lost]
            assert found[8 - len(lost)] == b"in the journal alone"
            if path.suffix == ".index":
                assert lost == set(), "the log has all"
            elif cut < 300:
                assert len(lost) == 1
            assert payloads(store, 1) == wanted
            send(store, b"more")
            store.close()


def test_a_segment_s_file_that_is_too_long_costs_nothing() -> None:
    disk = FaultyDisk()
    wanted, paths = _segments(disk)
    files = _copy(disk)
    for path in paths:
        for more in (b"x", bytes(48), bytes(1000), files[path][-96:]):
            damaged = _disk_with(files)
            damaged.put(path, files[path] + more)
            store = open_store(damaged, SMALL)
            assert payloads(store) == [*wanted, b"in the journal alone"]
            assert store.lost_ranges() == []
            store.close()
            assert payloads(open_store(damaged, SMALL)) == [*wanted, b"in the journal alone"]


def test_two_damaged_heads_of_a_segment_are_told_by_its_first_entry() -> None:
    disk = FaultyDisk()
    wanted, paths = _segments(disk)
    for path in paths:
        disk.flip_bit(path, 9)
    store = open_store(disk, SMALL)
    assert payloads(store) == [*wanted, b"in the journal alone"]
    assert "more of its files are damaged" in (store.partition_problem("demo", 0) or "")


def test_a_partition_without_its_directory_affects_that_partition_alone() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    for partition_id in range(2):
        send(store, b"a", partition_id=partition_id)
    store.close()
    lacking = _disk_with({path: data for path, data in _copy(disk).items() if path.parent.name != "0"})
    for _ in range(2):
        store = open_store(lacking)
        assert store.partition_problem("demo", 0) == f"{ROOT}/logs/demo/0 is missing; it should hold 1 messages"
        assert payloads(store, 1) == [b"a"]
        store.close()


def test_a_clean_restart_replays_nothing() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"a", b"b", confirm=28)
    store.close()
    store.close()
    again = open_store(disk)
    assert again.stats.replayed_messages == 0
    assert payloads(again) == [b"a", b"b"]
    assert dict(again.positions()) == {("g", "demo", 0): 28}


def test_a_large_journal_is_replayed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.storage.store.store_recovery._REPLAY_BYTES", 500)
    disk = FaultyDisk()
    store = open_store(disk)
    for number in range(20):
        send(store, b"%02d" % number * 100)
    disk.kill()
    again = open_store(disk)
    assert again.applied_bytes > 0
    assert [found[:2] for found in payloads(again)] == [b"%02d" % number for number in range(20)]
    disk.kill()
    assert len(messages(open_store(disk))) == 20


@pytest.mark.parametrize("in_a_block", [1, 20])
def test_of_small_messages_a_start_replays_no_more_than_it_has_time_for(
    in_a_block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "monotonic", lambda: 0.0)  # no rest after a checkpoint that took long
    monkeypatch.setattr(checkpoints, "_TOUCHED_S", 0.0)
    disk = FaultyDisk()
    most_s = 0.002
    store = open_store(disk, replace(ROOMY, replay_s=most_s), partitions=4)
    before, begun_s = store.checkpoints, store._applier._checkpoints.published_s
    for _ in range(400):
        staging = store.staging()
        for at in range(in_a_block):
            staging.append("demo", at % 4, b"x", 0, -1)
        commit(store, staging)
        store.apply()
    runs = 400 * min(4, in_a_block)
    whole_s = 400 * checkpoints._BLOCK_S + runs * checkpoints._RUN_S + 400 * in_a_block * checkpoints._RECORD_S
    assert store._applier._checkpoints.published_s - begun_s == pytest.approx(whole_s)
    assert store.checkpoints - before == pytest.approx(whole_s / most_s, rel=0.2)
    disk.kill()
    again = open_store(disk, ROOMY, partitions=4)
    assert again.stats.replayed_messages <= 400 * in_a_block * most_s / whole_s * 1.1
    assert sum(again.ends("demo", partition_id)[1] for partition_id in range(4)) == 28 * 400 * in_a_block


def test_old_journal_files_go_and_new_ones_are_made() -> None:
    disk = FaultyDisk()
    store = open_store(disk, SMALL)
    for number in range(30):
        send(store, b"%02d" % number * 100)
        store.apply()
    journals = [path for path in disk.files() if path.suffix == ".journal"]
    assert len(journals) == 1
    assert int(journals[0].stem) > 3
    assert len([path for path in disk.files() if path.suffix == ".log"]) > 2
    assert [found[:2] for found in payloads(store)] == [b"%02d" % number for number in range(30)]
    disk.crash()
    assert len(payloads(open_store(disk, SMALL))) == 30


def test_two_stores_on_one_directory_are_refused(tmp_path: Path) -> None:
    store = BrokerStore.open(tmp_path / "broker-1", settings=ROOMY)
    with pytest.raises(DirectoryLockedError, match=r"broker-1 is in use by process \d+") as caught:
        BrokerStore.open(tmp_path / "broker-1", settings=ROOMY)
    assert caught.value.__cause__ is None, "what the system says of a lock helps nobody"
    store.close()
    BrokerStore.open(tmp_path / "broker-1", settings=ROOMY).close()


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=r"cannot use .*file") as raised:
        BrokerStore.open(tmp_path / "file", disk=OsDisk())
    assert raised.value.hint


def test_a_failed_start_gives_the_lock_back() -> None:
    disk = FaultyDisk()
    send(open_store(disk), b"a")
    disk.kill()
    disk.flip_bit(JOURNAL, 3)
    for _ in range(2):
        with pytest.raises(CorruptError):
            open_store(disk)


@pytest.mark.parametrize("when", ["/logs/", "/journal/"])
@pytest.mark.parametrize("seed", range(10))
def test_a_checkpoint_knows_no_confirm_of_messages_that_power_loss_may_take(
    monkeypatch: pytest.MonkeyPatch, when: str, seed: int
) -> None:
    """What is confirmed while a checkpoint is made may lie in a journal file that is not flushed."""
    relaxed = StoreSettings(durability=Durability.PROCESS, reserve_bytes=0, journal_segment_bytes=1500)
    disk = FaultyDisk(seed=seed)
    store = open_store(disk, relaxed)
    send(store, b"first", confirm=28)
    store.apply()
    flush, busy = FaultyFile.fdatasync, False

    def flush_and_go_on(file: FaultyFile) -> None:
        nonlocal busy
        flush(file)
        if not busy and when in str(file._path):
            busy = True
            send(store, b"x" * 1400)
            send(store, b"in the next file", confirm=84)

    monkeypatch.setattr(FaultyFile, "fdatasync", flush_and_go_on)
    store.checkpoint()
    assert busy
    assert store.confirmed("g", "demo", 0) == 84
    monkeypatch.undo()
    disk.crash()
    again = open_store(disk, relaxed)
    confirmed = again.confirmed("g", "demo", 0)
    assert confirmed is not None
    assert confirmed <= again.ends("demo", 0)[1]


def test_padding_behind_the_last_block_is_no_torn_end() -> None:
    disk = FaultyDisk()
    settings = StoreSettings(reserve_bytes=0, journal_padding_bytes=4096)
    store = open_store(disk, settings)
    send(store, b"a")
    path = journal_path(ROOT / "journal", 1)
    assert len(disk.content(path)) == 4096
    send(store, b"b")
    assert len(disk.content(path)) == 4096
    disk.kill()
    store = open_store(disk, settings)
    assert store.stats.cut_bytes == 0
    assert store.stats.replayed_messages == 2


def test_a_torn_block_in_the_padding_is_cut() -> None:
    disk = FaultyDisk()
    settings = StoreSettings(reserve_bytes=0, journal_padding_bytes=4096)
    store = open_store(disk, settings)
    send(store, b"a")
    path = journal_path(ROOT / "journal", 1)
    written = bytearray(disk.content(path))
    disk.kill()
    written[3000:3010] = b"left over!"
    disk.put(path, bytes(written))
    store = open_store(disk, settings)
    assert store.stats.cut_bytes > 0
    assert store.stats.replayed_messages == 1
