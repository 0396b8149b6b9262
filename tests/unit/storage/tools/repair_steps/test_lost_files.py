"""Messages whose log and index are gone come back from the journal, and nothing that is not theirs does."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.storage.tools.check.findings import Severity
from pytubemq.storage.tools.repair import plan, repair
from pytubemq.storage.tools.verify import verify
from tests.support.properties import examples
from tests.unit.storage.tools.making import LARGE, NOW_MS, Messages, fill, held_in

if TYPE_CHECKING:
    from pathlib import Path

MANY_FILES = StoreSettings(segment_bytes=300, reserve_bytes=0)
"""Several segments, and a journal that keeps everything."""


def repaired(root: Path, name: str = "repair-1") -> Messages:
    """What is there after a repair that must have helped, and done what was foreseen."""
    foreseen = plan(root)
    done = repair(root, root / name)
    assert done.done == foreseen.done
    after = verify(root)
    assert after.is_sound, after.findings
    assert plan(root).done == []
    BrokerStore.open(root, settings=LARGE).close()
    return held_in(root)


def send(store: BrokerStore, *bodies: bytes, now_ms: int = NOW_MS) -> None:
    """Have each stored as a message of demo:0."""
    staging = store.staging()
    for body in bodies:
        staging.append("demo", 0, body, 0, -1)
    prepared = store.prepare(staging, now_ms)
    store.write(prepared)
    store.publish(prepared)


def made(root: Path, bodies: list[bytes], *, now_ms: int = NOW_MS) -> None:
    """A store with these messages in demo:0, closed; a topic demo that is there goes before."""
    store = BrokerStore.open(root, settings=LARGE)
    if store.partitions():
        store.drop("demo")
    store.ensure_partition("demo", 0)
    send(store, *bodies, now_ms=now_ms)
    store.close()


def break_something_else(root: Path) -> None:
    """Damage that has nothing to do with messages."""
    path = root / "checkpoint"
    path.write_bytes(path.read_bytes()[:-1] + b"?")


@pytest.mark.parametrize("close", [True, False], ids=["clean stop", "killed"])
@pytest.mark.parametrize("what", ["logs/demo/0", "logs/demo", "logs"])
def test_a_directory_that_is_gone_is_made_from_the_journal(tmp_path: Path, what: str, close: bool) -> None:
    root = tmp_path / "broker-1"
    kept = fill(root, settings=MANY_FILES, close=close)
    before = {path: path.read_bytes() for path in sorted((root / "logs").rglob("*.log"))}
    shutil.rmtree(root / what)
    told = [one.what for one in verify(root).findings if one.severity is Severity.DAMAGE]
    assert told
    assert all("the journal has all these messages" in text for text in told)
    assert repaired(root) == kept
    assert not verify(root).findings, "nothing is lost, and nothing is said to be"
    if close:
        after = b"".join(path.read_bytes()[64:] for path in sorted((root / "logs").rglob("*.log")))
        assert after == b"".join(data[64:] for data in before.values())


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_files_of_logs_may_be_gone_while_the_journal_has_it_all(memory_path: Path, data: st.DataObject) -> None:
    root = memory_path / "broker-1"
    shutil.rmtree(root, ignore_errors=True)
    kept = fill(root, settings=MANY_FILES, close=data.draw(st.booleans()))
    files = sorted(path for path in (root / "logs").rglob("*") if path.is_file())
    for path in data.draw(st.sets(st.sampled_from(files), min_size=1)):
        path.unlink()
    assert repaired(root) == kept


def test_what_the_journal_does_not_have_is_lost_and_the_rest_is_not(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    store = BrokerStore.open(root, settings=LARGE)
    store.ensure_partition("demo", 0)
    bodies = [b"message %d" % number for number in range(20)]
    for body in bodies:
        send(store, body)
    store.close()
    [journal] = (root / "journal").iterdir()
    journal.write_bytes(journal.read_bytes().replace(b"message 7", b"massage 7"))
    shutil.rmtree(root / "logs/demo/0")
    [told] = [one.what for one in verify(root).findings if one.severity is Severity.DAMAGE]
    assert "the journal has 19 of the 20 messages" in told
    after = repaired(root)
    assert after == {("demo", 0, at * OFFSET_UNIT): body for at, body in enumerate(bodies) if at != 7}
    assert [(one.from_offset, one.messages) for one in verify(root).findings] == [(7 * OFFSET_UNIT, 1)]


def test_journal_files_that_a_repair_put_aside_are_looked_into_by_the_next(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    kept = fill(root, settings=MANY_FILES)
    break_something_else(root)
    assert repaired(root, "repair-20260131T120000Z") == kept
    assert sum(path.stat().st_size for path in (root / "journal").iterdir()) < 1000, "it has no messages any more"
    path = sorted((root / "logs/demo/1").glob("*.log"))[1]
    path.write_bytes(path.read_bytes()[:-3])
    shutil.rmtree(root / "logs/demo/0")
    told = [one.what for one in verify(root).findings if one.severity is Severity.DAMAGE]
    assert told
    assert all("the journal has all these messages" in text for text in told)
    assert repaired(root, "repair-20260131T120001Z") == kept
    assert not verify(root).findings


def test_a_third_repair_finds_what_two_others_put_aside(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    made(root, [b"first %d" % number for number in range(10)])
    break_something_else(root)
    repaired(root, "repair-1")
    store = BrokerStore.open(root, settings=LARGE)
    send(store, *[b"second %d" % number for number in range(10)])
    store.close()
    break_something_else(root)
    kept = repaired(root, "repair-2")
    assert len(kept) == 20
    shutil.rmtree(root / "logs/demo/0")
    assert repaired(root, "repair-3") == kept


def test_of_a_topic_that_was_made_anew_no_earlier_message_comes_back(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    made(root, [b"old %d" % number for number in range(9)])
    made(root, [b"new %d" % number for number in range(6)], now_ms=NOW_MS + 1000)
    shutil.rmtree(root / "logs/demo/0")
    after = repaired(root)
    assert set(after.values()) == {b"new %d" % number for number in range(6)}


def move_the_journal_on(root: Path) -> None:
    """Let the files go that are the store's own; a start makes one of its own, and lets those go that nobody needs."""
    for _ in range(2):
        store = BrokerStore.open(root, settings=LARGE)
        store.ensure_partition("other", 0)
        staging = store.staging()
        staging.append("other", 0, b"something", 0, -1)
        prepared = store.prepare(staging, NOW_MS + 2000)
        store.write(prepared)
        store.publish(prepared)
        store.close()


def numbers(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.journal"))


def test_a_journal_file_aside_proves_nothing_when_those_behind_it_are_gone(tmp_path: Path) -> None:
    """The sizes and offsets are alike, so nothing else could tell the messages of the former topic."""
    root = tmp_path / "broker-1"
    made(root, [b"old %d" % number for number in range(9)])
    break_something_else(root)
    repaired(root, "repair-1")
    made(root, [b"new %d" % number for number in range(9)], now_ms=NOW_MS + 1000)
    move_the_journal_on(root)
    assert max(numbers(root / "repair-1/journal")) + 1 < min(numbers(root / "journal"))
    shutil.rmtree(root / "logs/demo/0")
    assert [key for key in repaired(root, "repair-2") if key[0] == "demo"] == []


def test_a_journal_file_aside_that_ends_with_the_newest_message_is_believed(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    made(root, [b"message %d" % number for number in range(9)])
    break_something_else(root)
    kept = repaired(root, "repair-1")
    move_the_journal_on(root)
    assert max(numbers(root / "repair-1/journal")) + 1 < min(numbers(root / "journal"))
    shutil.rmtree(root / "logs/demo/0")
    assert {key: body for key, body in repaired(root, "repair-2").items() if key[0] == "demo"} == kept


def test_what_else_lies_in_directories_of_earlier_repairs_is_let_be(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    kept = fill(root, settings=MANY_FILES)
    (root / "repair-1").mkdir()
    (root / "repair-1/topics.json").write_text("{}")
    (root / "repair-2").write_text("a file")
    (root / "repair-3").mkdir()
    (root / "repair-3/journal").write_text("a file")
    (root / "repair-4/journal").mkdir(parents=True)
    (root / "repair-4/journal" / f"{1:020d}.journal").write_text("no journal")
    newer = bytearray(next((root / "journal").iterdir()).read_bytes()[:60])
    newer[8] = 99
    (root / "repair-5/journal").mkdir(parents=True)
    (root / "repair-5/journal" / f"{1:020d}.journal").write_bytes(newer + crc32(newer).to_bytes(4, "little"))
    shutil.rmtree(root / "logs/demo/0")
    assert repaired(root, "repair-6") == kept


def test_a_journal_file_whose_head_is_damaged_has_copies_all_the_same(tmp_path: Path) -> None:
    root = tmp_path / "broker-1"
    kept = fill(root, settings=MANY_FILES)
    for path in (root / "journal").iterdir():
        path.write_bytes(bytes(64) + path.read_bytes()[64:])
    shutil.rmtree(root / "logs/demo/0")
    assert repaired(root) == kept
