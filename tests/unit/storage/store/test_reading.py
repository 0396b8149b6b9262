"""Reads of mixed records: from memory and from disk, by any limits, from inside a pack, by codes and by time."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.unit.storage.helpers import NOW_MS, SMALL, columns, commit, open_store, payloads, send, send_pack, split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.storage.store.store import BrokerStore

UNLIMITED = 1 << 30


def mixed(store: BrokerStore, kinds: Sequence[int], *, first_ms: int = NOW_MS) -> list[tuple[bytes, int]]:
    """Records of so many messages, 0 a single one; every second pack has mixed codes. Payload and code of each."""
    sent: list[tuple[bytes, int]] = []
    for at, messages in enumerate(kinds):
        staging = store.staging()
        codes = [(len(sent) + number if at % 2 else at) % 3 for number in range(max(1, messages))]
        bodies = [b"%d:" % (len(sent) + number) + b"x" * (7 * at % 40) for number in range(max(1, messages))]
        if messages:
            staging.append_batch("demo", 0, columns(bodies, codes=codes if at % 2 else codes[0]))
        else:
            staging.append("demo", 0, bodies[0], 0, codes[0])
        commit(store, staging, now_ms=first_ms + at * 1000)
        sent += zip(bodies, codes, strict=True)
    return sent


@given(
    kinds=st.lists(st.integers(0, 9), min_size=1, max_size=25),
    start=st.floats(0, 1),
    length=st.none() | st.integers(1, 40),
    max_bytes=st.integers(1, 3000),
    max_messages=st.integers(1, 30),
    codes=st.none() | st.frozensets(st.integers(0, 2)),
    check=st.booleans(),
    applied=st.booleans(),
)
def test_any_read_gives_whole_records_from_the_message_wanted_to_a_limit(
    kinds: list[int],
    start: float,
    length: int | None,
    max_bytes: int,
    max_messages: int,
    codes: frozenset[int] | None,
    check: bool,
    applied: bool,
) -> None:
    store = open_store(FaultyDisk(), StoreSettings(segment_bytes=900, reserve_bytes=0, check_on_read=check))
    sent = mixed(store, kinds)
    if applied:
        store.checkpoint()
    first = int(start * (len(sent) - 1))
    stop = len(sent) if length is None else min(len(sent), first + length)
    ordinal = first
    taken: list[bytes] = []
    while ordinal < stop:
        piece = store.read(
            "demo",
            0,
            ordinal * OFFSET_UNIT,
            end_offset=stop * OFFSET_UNIT,
            max_bytes=max_bytes,
            max_messages=max_messages,
            codes=codes,
        )
        records = b"".join(piece.parts)
        assert (piece.start_offset, piece.payload_bytes, piece.skipped) == (ordinal * OFFSET_UNIT, len(records), 0)
        assert piece.next_offset > piece.start_offset
        found = [message for message in split(records) if (message.offset or 0) >= ordinal * OFFSET_UNIT]
        assert len(found) == piece.count
        assert piece.count <= max_messages or found[0].append_time == found[-1].append_time, "more than one record"
        assert piece.has_batches == (b"\xda\x3e" in records)
        for message in found:
            assert message.offset is not None
            assert message.payload == sent[message.offset // OFFSET_UNIT][0]
        taken += [message.payload for message in found if (message.offset or 0) // OFFSET_UNIT < stop]
        ordinal = piece.next_offset // OFFSET_UNIT
    wanted = [payload for payload, code in sent[first:stop] if codes is None or code in codes]
    if codes is None:
        assert taken == wanted
    else:  # a pack of mixed codes comes whole
        assert [payload for payload in taken if payload in set(wanted)] == wanted
        own = {payload: code for payload, code in sent}
        others = [payload for payload in taken if own[payload] not in codes]
        at_of = [at for at, messages in enumerate(kinds) for _ in range(max(1, messages))]
        number_of = {payload: number for number, (payload, _) in enumerate(sent)}
        assert all(at_of[number_of[payload]] % 2 and kinds[at_of[number_of[payload]]] for payload in others)


@pytest.mark.parametrize("applied", [False, True])
def test_a_read_from_inside_a_pack_begins_with_the_whole_pack(applied: bool) -> None:
    store = open_store(FaultyDisk())
    send(store, b"single")
    send_pack(store, *(b"%d" % number for number in range(10)))
    send(store, b"behind")
    if applied:
        store.checkpoint()
    piece = store.read("demo", 0, 5 * OFFSET_UNIT, max_bytes=UNLIMITED, max_messages=UNLIMITED)
    assert (piece.start_offset, piece.next_offset, piece.count, piece.has_batches) == (5 * 28, 12 * 28, 7, True)
    found = split(b"".join(piece.parts))
    assert [message.offset for message in found] == [number * 28 for number in range(1, 12)]
    assert store.read("demo", 0, 5 * OFFSET_UNIT, max_bytes=1, max_messages=1).next_offset == 11 * 28
    assert not store.read("demo", 0, 11 * OFFSET_UNIT, max_bytes=UNLIMITED, max_messages=UNLIMITED).has_batches


def test_a_reader_that_goes_forward_does_not_search_again() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    rng = Random(3)
    mixed(store, [rng.randrange(2, 9) for _ in range(400)])
    store.checkpoint()
    store.read("demo", 0, 28 * 700, max_bytes=1, max_messages=1)  # whoever begins in the middle has to search
    before = disk.calls[Operation.READ]
    offset, reads = store.read("demo", 0, 28 * 700, max_bytes=1, max_messages=1).next_offset, 0
    while offset < store.ends("demo", 0)[1]:
        offset, reads = store.read("demo", 0, offset, max_bytes=1, max_messages=1).next_offset, reads + 1
    assert reads > 100
    assert disk.calls[Operation.READ] - before <= 2 * reads + 20, "one read of the index and one of the log, each time"


def test_where_a_time_begins_is_found_in_memory_and_on_disk() -> None:
    store = open_store(FaultyDisk(), SMALL)
    kinds = [0, 5, 0, 0, 12, 3, 0, 7, 30, 0, 0, 4] * 4
    assert store.offset_at("demo", 0, NOW_MS) == 0
    mixed(store, kinds[:30])
    store.checkpoint()
    assert len(store._partitions["demo", 0].segments) > 2
    mixed(store, kinds[30:], first_ms=NOW_MS + 30_000)
    starts = [sum(max(1, messages) for messages in kinds[:at]) * OFFSET_UNIT for at in range(len(kinds) + 1)]
    for at in range(len(kinds)):
        assert store.offset_at("demo", 0, NOW_MS + at * 1000) == starts[at]
        assert store.offset_at("demo", 0, NOW_MS + at * 1000 - 999) == starts[at]
    assert store.offset_at("demo", 0, 0) == 0
    assert store.offset_at("demo", 0, NOW_MS + len(kinds) * 1000) == starts[-1] == store.ends("demo", 0)[1]


def test_a_time_that_does_not_rise_is_found_at_its_first_message() -> None:
    store = open_store(FaultyDisk(), SMALL)
    for _ in range(3):
        mixed(store, [0, 3] * 6)  # the clock goes back each time: times stay as they are
    store.checkpoint()
    last = NOW_MS + 11_000
    offset = store.offset_at("demo", 0, last)
    assert offset == 21 * 28
    assert len(payloads(store)) == 72
