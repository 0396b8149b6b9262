"""A repair where the journal is damaged or gone, and the logs hold messages that no checkpoint knows of yet."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pytubemq.errors import CorruptError, DiskFullError
from pytubemq.storage.disk.disk import OsDisk
from pytubemq.storage.format.checkpoint import read_checkpoint, write_checkpoint
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.store.repair_report import repair_notices
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.tools.check.findings import Severity
from pytubemq.storage.tools.inspect import inspect
from pytubemq.storage.tools.read.overlay import OverlayDisk
from pytubemq.storage.tools.repair import plan, repair
from pytubemq.storage.tools.repair_steps.rewrite import put_checkpoint
from pytubemq.storage.tools.verify import verify
from pytubemq.testing.disk import FaultyDisk
from tests.unit.storage.helpers import ROOT, payloads
from tests.unit.storage.journal.filled import COUNT, JOURNAL, SETTINGS, confirmed, filled, found_in


def put_down(disk: FaultyDisk, root: Path) -> Path:
    """The files of a disk in memory as real ones."""
    for path in disk.files():
        target = root / path.relative_to(ROOT.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(disk.content(path))
    return root / ROOT.name


def damaged(root: Path, how: str) -> None:
    journal = root / "journal" / JOURNAL.name
    data = journal.read_bytes()
    if how == "half":
        journal.write_bytes(data[: len(data) // 2])
    elif how == "gone":
        journal.unlink()
    else:
        journal.write_bytes(data[:HEADER_BYTES] + bytes(byte ^ (at % 97 == 5) for at, byte in enumerate(data[64:])))


@pytest.mark.parametrize("how", ["half", "gone", "bits"])
def test_what_the_journal_lost_and_the_logs_have_is_kept(tmp_path: Path, how: str) -> None:
    disk = FaultyDisk()
    sent = filled(disk, applied=COUNT)
    root = put_down(disk, tmp_path)
    damaged(root, how)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    planned = plan(root)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before, "a plan changes nothing"
    done = repair(root, root / "repair-1")
    assert (done.done, done.lost_ranges) == (planned.done, [])
    assert any("recovered from the logs" in line for line in done.done)
    assert verify(root).is_sound
    assert not list(root.glob("repair-recovery-*"))
    kept = {path.relative_to(root / "repair-1"): path.read_bytes() for path in (root / "repair-1").rglob("*.*")}
    for path, data in before.items():
        if path.suffix in (".log", ".index", ".journal") and path.exists() and path.read_bytes() != data:
            assert kept[path.relative_to(root)] == data, "what was changed can be taken back"
    store = BrokerStore.open(root, settings=SETTINGS)
    assert found_in(store) == sent
    store.close()


@pytest.mark.parametrize("how", ["half", "gone"])
def test_what_neither_has_is_named(tmp_path: Path, how: str) -> None:
    disk = FaultyDisk()
    sent = filled(disk, applied=40)
    root = put_down(disk, tmp_path)
    damaged(root, how)
    done = repair(root, root / "repair-1")
    lost = {
        lost_range.partition_id: range(lost_range.from_ordinal, lost_range.to_ordinal)
        for lost_range in done.lost_ranges
    }
    assert set(lost) == {0, 1}
    assert all(stretch.start >= 20 for stretch in lost.values())
    store = BrokerStore.open(root, settings=SETTINGS)
    for partition_id in range(2):
        kept = [body for at, body in enumerate(sent[partition_id]) if at not in lost[partition_id]]
        assert payloads(store, partition_id) == kept
    store.close()


@pytest.mark.parametrize("leftover", [False, True])
def test_the_logs_alone_are_enough_where_no_journal_file_is_left(tmp_path: Path, leftover: bool) -> None:
    disk = FaultyDisk()
    sent = filled(disk, applied=COUNT)
    root = put_down(disk, tmp_path)
    first = (root / "journal" / JOURNAL.name).read_bytes()
    for path in (root / "journal").iterdir():
        path.unlink()
    if leftover:  # a file in front of the checkpoint does not count
        repair(root, root / "repair-0")
        next((root / "journal").iterdir()).unlink()
        (root / "journal" / JOURNAL.name).write_bytes(first)
    with pytest.raises(CorruptError, match=r"\.journal is missing") as raised:
        BrokerStore.open(root, settings=SETTINGS)
    assert "pytubemq store repair" in str(raised.value)
    found = verify(root)
    assert [one.path.suffix for one in found.findings if one.severity is Severity.DAMAGE] == [".journal"]
    done = repair(root, root / "repair-1")
    assert done.lost_ranges == []
    assert any("is missing" in line for line in done.done)
    store = BrokerStore.open(root, settings=SETTINGS)
    assert found_in(store) == sent
    store.close()


@pytest.mark.parametrize("damage", ["journal header", "checkpoint bit", "checkpoint empty", "checkpoint gone"])
def test_a_start_that_damage_prevents_names_the_command_that_repairs(tmp_path: Path, damage: str) -> None:
    disk = FaultyDisk()
    sent = filled(disk, applied=COUNT)
    root = put_down(disk, tmp_path)
    path = root / "journal" / JOURNAL.name if damage == "journal header" else root / "checkpoint"
    data = bytearray(path.read_bytes())
    data[9] ^= 8
    path.write_bytes(b"" if damage == "checkpoint empty" else data)
    if damage == "checkpoint gone":
        path.unlink()
    with pytest.raises(CorruptError) as raised:
        BrokerStore.open(root, settings=SETTINGS)
    assert "pytubemq store repair" in str(raised.value)
    assert str(path) in str(raised.value)
    repair(root, root / "repair-1")
    store = BrokerStore.open(root, settings=SETTINGS)
    assert found_in(store) == sent
    store.close()


@pytest.mark.parametrize("how", ["tail", "gone"])
def test_a_repair_says_that_positions_may_be_lost_with_the_journal_s_end(tmp_path: Path, how: str) -> None:
    disk = FaultyDisk()
    confirmed(disk)
    root = put_down(disk, tmp_path)
    journals = sorted((root / "journal").iterdir())
    data = journals[-1].read_bytes()
    journals[-1].write_bytes(data[: HEADER_BYTES + (len(data) - HEADER_BYTES) // 2])
    if how == "gone":
        journals[0].unlink()
    done = repair(root, root / "repair-1")
    assert done.lost_ranges == []
    assert done.lost_records is not None
    assert str(journals[0 if how == "gone" else -1]) in done.lost_records


def test_a_repair_keeps_positions_of_a_checkpoint_that_is_newer_than_the_journal_behind_it(tmp_path: Path) -> None:
    disk = FaultyDisk()
    confirmed(disk)
    root = put_down(disk, tmp_path)
    checkpoint = read_checkpoint(OsDisk(), root)
    assert checkpoint is not None
    checkpoint.known_sequence, checkpoint.confirmed = 10_000, {("readers", "demo", 0): 28 * 50}
    write_checkpoint(OsDisk(), root, checkpoint)
    first = bytearray((root / "journal" / JOURNAL.name).read_bytes())
    first[9] ^= 8
    (root / "journal" / JOURNAL.name).write_bytes(first)
    repair(root, root / "repair-1")
    repaired = read_checkpoint(OsDisk(), root)
    assert repaired is not None
    assert repaired.confirmed == {("readers", "demo", 0): 28 * 50}


@pytest.mark.parametrize("fails_at", ["copies", "new files"])
def test_a_repair_that_runs_out_of_space_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    disk = FaultyDisk()
    filled(disk, applied=COUNT)
    root = put_down(disk, tmp_path)
    damaged(root, "half")
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    directories = {path for path in root.rglob("*") if path.is_dir()}

    def full(*paths: object, **__: object) -> None:
        if fails_at == "copies":
            Path(str(paths[1])).write_bytes(b"half a file")
        else:
            put_checkpoint(*paths)  # type: ignore[arg-type]
            if isinstance(paths[0], OverlayDisk):
                return
        raise OSError(errno.ENOSPC, "No space left on device")

    if fails_at == "copies":
        monkeypatch.setattr("pytubemq.storage.tools.repair_steps.rollback.shutil.copy2", full)
    else:
        monkeypatch.setattr("pytubemq.storage.tools.repair.put_checkpoint", full)
    with pytest.raises(DiskFullError, match=r"no space left to write .* as it was before"):
        repair(root, root / "repair-1")
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert {path for path in root.rglob("*") if path.is_dir()} == directories


def test_what_a_repair_may_have_lost_is_named_until_its_report_is_removed(tmp_path: Path) -> None:
    disk = FaultyDisk()
    filled(disk, applied=COUNT)
    root = put_down(disk, tmp_path)
    (root / "checkpoint").unlink()
    found = repair(root, root / "repair-1")
    assert found.report == root / "repair-1.json"
    (notice,) = repair_notices(OsDisk(), root)
    assert notice.startswith("repaired: ")
    assert "positions of groups" in notice
    assert str(found.report) in notice
    kept = {finding.path.name: finding.what for finding in verify(root, beside={}).findings}
    assert "positions of groups" in kept["repair-1.json"]
    assert "copies that a repair made" in kept["repair-1"]
    assert [row["name"] for row in inspect(root).kept] == ["repair-1", "repair-1.json"]
    (root / "repair-recovery-7").mkdir()
    assert "repair-recovery-7" in {row["name"] for row in inspect(root).kept}
    found.report.unlink()
    assert repair_notices(OsDisk(), root) == []


def test_a_repair_without_room_for_its_copies_says_so_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FaultyDisk()
    filled(disk, applied=COUNT)
    root = put_down(disk, tmp_path)
    damaged(root, "half")
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    monkeypatch.setattr(OsDisk, "free_bytes", lambda *_: 1000)
    with pytest.raises(DiskFullError, match=r"no space left to repair .* need up to 1 MiB"):
        repair(root, root / "repair-1")
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
