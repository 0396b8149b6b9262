"""Verify finds damage wherever it is, says where, and changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytubemq.errors import CorruptError, DirectoryLockedError, OlderVersionError, StorageError
from pytubemq.storage.format.checkpoint import read_checkpoint
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.index import INDEX_BYTES
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.tools.check.findings import Severity
from pytubemq.storage.tools.read.store_access import ReadingDisk
from pytubemq.storage.tools.verify import verify
from tests.support.properties import examples
from tests.unit.storage.tools.making import LARGE, fill, held_in

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("master") / "broker-1"
    fill(root, close=False)
    return root


@pytest.fixture
def root(master: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(master, tmp_path / "broker-1"))


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and path.name != "lock")


def content(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_sound_store_has_no_findings_and_stays_as_it_is(root: Path) -> None:
    before = content(root)
    found = verify(root)
    assert [finding for finding in found.findings if finding.severity is not Severity.HARMLESS] == []
    assert found.partitions == 2
    assert found.read_bytes > 2000
    assert content(root) == before


def test_a_directory_that_a_broker_has_is_refused(root: Path) -> None:
    store = BrokerStore.open(root, settings=LARGE)
    try:
        with pytest.raises(DirectoryLockedError):
            verify(root)
    finally:
        store.close()


def test_a_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="holds no Broker's store"):
        verify(tmp_path)


def test_an_older_version_is_refused(root: Path) -> None:
    path = next(path for path in files(root) if path.suffix == ".log")
    data = bytearray(path.read_bytes())
    data[8] = 1
    data[60:64] = crc32(data[:60]).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(OlderVersionError, match="version 1"):
        verify(root)


def needless(root: Path) -> Iterator[tuple[Path, range]]:
    """Bytes that nobody needs: of the journal before the checkpoint, of logs behind it."""
    checkpoint = read_checkpoint(ReadingDisk(), root)
    assert checkpoint is not None
    journal = root / "journal" / f"{checkpoint.journal:020d}.journal"
    yield journal, range(HEADER_BYTES, checkpoint.journal_position)
    for path in (root / "journal").iterdir():
        if int(path.stem) < checkpoint.journal:
            yield path, range(path.stat().st_size)
    for (topic, partition_id), end in checkpoint.ends.items():
        directory = root / "logs" / topic / str(partition_id)
        for path in directory.glob("*.log"):
            if int(path.stem) >= end.ordinal:
                yield path, range(path.stat().st_size)
                yield path.with_suffix(".index"), range(path.stat().st_size)
        last = max(
            (path for path in directory.glob("*.log") if int(path.stem) < end.ordinal), key=lambda path: path.stem
        )
        base = int.from_bytes(last.read_bytes()[32:40], "little")
        yield last, range(HEADER_BYTES + end.position - base, last.stat().st_size)
        yield last.with_suffix(".index"), range(HEADER_BYTES + end.last_records * INDEX_BYTES, 1 << 30)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_damaged_byte_is_found_unless_nobody_needs_it(master: Path, memory_path: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(files(master)))
    at = data.draw(st.integers(0, path.stat().st_size - 1))
    damaged = bytearray(path.read_bytes())
    damaged[at] ^= data.draw(st.integers(1, 255))
    root = memory_path / "broker-1"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(master, root)
    place = root / path.relative_to(master)
    place.write_bytes(damaged)
    found = verify(root)
    if any(path == one and at in places for one, places in needless(master)):
        assert held_in(root) == held_in(master)
        return
    assert not found.is_sound, (path.name, at)
    assert any(finding.path in (place, place.parent) for finding in found.findings), (path.name, at)


def test_a_damaged_record_is_told_with_file_byte_and_offsets(root: Path) -> None:
    path = root / "logs/demo/0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    at = data.index(b"single 1 of round 0")
    data[at] ^= 1
    path.write_bytes(data)
    [finding] = [one for one in verify(root).findings if one.severity is Severity.DAMAGE]
    assert (finding.path, finding.topic, finding.partition_id) == (path, "demo", 0)
    assert (finding.from_offset, finding.to_offset, finding.messages) == (28, 56, 1)
    assert finding.position <= at < finding.position + finding.size_bytes


@pytest.mark.parametrize("name", ["log", "index"])
def test_a_missing_file_is_named(root: Path, name: str) -> None:
    path = root / "logs/demo/1" / f"{0:020d}.{name}"
    path.unlink()
    assert path in {finding.path for finding in verify(root).findings}


def test_a_missing_journal_file_and_a_missing_checkpoint_are_named(root: Path) -> None:
    checkpoint = root / "checkpoint"
    journal = min((root / "journal").iterdir())
    journal.unlink()
    assert not verify(root).is_sound
    checkpoint.unlink()
    assert checkpoint in {finding.path for finding in verify(root).findings}


def test_one_topic_is_checked_alone(root: Path) -> None:
    path = root / "logs/demo/0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:70])
    assert not verify(root, topic="demo").is_sound
    assert verify(root, topic="other").is_sound


def test_what_a_broker_refuses_is_found(root: Path) -> None:
    path = root / "checkpoint"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptError):
        BrokerStore.open(root, settings=LARGE)
    assert not verify(root).is_sound


def test_findings_beyond_a_bound_are_counted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.storage.tools.verify.MAX_FINDINGS", 2)
    for path in root.rglob("*.index"):
        path.write_bytes(path.read_bytes()[:HEADER_BYTES] + bytes(path.stat().st_size - HEADER_BYTES))
    found = verify(root)
    assert len(found.findings) == 2
    assert found.unlisted > 0
    assert not found.is_sound
