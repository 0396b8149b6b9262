"""The whole store against a simple model: singles and packs, repeats, filters, times, retention, crashes and faults.

What must hold at any moment, and after every restart, with Durability.DISK: each published message that no retention
and no drop took is there once, at the offset it was given, byte for byte, in order; a repeat is told from a new one;
confirmed offsets are the last published ones; a batch of unknown fate is there as a whole or not at all; nothing else
is.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pytubemq.core.sequences import MAX_PLACES, NOWHERE, ProducerMark
from pytubemq.errors import DiskFailedError, DiskFullError, StorageError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.model.policy import RetentionPolicy
from pytubemq.storage.journal.staging import AppendedRun
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.support.properties import examples, run_machine
from tests.unit.storage.helpers import columns, split

if TYPE_CHECKING:
    from pytubemq.storage.journal.staging import Prepared, Staging
    from tests.support.soaking import Part

ROOT = Path("/data/broker-1")
PARTITIONS = [("a", 0), ("a", 1), ("b", 0)]


class Item(NamedTuple):
    """What is sent at once: messages by themselves, or in a row, or a pack; `producer` 0 numbers nothing."""

    partition: tuple[str, int]
    sizes: list[int]
    is_batch: bool
    is_row: bool
    is_mixed: bool
    producer: int
    gap: int
    back: int
    """So many sequences back: what is sent again, or partly again."""
    epoch: int


ITEMS = st.builds(
    Item,
    st.sampled_from(PARTITIONS),
    st.lists(st.integers(1, 400), min_size=1, max_size=5) | st.lists(st.integers(1, 100), min_size=8, max_size=12),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from([0, 0, 0, 2, 5, 12]),
    st.sampled_from([0, 0, 0, 0, 0, 1, -1]),
)
BATCHES = st.lists(ITEMS, max_size=5)


class Kept(NamedTuple):
    """A message as the model knows it."""

    payload: bytes
    code: int
    comes_always: bool
    """It stands in a pack of mixed codes, which a filter does not take apart."""
    time_ms: int


@dataclass
class Window:
    """What a partition has of a producer."""

    epoch: int
    ordinals: dict[int, int] = field(default_factory=dict)
    sends: int = 0


@dataclass
class Model:
    """What must be there."""

    messages: dict[tuple[str, int], list[Kept]] = field(
        default_factory=lambda: {partition: [] for partition in PARTITIONS}
    )
    firsts: dict[tuple[str, int], int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))
    windows: dict[tuple[tuple[str, int], int], Window] = field(default_factory=dict)
    confirmed: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def copy(self) -> Model:
        """A model that changes on its own; what cannot change is shared, as there is a copy at each step."""
        return Model(
            {partition: list(messages) for partition, messages in self.messages.items()},
            dict(self.firsts),
            {key: Window(one.epoch, dict(one.ordinals), one.sends) for key, one in self.windows.items()},
            dict(self.confirmed),
        )

    def drop(self, topic: str) -> None:
        for partition in PARTITIONS:
            if partition[0] == topic:
                self.messages[partition], self.firsts[partition] = [], 0
        self.windows = {key: window for key, window in self.windows.items() if key[0][0] != topic}
        self.confirmed = {key: offset for key, offset in self.confirmed.items() if key[1] != topic}

    def send(self, partition: tuple[str, int], kept: list[Kept], mark: ProducerMark | None) -> list[tuple[int, int]]:
        """Code and ordinal (NOWHERE if refused) of each message."""
        messages = self.messages[partition]
        outcomes: list[tuple[int, int]] = []
        window = None
        if mark is not None:
            key = (partition, mark.producer_id)
            window = self.windows.get(key)
            if window is None or mark.epoch > window.epoch:
                window = self.windows[key] = Window(mark.epoch)
            if mark.epoch < window.epoch:
                return [(403, NOWHERE)] * len(kept)
            window.sends += 1
        for at, message in enumerate(kept):
            sequence = 0 if mark is None else mark.sequence + at
            if window is not None and sequence in window.ordinals:
                outcomes.append((200, window.ordinals[sequence]))
                continue
            if window is not None:
                window.ordinals[sequence] = len(messages)
            outcomes.append((200, len(messages)))
            messages.append(message)
        return outcomes


class StoreModel(RuleBasedStateMachine):
    """See the module."""

    @initialize(seed=st.integers(0, 1 << 20), short_writes=st.booleans(), check=st.booleans())
    def start(self, seed: int, short_writes: bool, check: bool) -> None:
        self.disk = FaultyDisk(seed=seed, short_writes=short_writes)
        self.settings = StoreSettings(
            segment_bytes=2000,
            journal_segment_bytes=1500,
            journal_padding_bytes=700,
            reserve_bytes=0,
            max_open_files=2,
            check_on_read=check,
        )
        self.model = Model()
        self.unknown: Model | None = None
        """What is there if the batch of unknown fate is."""
        self.unknown_behind: Model | None = None
        """What is there if the one prepared behind it is, too."""
        self.unknown_drop: str | None = None
        self.unknown_retention: int | None = None
        """Messages older than this may be gone."""
        self.serial = 0
        self.now_ms = 1_790_000_000_000
        self.failed = False
        self._open()

    def _open(self) -> None:
        self.store = BrokerStore.open(ROOT, disk=self.disk, settings=self.settings)
        for partition in PARTITIONS:
            self.store.ensure_partition(*partition)
        self.failed = False

    # --- sending -----------------------------------------------------------------------------------------------------

    def _prepare(self, batch: list[Item], confirm: int | None) -> tuple[Prepared, list[list[tuple[int, int]]]]:
        """The batch, and what must become of each item; `unknown` is the model with it."""
        prepared, self.unknown, expected = self._prepare_on(self.model, batch, confirm)
        return prepared, expected

    def _prepare_on(
        self, before: Model, batch: list[Item], confirm: int | None = None
    ) -> tuple[Prepared, Model, list[list[tuple[int, int]]]]:
        """The batch behind what `before` says, the model with it, and what must become of each item."""
        staging = self.store.staging()
        after = before.copy()
        times = {partition: self._time_of(before, partition) for partition in PARTITIONS}
        # Within a block everything of one partition stands together, in the order staged.
        expected = [self._stage(staging, after, item, times[item.partition]) for item in batch]
        if confirm is not None:
            staging.confirm("g", "a", 0, confirm)
            after.confirmed["g", "a", 0] = confirm
        prepared = self.store.prepare(staging, self.now_ms)
        return prepared, after, [outcome for outcomes in expected for outcome in outcomes]

    def _time_of(self, model: Model, partition: tuple[str, int]) -> int:
        messages = model.messages[partition]
        return max(self.now_ms, messages[-1].time_ms) if messages else self.now_ms

    def _stage(self, staging: Staging, after: Model, item: Item, time_ms: int) -> list[list[tuple[int, int]]]:
        bodies = []
        for size in item.sizes:
            self.serial += 1
            bodies.append(self.serial.to_bytes(4, "big") * (size // 4 + 1))
        mark = self._mark(after, item)
        codes = [(self.serial + at) % 3 for at in range(len(bodies))] if item.is_mixed else [item.gap] * len(bodies)
        mixed = item.is_batch and item.is_mixed
        kept = [Kept(body, code, mixed, time_ms) for body, code in zip(bodies, codes, strict=True)]
        if item.is_batch:
            pack = columns(bodies, codes=codes if mixed else codes[0])
            staging.append_batch(*item.partition, pack, producer=mark)
            return [after.send(item.partition, kept, mark)]
        if item.is_row and not item.is_mixed:
            staging.append_run(*item.partition, bodies, 0, codes[0], producer=mark)
            return [after.send(item.partition, kept, mark)]
        outcomes = []
        for at, message in enumerate(kept):
            own = None if mark is None else mark._replace(sequence=mark.sequence + at)
            staging.append(*item.partition, message.payload, 0, message.code, producer=own)
            outcomes.append(after.send(item.partition, [message], own))
        return outcomes

    def _mark(self, after: Model, item: Item) -> ProducerMark | None:
        if not item.producer:
            return None
        window = after.windows.get((item.partition, item.producer))
        known = window.ordinals if window is not None else {}
        epoch = max(0, (window.epoch if window is not None else 1) + item.epoch)
        following = max(known, default=-1) + 1
        return ProducerMark(item.producer, epoch, max(0, following - item.back) if item.back else following + item.gap)

    @precondition(lambda self: not self.failed)
    @rule(batch=BATCHES, confirm=st.none() | st.integers(0, 1000))
    def send(self, batch: list[Item], confirm: int | None) -> None:
        prepared, expected = self._prepare(batch, confirm)
        if self._write(prepared):
            self._publish(prepared, expected)

    @precondition(lambda self: not self.failed)
    @rule(first=BATCHES, second=BATCHES, together=st.booleans(), let_go=st.booleans())
    def send_one_behind_the_other(self, first: list[Item], second: list[Item], together: bool, let_go: bool) -> None:
        prepared, expected = self._prepare(first, None)
        assert self.unknown is not None
        behind, after, expected_behind = self._prepare_on(self.unknown, second)
        if not self._write(prepared):
            with pytest.raises(StorageError):
                self.store.write(behind)
            return
        written = self._write_behind(behind) if together else None
        self._publish(prepared, expected)
        self.unknown = after
        if let_go and written is None:
            self.store.abandon(behind)
            self.unknown = None
        elif written is None:
            written = self._write_behind(behind)
        if written is True:
            self._publish(behind, expected_behind)
        elif written is False:
            self.store.abandon(behind)
            self.unknown = self.unknown if self.failed else None

    def _write(self, prepared: Prepared) -> bool:
        written = self._write_behind(prepared)
        if not written:
            self.store.abandon(prepared)
            # One refused on a sound disk must never turn up; of one that failed it is open until the next start.
            self.unknown = self.unknown if self.failed else None
        return written

    def _write_behind(self, prepared: Prepared) -> bool:
        try:
            self.store.write(prepared)
        except DiskFullError:
            return False
        except DiskFailedError:
            self.failed = True
            return False
        return True

    def _publish(self, prepared: Prepared, expected: list[list[tuple[int, int]]]) -> None:
        outcomes = self.store.publish(prepared)
        assert self.unknown is not None
        self.model, self.unknown = self.unknown, None
        assert len(outcomes) == len(expected)
        many = any(window.sends > MAX_PLACES // 2 for window in self.model.windows.values())
        for outcome, wanted in zip(outcomes, expected, strict=True):
            if isinstance(outcome, AppendedRun):
                found = [
                    (
                        span.code,
                        span.first_offset if span.first_offset == NOWHERE else span.first_offset + at * OFFSET_UNIT,
                    )
                    for span in outcome.spans
                    for at in range(span.messages)
                ]
            else:
                found = [(outcome.code, outcome.offset)]
            for (code, offset), (wanted_code, ordinal) in zip(found, wanted, strict=True):
                assert code == wanted_code
                if offset != NOWHERE or not many:  # where a repeat was stored is remembered for a while only
                    assert offset == (NOWHERE if ordinal == NOWHERE else ordinal * OFFSET_UNIT)

    @precondition(lambda self: not self.failed)
    @rule(batch=BATCHES)
    def prepare_and_abandon(self, batch: list[Item]) -> None:
        self.store.abandon(self._prepare(batch, None)[0])
        self.unknown = None

    # --- the background ----------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.failed)
    @rule(force=st.booleans())
    def apply(self, force: bool) -> None:
        try:
            (self.store.checkpoint if force else self.store.apply)()
        except DiskFullError:
            pass
        except DiskFailedError:
            self.failed = True

    @precondition(lambda self: not self.failed)
    @rule(
        age_s=st.none() | st.integers(0, 20), size_bytes=st.none() | st.integers(0, 6000), topic=st.sampled_from("ab")
    )
    def retain(self, age_s: int | None, size_bytes: int | None, topic: str) -> None:
        policy = RetentionPolicy(age_s, size_bytes)
        allowed = 1 << 62 if size_bytes is not None else self.now_ms - (age_s or 0) * 1000 if age_s is not None else 0
        try:
            for other in "ab":
                self.store.set_retention(other, policy if other == topic else None)
            done = self.store.retain(self.now_ms)
        except DiskFullError:
            return
        except DiskFailedError:
            self.failed, self.unknown_retention = True, allowed
            return
        before = dict(self.model.firsts)
        assert done.messages == self._adopt_firsts(allowed, topic)
        for partition in PARTITIONS:
            if age_s is None and self.model.firsts[partition] > before[partition]:
                kept = self.store.extent(*partition)
                assert size_bytes is not None
                assert kept.max_position - kept.min_position >= size_bytes, "more was dropped than had to be"

    def _adopt_firsts(self, allowed_ms: int, topic: str = "ab") -> int:
        """Take over what retention may have dropped; returns how many messages."""
        dropped = 0
        for partition in PARTITIONS:
            first, before = self.store.ends(*partition)[0] // OFFSET_UNIT, self.model.firsts[partition]
            gone = self.model.messages[partition][before:first]
            assert first >= before
            assert not gone or partition[0] in topic
            assert all(message.time_ms < allowed_ms for message in gone)
            self.model.firsts[partition] = first
            dropped += len(gone)
        return dropped

    @precondition(lambda self: not self.failed)
    @rule(topic=st.sampled_from(["a", "b"]))
    def drop(self, topic: str) -> None:
        dropped = False
        while not dropped:
            try:
                self.store.drop(topic)
                dropped = True
            except DiskFullError:
                return
            except DiskFailedError:
                self.failed, self.unknown_drop = True, topic
                return
            except StorageError:
                pass  # files are left over: what is asked again
        self.model.drop(topic)
        for partition in PARTITIONS:
            self.store.ensure_partition(*partition)

    # --- the world ---------------------------------------------------------------------------------------------------

    @rule(milliseconds=st.integers(-5000, 15_000))
    def clock_moves(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @rule(
        operation=st.sampled_from(
            [Operation.WRITE, Operation.FDATASYNC, Operation.FSYNC_DIR, Operation.RENAME, Operation.UNLINK]
        ),
        after_calls=st.integers(0, 4),
        after_bytes=st.integers(0, 300),
        full=st.booleans(),
    )
    def next_call_fails(self, operation: Operation, after_calls: int, after_bytes: int, full: bool) -> None:
        error = errno.ENOSPC if full and operation is Operation.WRITE else errno.EIO
        self.disk.fail(operation, error, after_calls=after_calls, after_bytes=after_bytes, times=1)

    @rule(spare=st.none() | st.integers(0, 4000))
    def space_changes(self, spare: int | None) -> None:
        self.disk.capacity_bytes = None
        if spare is not None:
            used = sum(len(self.disk.content(path)) for path in self.disk.files())
            self.disk.capacity_bytes = used + spare

    @rule(batch=BATCHES, behind=BATCHES, written=st.integers(0, 2), power_loss=st.booleans())
    def crash(self, batch: list[Item], behind: list[Item], written: int, power_loss: bool) -> None:
        self.disk.heal()
        self.disk.capacity_bytes = None
        if not self.failed:
            prepared, _ = self._prepare(batch, None)
            assert self.unknown is not None
            second, self.unknown_behind, _ = self._prepare_on(self.unknown, behind)
            for block in (prepared, second)[:written]:
                self.store.write(block)
        (self.disk.crash if power_loss else self.disk.kill)()
        self._open()
        self._adopt_unknown()

    @rule()
    def restart(self) -> None:
        self.disk.heal()
        self.disk.capacity_bytes = None
        self.store.close()
        self._open()
        self._adopt_unknown()

    def _adopt_unknown(self) -> None:
        """Of a batch, a retention or a drop whose fate was open all is there, or nothing."""
        if self.unknown_drop is not None:
            topic, self.unknown_drop = self.unknown_drop, None
            left = [partition for partition in PARTITIONS if partition[0] == topic and self.store.ends(*partition)[1]]
            if not left and not any(key[1] == topic for key in self.store.positions()):
                self.model.drop(topic)
        if self.unknown_retention is not None:
            self._adopt_firsts(self.unknown_retention)
            self.unknown_retention = None
        ends = {partition: self.store.ends(*partition)[1] // OFFSET_UNIT for partition in PARTITIONS}
        for unknown in (self.unknown, self.unknown_behind):
            if unknown is None:
                continue
            lengths = {partition: len(messages) for partition, messages in unknown.messages.items()}
            changed = lengths != {partition: len(messages) for partition, messages in self.model.messages.items()}
            if ends == lengths if changed else self.store.positions() == unknown.confirmed:
                unknown.firsts = self.model.firsts
                self.model = unknown
        self.unknown = self.unknown_behind = None

    # --- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def all_promised_is_there_and_nothing_else(self) -> None:
        for partition, messages in self.model.messages.items():
            first = self.model.firsts[partition]
            assert self.store.ends(*partition) == (first * OFFSET_UNIT, len(messages) * OFFSET_UNIT)
            found = self._read(partition, first, len(messages), None)
            assert [payload for _, payload, _ in found] == [message.payload for message in messages[first:]]
            assert [offset for offset, _, _ in found] == [at * OFFSET_UNIT for at in range(first, len(messages))]
            ids = [message_id for _, _, message_id in found]
            assert ids == sorted(set(ids))
        assert self.store.positions() == self.model.confirmed
        assert self.store.lost_ranges() == []
        assert self.store.stats.repaired_entries == 0

    @rule(
        partition=st.sampled_from(PARTITIONS),
        start=st.floats(0, 1),
        length=st.integers(0, 30),
        codes=st.frozensets(st.integers(0, 2)),
    )
    def read_a_range_with_codes(
        self, partition: tuple[str, int], start: float, length: int, codes: frozenset[int]
    ) -> None:
        messages, first = self.model.messages[partition], self.model.firsts[partition]
        begin = first + int(start * (len(messages) - first))
        end = min(len(messages), begin + length)
        wanted = [
            (at * OFFSET_UNIT, messages[at].payload)
            for at in range(begin, end)
            if messages[at].comes_always or messages[at].code in codes
        ]
        assert [found[:2] for found in self._read(partition, begin, end, codes)] == wanted

    @rule(partition=st.sampled_from(PARTITIONS), back_ms=st.integers(-1000, 30_000))
    def look_for_a_time(self, partition: tuple[str, int], back_ms: int) -> None:
        time_ms = self.now_ms - back_ms
        messages, first = self.model.messages[partition], self.model.firsts[partition]
        at = next((at for at in range(first, len(messages)) if messages[at].time_ms >= time_ms), len(messages))
        assert self.store.offset_at(*partition, time_ms) == at * OFFSET_UNIT

    def _read(
        self, partition: tuple[str, int], begin: int, end: int, codes: frozenset[int] | None
    ) -> list[tuple[int, bytes, int]]:
        """Offset, payload and id of what a reader gets of messages [begin, end), by small reads."""
        found: list[tuple[int, bytes, int]] = []
        offset = begin * OFFSET_UNIT
        while offset < end * OFFSET_UNIT:
            piece = self.store.read(
                *partition, offset, end_offset=end * OFFSET_UNIT, max_bytes=900, max_messages=5, codes=codes
            )
            assert piece.next_offset > offset
            assert piece.skipped == 0
            for message in split(b"".join(piece.parts)):
                assert message.offset is not None
                if offset <= message.offset < end * OFFSET_UNIT:
                    found.append((message.offset, message.payload, message.message_id))
            offset = piece.next_offset
        return found

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.crash([], [], 0, True)
            self.all_promised_is_there_and_nothing_else()


def test_the_store_agrees_with_its_model(part: Part) -> None:
    run_machine(StoreModel, part, max_examples=examples(60))
