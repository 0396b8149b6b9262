"""Bytes of a stopped Broker's files go bad, anywhere: it is found, never given out, and costs what it hit and no more.

A hundred places by default, ten thousand with `--soak`, each on a copy of the same small store. For every one of them:
the store either refuses to open and names the file, leaving all as it was, or it opens, delivers every message whose
bytes are sound at its own offset, and says how many it skipped. Opened again it is the same: no start makes it
worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from pytubemq.core.sequences import ProducerMark
from pytubemq.errors import Code, CorruptError, OffsetMovedError, StorageError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.format.index import INDEX_BYTES, RecordKind, decode_index_entry
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk
from pytubemq.wire.batch.record_batch import RECORD_BATCH_TAG
from pytubemq.wire.protocol.extensions import OURS, Capability
from tests.scenario.broker.packs import pack, send_packs
from tests.scenario.broker.support import connected, running
from tests.unit.storage.helpers import columns, split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.storage.journal.staging import Staging
    from pytubemq.wire.batch.stored import StoredMessage
    from tests.support.soaking import Part

ROOT: Final = Path("/data/broker-1")
SETTINGS: Final = StoreSettings(
    segment_bytes=6000, journal_segment_bytes=5000, journal_padding_bytes=512, reserve_bytes=0
)
PARTITIONS: Final = [("a", 0), ("a", 1), ("b", 0)]
HEADER_BYTES: Final = 64
NOW_MS: Final = 1_790_000_000_000

Place = tuple[str, int, int]
"""Topic, partition id, ordinal."""


@dataclass
class Original:
    """A store as a killed Broker left it: some of it is in the logs, some in the journal alone."""

    files: dict[Path, bytes]
    payloads: dict[Place, bytes]
    positions: list[dict[tuple[str, str, int], int]]
    """All that was ever confirmed, the newest last."""
    blocks: list[tuple[Path, int, int, set[Place]]]
    """Journal file, first byte, byte behind, and what stands in it and in no log."""
    replay_from: tuple[Path, int]


def build_store(rounds: int = 140, checkpoint_at: int = 100) -> Original:
    rng = Random(5)
    disk = FaultyDisk()
    store = BrokerStore.open(ROOT, disk=disk, settings=SETTINGS)
    for partition in PARTITIONS:
        store.ensure_partition(*partition)
    found = Original({}, {}, [{}], [], (ROOT, 0))
    sequences = dict.fromkeys(PARTITIONS, 0)
    applied = dict.fromkeys(PARTITIONS, 0)
    for at in range(rounds):
        if at == checkpoint_at:
            store.checkpoint()
            applied = {partition: store.ends(*partition)[1] // OFFSET_UNIT for partition in PARTITIONS}
            found.blocks.clear()
            found.replay_from = store._writer._journal.path, store._writer._journal.end
        staging = store.staging()
        before = store._writer._journal.path, store._writer._journal.end
        added: set[Place] = set()
        for _ in range(rng.randrange(1, 4)):
            added |= stage(store, staging, rng, sequences, found)
        if at % 3 == 0:
            staging.confirm("g", "a", 0, at * OFFSET_UNIT)
        prepared = store.prepare(staging, NOW_MS + at)
        store.write(prepared)
        store.publish(prepared)
        found.positions.append(dict(store.positions()))
        path = store._writer._journal.path
        start = before[1] if before[0] == path else HEADER_BYTES
        in_journal = {place for place in added if place[2] >= applied[place[0], place[1]]}
        found.blocks.append((path, start, store._writer._journal.end, in_journal))
    disk.kill()
    found.files = {path: disk.content(path) for path in disk.files()}
    return found


def stage(
    store: BrokerStore, staging: Staging, rng: Random, sequences: dict[tuple[str, int], int], found: Original
) -> set[Place]:
    """A message or a pack, numbered by its producer or not; where each message will be."""
    topic, partition_id = rng.choice([key for key in PARTITIONS if key not in staging.staged])
    bodies = [rng.randbytes(rng.randrange(5, 60)) for _ in range(rng.randrange(1, 6))]
    first = store.ends(topic, partition_id)[1] // OFFSET_UNIT
    mark = None
    if rng.random() < 0.5:
        mark = ProducerMark(7, 1, sequences[topic, partition_id])
        sequences[topic, partition_id] += len(bodies)
    if rng.random() < 0.5:
        codes = list(range(len(bodies))) if rng.random() < 0.5 else rng.randrange(3)
        staging.append_batch(topic, partition_id, columns(bodies, codes=codes), producer=mark)
    else:
        for at, body in enumerate(bodies):
            own = None if mark is None else mark._replace(sequence=mark.sequence + at)
            staging.append(topic, partition_id, body, 0, -1, producer=own)
    places = {(topic, partition_id, first + at): body for at, body in enumerate(bodies)}
    found.payloads |= places
    return set(places)


def may_be_lost(original: Original, path: Path, start: int, end: int) -> set[Place]:
    """The messages whose own bytes lie in [start, end) of a file."""
    lost: set[Place] = set()
    if path.suffix == ".log":
        topic, partition_id = path.parent.parent.name, int(path.parent.name)
        index = original.files[path.with_suffix(".index")][HEADER_BYTES:]
        base = decode_index_entry(index, 0)
        assert base is not None
        for at in range(len(index) // INDEX_BYTES):
            entry = decode_index_entry(index, at)
            assert entry is not None
            first = HEADER_BYTES + entry.position - base.position
            if first < end and start < first + entry.size_bytes:
                lost |= {(topic, partition_id, ordinal) for ordinal in range(entry.first_ordinal, entry.end_ordinal)}
    for journal, first, stop, places in original.blocks:
        if journal == path and first < end and start < stop:
            lost |= places
    return lost


def damage(original: Original, rng: Random) -> tuple[Path, int, bytes]:
    """A random place: the file, where, and what stands there now instead."""
    path = rng.choice([path for path, data in original.files.items() if data and path.name != "lock"])
    data = original.files[path]
    at = rng.randrange(len(data))
    shape = rng.randrange(3)
    if shape == 0:
        return path, at, bytes([data[at] ^ 1 << rng.randrange(8)])
    if shape == 1:
        return path, at, bytes(byte ^ rng.randrange(1, 256) for byte in data[at : at + rng.randrange(1, 9)])
    return path, at, bytes(len(data[at : at + 64]))


def touches_reads(index: bytes, at: int, count: int) -> bool:
    """True if damage is in anything that a read of single messages without a filter takes from an index.

    It takes neither times, filter codes and kinds nor the checks of the entries; lookups by time and reads with a
    filter prove each entry that they come across.
    """
    if at < HEADER_BYTES or (at - HEADER_BYTES) // INDEX_BYTES != (at + count - 1 - HEADER_BYTES) // INDEX_BYTES:
        return True
    number, first = divmod(at - HEADER_BYTES, INDEX_BYTES)
    entry = decode_index_entry(index[HEADER_BYTES:], number)
    assert entry is not None
    damaged = set(range(first, first + count))
    return entry.kind != RecordKind.SINGLE or not damaged <= {*range(16, 24), *range(32, 36), *range(40, 48)}


def opened(disk: FaultyDisk) -> BrokerStore | None:
    """The store; None if it refuses, which it must not do before it has left all as it was."""
    before = {path: disk.content(path) for path in disk.files() if path.name != "lock"}
    store, refusal = None, None
    try:
        store = BrokerStore.open(ROOT, disk=disk, settings=SETTINGS)
    except CorruptError as error:
        refusal = error
    if store is None:
        assert refusal is not None
        assert str(ROOT) in refusal.message, "the file is named"
        assert refusal.hint
        assert {path: disk.content(path) for path in disk.files() if path.name != "lock"} == before
        return None
    for partition in PARTITIONS:
        store.ensure_partition(*partition)
    return store


def delivered(store: BrokerStore) -> tuple[dict[Place, bytes], dict[tuple[str, int], str], int]:
    """All that readers get, partitions that refuse with their reason, and how many messages are said to be lost."""
    found: dict[Place, bytes] = {}
    refused: dict[tuple[str, int], str] = {}
    lost = 0
    for topic, partition_id in PARTITIONS:
        offset, end = store.ends(topic, partition_id)
        while offset < end:
            try:
                piece = store.read(topic, partition_id, offset, max_bytes=2000, max_messages=50)
            except OffsetMovedError:
                raise
            except StorageError as error:
                refused[topic, partition_id] = error.message
                break
            assert piece.next_offset > offset
            for ordinal, payload in contents(b"".join(piece.parts)):
                found[topic, partition_id, ordinal] = payload
            lost += piece.skipped
            offset = piece.next_offset
    return found, refused, lost


@lru_cache(maxsize=4096)
def contents(blob: bytes) -> list[tuple[int, bytes]]:
    """Ordinal and payload of each message; the same bytes are read many times, as little of a store is damaged."""
    found: list[tuple[int, bytes]] = []
    for message in split(blob):
        assert message.offset is not None
        found.append((message.offset // OFFSET_UNIT, message.payload))
    return found


def check_one(original: Original, path: Path, at: int, instead: bytes) -> str:
    """See that this damage is found and costs no more than it must; says how it was found."""
    disk = FaultyDisk()
    disk.makedirs(ROOT)
    for other, data in original.files.items():
        disk.makedirs(other.parent)
        disk.put(other, data)
    data = original.files[path]
    if data[at : at + len(instead)] == instead:
        return "unchanged"
    disk.put(path, data[:at] + instead + data[at + len(instead) :])
    store = opened(disk)
    if store is None:
        assert opened(disk) is None
        return "refused to open"
    found, refused, lost = delivered(store)
    for place, payload in found.items():
        assert payload == original.payloads[place], f"{place} is not what was sent"
    missing = {place for place in original.payloads if place not in found}
    if refused:
        [key] = refused
        assert str(path.parent) in refused[key] or str(path) in refused[key], "the file is named"
        assert store.partition_problem(*key) is not None
        assert {place[:2] for place in missing} <= {key}, "other partitions are all there"
        how = "partition refused"
    else:
        hit = may_be_lost(original, path, at, at + len(instead))
        assert missing <= hit, f"sound messages are missing: {sorted(missing - hit)[:3]}"
        told = sum(lost_range.messages for lost_range in store.lost_ranges())
        # Of a partition that no later block speaks of nobody knows how far it reached: that bytes are lost is said.
        cut = store.stats.cut_bytes > 0 or store.stats.lost_journal_bytes > 0
        ends = {key: store.ends(*key)[1] // OFFSET_UNIT for key in PARTITIONS}
        inside = [place for place in missing if place[2] < ends[place[:2]]]
        assert lost == told == len(inside), "all that is missing is counted"
        assert cut or len(inside) == len(missing), "what is missing at an end was in the journal, and that is said"
        if told:
            how = "fenced"
        elif store.stats.repaired_entries:
            how = "mended"
        elif cut:
            how = "cut"
        elif any(str(path) in (store.partition_problem(*key) or "") for key in PARTITIONS):
            how = "named"
        elif path.suffix == ".index" and not touches_reads(data, at, len(instead)):
            how = "not read"
        else:
            journal, replay_from = original.replay_from
            assert path.suffix == ".journal", f"{path} was not found damaged"
            assert path < journal or at < replay_from, "what is replayed is checked"
            how = "not needed any more"
    assert dict(store.positions()) in original.positions
    store.close()
    again = opened(disk)
    assert again is not None, "what could be opened once can be opened again"
    found_again, refused_again, _ = delivered(again)
    assert (found_again, refused_again.keys()) == (found, refused.keys())
    again.close()
    return how


@pytest.mark.timeout(1800)
def test_damage_anywhere_is_found_and_costs_what_it_hit(part: Part, soak: bool) -> None:
    original = build_store()
    rng = Random(1)
    ways: dict[str, int] = {}
    for path, at, instead in part.of([damage(original, rng) for _ in range(10_000 if soak else 100)]):
        try:
            how = check_one(original, path, at, instead)
        except BaseException as error:
            error.add_note(f"damaged: {path} at byte {at}, {len(instead)} bytes")
            raise
        ways[how] = ways.get(how, 0) + 1
    assert {"refused to open", "fenced", "mended"} <= set(ways), ways


@pytest.mark.timeout(1800)
def test_no_flipped_bit_of_a_small_store_changes_anything_in_silence(part: Part, soak: bool) -> None:
    original = build_store(rounds=6, checkpoint_at=3)
    kinds = {path.suffix for path, data in original.files.items() if data} - {""}
    assert kinds == {".journal", ".log", ".index"}
    ways: dict[str, set[str]] = {}
    for path, at, bit in part.of(small_places(original, soak=soak)):
        instead = bytes([original.files[path][at] ^ 1 << bit])
        try:
            how = check_one(original, path, at, instead)
        except BaseException as error:
            error.add_note(f"damaged: bit {bit} of {path} at byte {at}")
            raise
        ways.setdefault(path.suffix or path.name, set()).add(how)
    assert ways["checkpoint"] == {"refused to open"}, "it is named, and a repair makes another"
    assert ways[".log"] <= {"named", "fenced"}
    assert ways[".index"] <= {"named", "mended"}
    assert ways[".journal"] <= {"refused to open", "fenced", "cut", "not needed any more"}


def small_places(original: Original, *, soak: bool) -> Iterator[tuple[Path, int, int]]:
    """Every bit with its file and byte in a soak, else one bit of every ninth byte."""
    for path, data in original.files.items():
        for at in range(0, len(data) if path.name != "lock" else 0, 1 if soak else 9):
            for bit in range(8) if soak else [at % 8]:
                yield path, at, bit


@pytest.mark.anyio
async def test_a_consumer_is_led_past_a_damaged_record_and_gets_all_others() -> None:
    disk = FaultyDisk()
    checked = StoreSettings(reserve_bytes=0)
    async with running(disk, store=checked) as broker, connected(broker) as peer:
        for number in range(10):
            await peer.send(b"message %d" % number)
    [log] = [path for path in disk.files() if path.suffix == ".log"]
    disk.flip_bit(log, disk.content(log).index(b"message 4"))
    async with running(disk, store=checked) as broker, connected(broker) as peer:
        await peer.register()
        found: list[StoredMessage] = []
        while len(found) < 9:
            head, messages = await peer.get(last_pack_consumed=True, max_messages=3)
            assert head.err_code == Code.SUCCESS
            found += messages
        assert [(message.offset, message.payload) for message in found] == [
            (number * OFFSET_UNIT, b"message %d" % number) for number in range(10) if number != 4
        ]
        assert (await peer.get(last_pack_consumed=True))[0].err_code == Code.NOT_FOUND, "it stands at the end"
        assert (await peer.send(b"more")).append_offset == 10 * OFFSET_UNIT
        assert [message.payload for message in (await peer.get())[1]] == [b"more"]
        assert any("lost" in problem for problem in broker.health()["problems"])


@pytest.mark.anyio
@pytest.mark.parametrize("where", [-1, 2, 6, 60], ids=["body", "length", "head", "columns"])
async def test_a_damaged_pack_is_counted_by_its_messages_for_a_consumer_that_knows_no_packs(where: int) -> None:
    """Nothing is checked when it is read, so the pack is found damaged when it is taken apart."""
    disk, new = FaultyDisk(), OURS | Capability.PACKS
    async with running(disk) as broker, connected(broker, capabilities=new) as peer:
        for number in range(4):
            await send_packs(peer, pack(*[b"%d %d" % (number, at) for at in range(30)]))
    [log] = [path for path in disk.files() if path.suffix == ".log"]
    content = disk.content(log)
    begins = content.index(RECORD_BATCH_TAG, content.index(b"0 29"))
    disk.flip_bit(log, content.index(b"1 29") if where < 0 else begins + where)
    async with running(disk) as broker, connected(broker, capabilities=OURS & ~Capability.PACKS) as peer:
        await peer.register()
        found: list[StoredMessage] = []
        while (answer := await peer.get(last_pack_consumed=True))[0].err_code == Code.SUCCESS:
            found += answer[1]
        assert [message.offset for message in found] == [28 * at for at in [*range(30), *range(60, 120)]]
        assert broker._state is not None
        assert broker._state.counters.skipped_messages == 30
        assert broker._state.store.stats.fenced_messages == 30
        assert any("messages lost to damage: 30" in problem for problem in broker.health()["problems"])
