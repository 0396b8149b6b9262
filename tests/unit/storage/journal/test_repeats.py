"""Messages that producers number: a repeat is known, within a block, over blocks, and over restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.core.sequences import NOWHERE, AppendedSpan, ProducerMark, StoredLocation, Verdict
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.format.record import Sequences
from pytubemq.storage.journal import windows as windows_module
from pytubemq.storage.journal.windows import WindowChanges, Windows
from pytubemq.testing.disk import FaultyDisk
from tests.unit.storage.helpers import (
    NOW_MS,
    SMALL,
    columns,
    commit,
    messages,
    open_store,
    payloads,
    send,
    send_pack,
)

if TYPE_CHECKING:
    from pytubemq.storage.journal.staging import Appended

FIRST = ProducerMark(9, 1, 0)


def test_a_repeated_message_stands_once_and_gets_the_number_it_has() -> None:
    store = open_store(FaultyDisk())
    first = send(store, b"a", b"b", producer=FIRST)
    again = send(store, b"a", b"b", b"c", producer=FIRST)
    assert [item.repeated for item in again] == [True, True, False]
    assert [(item.offset, item.message_id, item.code) for item in again[:2]] == [
        (item.offset, item.message_id, 200) for item in first
    ]
    assert again[2].offset == 2 * OFFSET_UNIT
    assert payloads(store) == [b"a", b"b", b"c"]
    stored = messages(store)[1]
    assert (stored.producer_id, stored.producer_epoch, stored.sequence) == (9, 1, 1)


def test_each_repeated_message_is_counted_once_however_it_came() -> None:
    store = open_store(FaultyDisk())
    bodies = [b"%d" % number for number in range(10)]
    send(store, *bodies, producer=FIRST)
    assert store.stats.repeats == 0
    send(store, *bodies[:3], b"new", producer=FIRST._replace(sequence=7))
    assert store.stats.repeats == 3
    send_pack(store, *bodies[:4], b"new", producer=FIRST._replace(sequence=7))
    assert store.stats.repeats == 7
    staging = store.staging()
    staging.append_run("demo", 0, bodies[:2], 0, -1, producer=FIRST)
    commit(store, staging)
    assert store.stats.repeats == 9
    # What an older epoch sends is refused, and no repeat.
    send(store, b"new", producer=FIRST._replace(epoch=2))
    send(store, b"old", producer=FIRST)
    assert store.stats.repeats == 9


def test_a_repeat_in_the_same_block_is_known() -> None:
    store = open_store(FaultyDisk())
    staging = store.staging()
    for mark in (FIRST, FIRST._replace(sequence=1), FIRST):
        staging.append("demo", 0, b"%d" % mark.sequence, 0, -1, producer=mark)
    staging.append_batch("demo", 0, columns([b"1", b"2"]), producer=FIRST._replace(sequence=1))
    first, second, third, pack = commit(store, staging)
    assert not first.repeated  # type: ignore[union-attr]
    assert third.repeated  # type: ignore[union-attr]
    assert third.offset == first.offset == 0  # type: ignore[union-attr]
    assert pack.spans == (  # type: ignore[union-attr]
        AppendedSpan(1, 200, OFFSET_UNIT, second.message_id, repeated=True),  # type: ignore[union-attr]
        AppendedSpan(1, 200, 2 * OFFSET_UNIT, second.message_id + 1),  # type: ignore[union-attr]
    )
    assert payloads(store) == [b"0", b"1", b"2"]


def test_a_pack_that_is_known_in_part_is_stored_in_part() -> None:
    store = open_store(FaultyDisk())
    [whole] = send_pack(store, *[b"%d" % number for number in range(5)], producer=FIRST._replace(sequence=10))
    spans = send_pack(store, *[b"%d" % number for number in range(8)], producer=FIRST._replace(sequence=8))
    # Eight of them, 8 to 15: two that come before, five that are there, one behind.
    assert [(span.messages, span.repeated) for span in spans] == [(2, False), (5, True), (1, False)]
    assert (spans[1].first_offset, spans[1].first_message_id) == (0, whole.first_message_id)
    assert [span.first_offset // OFFSET_UNIT for span in spans] == [5, 0, 7]
    assert [(message.sequence, message.payload) for message in messages(store)][5:] == [
        (8, b"0"), (9, b"1"), (15, b"7"),
    ]  # fmt: skip


def test_partitions_and_producers_do_not_know_each_other() -> None:
    store = open_store(FaultyDisk())
    send(store, b"a", producer=FIRST)
    assert not send(store, b"a", producer=FIRST, partition_id=1)[0].repeated
    assert not send(store, b"a", producer=FIRST._replace(producer_id=10))[0].repeated


def test_an_older_epoch_is_refused_and_a_newer_one_starts_anew() -> None:
    store = open_store(FaultyDisk())
    send(store, b"a", b"b", producer=FIRST)
    [newer] = send(store, b"A", producer=ProducerMark(9, 2, 0))
    assert (newer.code, newer.repeated, newer.offset) == (200, False, 2 * OFFSET_UNIT)
    [late] = send(store, b"c", producer=FIRST._replace(sequence=2))
    assert (late.code, late.offset) == (403, NOWHERE)
    assert "epoch 1" in late.text
    assert "epoch 2" in late.text
    [span] = send_pack(store, b"c", b"d", producer=FIRST._replace(sequence=2))
    assert (span.messages, span.code, span.first_offset) == (2, 403, NOWHERE)
    assert payloads(store) == [b"a", b"b", b"A"]


def test_what_cannot_be_told_from_a_repeat_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.core.sequences.MAX_GAPS", 2)
    store = open_store(FaultyDisk())
    for sequence in (0, 10, 20):
        send(store, b"x", producer=FIRST._replace(sequence=sequence))
    [refused] = send(store, b"x", producer=FIRST._replace(sequence=5))
    assert (refused.code, refused.offset) == (400, NOWHERE)
    assert "below 10" in refused.text
    assert len(payloads(store)) == 3


def test_an_abandoned_batch_is_no_repeat_when_it_comes_again() -> None:
    store = open_store(FaultyDisk())
    staging = store.staging()
    staging.append("demo", 0, b"a", 0, -1, producer=FIRST)
    store.abandon(store.prepare(staging, NOW_MS))
    assert not send(store, b"a", producer=FIRST)[0].repeated


@pytest.mark.parametrize("end", ["kill", "crash", "close"])
@pytest.mark.parametrize("settled", ["journal", "applied", "checkpoint"])
def test_repeats_are_known_over_a_restart(end: str, settled: str) -> None:
    disk = FaultyDisk(seed=3)
    store = open_store(disk, SMALL)
    sent: list[Appended] = []
    for number in range(20):
        sent += send(store, b"%02d" % number * 50, producer=FIRST._replace(sequence=number))
        if settled == "applied" or (settled == "checkpoint" and number == 12):
            store.apply() if settled == "applied" else store.checkpoint()
    send_pack(store, b"p", b"q", producer=ProducerMark(77, 0, 5))
    known = store._state.windows.snapshot()
    getattr(store if end == "close" else disk, end)()
    store = open_store(disk, SMALL)
    assert store._state.windows.snapshot() == known
    assert list(store._state.windows.snapshot()) == list(known), "the longest silent first"
    again = [send(store, b"x", producer=FIRST._replace(sequence=number))[0] for number in range(20)]
    assert [(item.offset, item.message_id, item.repeated) for item in again] == [
        (item.offset, item.message_id, True) for item in sent
    ]
    assert send_pack(store, b"p", b"q", producer=ProducerMark(77, 0, 5))[0].repeated
    assert len(payloads(store)) == 22


def test_a_dropped_topic_takes_its_windows_along() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    send(store, b"a", producer=FIRST)
    store.checkpoint()
    store.drop("demo")
    for _ in range(2):
        store.ensure_partition("demo", 0)
        assert not store._state.windows.snapshot()
        store.close()
        store = open_store(disk)
    assert not send(store, b"a", producer=FIRST)[0].repeated


def test_the_longest_silent_producer_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(windows_module, "MAX_WINDOWS", 5)
    known = Windows()

    def store(topic: str, producer_id: int, sequence: int = 0) -> None:
        known.replay([Sequences(topic, 0, producer_id, 0, StoredLocation(sequence, 1, sequence, sequence))])

    for producer_id in (1, 2, 3, 4):
        store("a", producer_id)
    store("a", 1, 1)
    for producer_id in (1, 2, 3):
        store("b", producer_id)
    assert list(known.snapshot()) == [("a", 0, 4), ("a", 0, 1), ("b", 0, 1), ("b", 0, 2), ("b", 0, 3)]
    assert known.forgotten == 2
    assert [record.args[:3] for record in caplog.records] == [(1, 2, "a")]  # type: ignore[index]
    known.forget("b")
    assert list(known.snapshot()) == [("a", 0, 4), ("a", 0, 1)]
    assert known.snapshot(without="a") == {}
    assert known.forgotten == 2


def test_however_many_producers_a_partition_has_each_is_known_when_it_comes_again() -> None:
    known = Windows()
    for producer_id in range(1, 3001):
        known.replay([Sequences("a", 0, producer_id, 7, StoredLocation(0, 1, producer_id, producer_id))])
    noted = WindowChanges(known)
    for producer_id in range(1, 3001):
        assert [found.verdict for found in noted.judge("a", 0, ProducerMark(producer_id, 7, 0), 1)] == [
            Verdict.REPEATED
        ]
    assert [found.verdict for found in noted.judge("a", 0, ProducerMark(1, 2, 0), 1)] == [Verdict.FENCED]


def test_producers_with_gaps_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_module, "MAX_WINDOW_PARTS", 22)
    known = Windows()
    for producer_id in range(4):
        for number in range(6):
            known.replay([Sequences("a", 0, producer_id, 0, StoredLocation(number * 2, 1, number, number))])
    windows = known.snapshot()
    # Two of six stretches each: the one that was silent longest has only the newest places, the others are gone.
    assert [key[2] for key in windows] == [2, 3]
    assert [len(window.runs) for window in windows.values()] == [6, 6]
    assert windows["a", 0, 2].places == [StoredLocation(number * 2, 1, number, number) for number in range(2, 6)]
    assert len(windows["a", 0, 3].places) == 6
