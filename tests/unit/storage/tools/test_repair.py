"""A repair leaves a store that is sound, that a Broker opens, and that has every message whose bytes were not hit."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytubemq.errors import DirectoryLockedError, StorageError
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.journal.staging import Appended
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.storage.tools.check.findings import Severity
from pytubemq.storage.tools.read.read_only_store import open_read_only
from pytubemq.storage.tools.repair import plan, repair
from pytubemq.storage.tools.verify import verify
from tests.support.properties import examples
from tests.unit.storage.tools.making import LARGE, NOW_MS, Messages, fill, held_in

HYPOTHESIS = settings(
    max_examples=examples(120), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
ROUND = re.compile(rb"round (\d+)")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("master") / "broker-1"
    fill(root, close=False)
    return root


@pytest.fixture(scope="module")
def held(master: Path) -> Messages:
    return held_in(master)


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and path.name != "lock")


def content(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "lock"}


def fresh(master: Path, tmp_path: Path) -> Path:
    shutil.rmtree(tmp_path / "broker-1", ignore_errors=True)
    shutil.rmtree(tmp_path / "copies", ignore_errors=True)
    return Path(shutil.copytree(master, tmp_path / "broker-1"))


def repaired(root: Path, tmp_path: Path) -> Messages:
    """What is there after a repair, which must have helped."""
    foreseen = plan(root)
    done = repair(root, tmp_path / "copies")
    assert done.done == foreseen.done
    after = verify(root)
    assert after.is_sound, after.findings
    assert plan(root).done == []
    BrokerStore.open(root, settings=LARGE).close()
    return held_in(root)


@HYPOTHESIS
@given(data=st.data())
def test_any_damaged_byte_costs_what_it_hit_and_no_more(
    master: Path, held: Messages, memory_path: Path, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(files(master)))
    at = data.draw(st.integers(0, path.stat().st_size - 1))
    root = fresh(master, memory_path)
    place = root / path.relative_to(master)
    damaged = bytearray(place.read_bytes())
    damaged[at] ^= data.draw(st.integers(1, 255))
    place.write_bytes(damaged)
    after = repaired(root, memory_path)
    assert after.items() <= held.items()
    lost = held.keys() - after.keys()
    if path.suffix not in (".log", ".journal") or at < HEADER_BYTES:
        assert not lost
    elif path.suffix == ".log":  # one record
        assert len({(topic, partition_id) for topic, partition_id, _ in lost}) <= 1
        assert len(lost) in (0, 1, 4)
    else:  # one record, or where the block's own records are hit, the block
        assert len({ROUND.search(held[key])[1] for key in lost}) <= 1  # type: ignore[index]
    with open_read_only(root) as store:
        for lost_range in store.lost_ranges():
            assert not {(lost_range.topic, lost_range.partition_id, offset) for offset in range(
                lost_range.from_offset, lost_range.to_offset, 28)} & after.keys()  # fmt: skip
        if path.suffix != ".journal":
            assert store.confirmed("readers", "demo", 1) == 10 * 28


@HYPOTHESIS
@given(data=st.data())
def test_whatever_happened_to_files_the_rest_is_right(
    master: Path, held: Messages, memory_path: Path, data: st.DataObject
) -> None:
    root = fresh(master, memory_path)
    for path in data.draw(st.lists(st.sampled_from(files(root)), min_size=1, max_size=4, unique=True)):
        how = data.draw(st.sampled_from(["gone", "cut", "hit", "log and index gone"]))
        if how == "log and index gone" and path.suffix in (".log", ".index"):
            path.with_suffix(".log").unlink(missing_ok=True)
            path.with_suffix(".index").unlink(missing_ok=True)
        elif how == "gone":
            path.unlink(missing_ok=True)
        if not path.exists():
            continue
        at = data.draw(st.integers(0, path.stat().st_size - 1))
        damaged = bytearray(path.read_bytes())
        if how == "cut":
            del damaged[at:]
        else:
            damaged[at : at + 5] = data.draw(st.binary(min_size=1, max_size=9))
        path.write_bytes(damaged)
    if not verify(root).is_sound:
        after = repaired(root, memory_path)
        assert after.items() <= held.items()


def test_what_is_changed_is_copied_before_and_a_plan_changes_nothing(master: Path, tmp_path: Path) -> None:
    root = fresh(master, tmp_path)
    path = root / "logs/demo/1" / f"{0:020d}.index"
    path.write_bytes(path.read_bytes()[:100])
    before = content(root)
    foreseen = plan(root)
    assert content(root) == before
    assert path in foreseen.changed
    repair(root, tmp_path / "copies")
    after = content(root)
    for changed in (one for one in before if after.get(one) != before[one]):
        assert (tmp_path / "copies" / changed.relative_to(root)).read_bytes() == before[changed]


def test_a_sound_store_is_left_alone(master: Path, tmp_path: Path) -> None:
    root = fresh(master, tmp_path)
    before = content(root)
    assert repair(root, tmp_path / "copies").done == []
    assert content(root) == before
    assert not (tmp_path / "copies").exists()


def test_an_index_that_is_gone_is_built_anew(master: Path, held: Messages, tmp_path: Path) -> None:
    root = fresh(master, tmp_path)
    for path in root.rglob("*.index"):
        path.unlink()
    assert repaired(root, tmp_path) == held


def test_a_checkpoint_that_is_gone_is_made_from_logs_and_journal(master: Path, held: Messages, tmp_path: Path) -> None:
    root = fresh(master, tmp_path)
    (root / "checkpoint").unlink()
    assert repaired(root, tmp_path) == held
    with open_read_only(root) as store:
        assert store.confirmed("readers", "demo", 1) == 10 * 28, "the journal tells it"


def test_ids_rise_also_where_the_checkpoint_and_the_journal_are_gone(master: Path, tmp_path: Path) -> None:
    root = fresh(master, tmp_path)
    (root / "checkpoint").unlink()
    shutil.rmtree(root / "journal")
    repaired(root, tmp_path)
    store = BrokerStore.open(root, settings=LARGE)
    staging = store.staging()
    staging.append("demo", 0, b"new", 0, -1)
    prepared = store.prepare(staging, 0)
    store.write(prepared)
    [made] = store.publish(prepared)
    store.close()
    assert isinstance(made, Appended)
    assert made.message_id > NOW_MS << 22


def test_a_damaged_header_of_a_journal_costs_nothing(master: Path, held: Messages, tmp_path: Path) -> None:
    root = fresh(master, tmp_path)
    for path in (root / "journal").iterdir():
        path.write_bytes(bytes(HEADER_BYTES) + path.read_bytes()[HEADER_BYTES:])
    assert repaired(root, tmp_path) == held


def test_the_store_goes_on_behind_a_hole(master: Path, held: Messages, tmp_path: Path) -> None:
    root = fresh(master, tmp_path)
    path = root / "logs/demo/0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes().replace(b"single 1 of round 0", b"single X of round 0"))
    after = repaired(root, tmp_path)
    assert held.keys() - after.keys() == {("demo", 0, 28)}
    assert [(one.severity, one.from_offset) for one in verify(root).findings] == [(Severity.FENCED, 28)]
    store = BrokerStore.open(root, settings=LARGE)
    staging = store.staging()
    staging.append("demo", 0, b"new", 0, -1)
    prepared = store.prepare(staging, NOW_MS)
    store.write(prepared)
    store.publish(prepared)
    store.close()
    assert held_in(root)["demo", 0, max(offset for _, number, offset in held if number == 0) + 28] == b"new"


def test_a_file_that_is_cut_in_the_place_of_lost_messages_is_made_whole(master: Path, tmp_path: Path) -> None:
    root = fresh(master, tmp_path)
    for path in (*(root / "journal").iterdir(), *(root / "logs/demo/0").glob("*.log")):
        path.write_bytes(path.read_bytes().replace(b"single", b"sangle"))
    held = repaired(root, tmp_path)
    path = sorted((root / "logs/demo/0").glob("*.log"))[0]
    shutil.rmtree(tmp_path / "copies")
    path.write_bytes(path.read_bytes()[:-20])
    [finding] = [one for one in verify(root).findings if one.severity is Severity.DAMAGE]
    assert (finding.path, finding.size_bytes) == (path, 20)
    assert repaired(root, tmp_path) == held


@pytest.mark.parametrize("how", ["hit", "short", "gone", "noticed before"])
def test_a_damaged_record_is_put_back_from_a_journal_file_that_still_has_it(tmp_path: Path, how: str) -> None:
    root = tmp_path / "broker-1"
    whole = StoreSettings(reserve_bytes=0)  # one journal file, which is not trimmed before it is full
    kept = fill(root, settings=whole)
    path = root / "logs/demo/0" / f"{0:020d}.log"
    data = path.read_bytes()
    damaged = data.replace(b"single 1 of round 0", b"single X of round 0")
    assert damaged != data
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(data[:-30] if how == "short" else damaged)
    if how == "noticed before":
        store = BrokerStore.open(root, settings=StoreSettings(reserve_bytes=0))
        store.read("demo", 0, 0, max_messages=10, max_bytes=100_000)
        assert store.lost_ranges()
        store.close()
    assert repaired(root, tmp_path) == kept
    assert path.read_bytes() == data
    assert not verify(root).findings, "nothing is lost, and nothing is said to be"


def test_a_directory_that_a_broker_has_is_refused(master: Path, tmp_path: Path) -> None:
    root = fresh(master, tmp_path)
    store = BrokerStore.open(root, settings=LARGE)
    try:
        with pytest.raises(DirectoryLockedError):
            plan(root)
        with pytest.raises(DirectoryLockedError):
            repair(root, tmp_path / "copies")
    finally:
        store.close()


@pytest.mark.parametrize("place", ["logs/{topic}/0", "logs/{topic}", "journal"])
def test_a_file_in_the_place_of_a_directory_is_named_beforehand_and_nothing_is_changed(
    master: Path, tmp_path: Path, place: str
) -> None:
    root = fresh(master, tmp_path)
    topic = next(path.name for path in sorted((root / "logs").iterdir()) if (path / "0").is_dir())
    in_the_way = root / place.format(topic=topic)
    shutil.rmtree(in_the_way)
    in_the_way.write_text("not a directory")
    before = content(root)
    assert not verify(root).is_sound
    for attempt in (partial(plan, root), partial(repair, root, tmp_path / "copies")):
        with pytest.raises(StorageError, match="needs a directory") as raised:
            attempt()
        assert str(in_the_way) in raised.value.message
        assert "move the file out" in (raised.value.hint or "")
    assert content(root) == before
    assert not (tmp_path / "copies").exists()
    in_the_way.unlink()
    repaired(root, tmp_path)


def test_verify_says_that_a_file_is_where_a_directory_was(master: Path, tmp_path: Path) -> None:
    root = fresh(master, tmp_path)
    directory = next(path for path in sorted((root / "logs").glob("*/*")) if path.is_dir())
    shutil.rmtree(directory)
    directory.write_text("")
    said = [finding.what for finding in verify(root).findings if finding.path == directory]
    assert [what.partition(";")[0] for what in said] == ["messages have no file: a file is where their directory was"]
