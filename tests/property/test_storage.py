"""A store under random work, crashes and faults, against a model that knows what was promised.

What must hold after every restart, with Durability.DISK: each published message is there, at its offset, byte for
byte, whether it came alone or in a pack; confirmed offsets are the last published ones; a batch that was neither
published nor refused may be there as a whole or not at all; what a producer numbered stands once however often it is
sent, before a crash and behind it; nothing else is, above all nothing of a topic that was dropped.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pytubemq.core.sequences import ProducerMark
from pytubemq.errors import DiskFailedError, DiskFullError, StorageError
from pytubemq.model.durability import Durability
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.journal.staging import Appended
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.support.properties import examples, run_machine
from tests.unit.storage.helpers import columns, split

if TYPE_CHECKING:
    from pytubemq.storage.journal.staging import Outcome, Prepared
    from pytubemq.wire.batch.stored import StoredMessage
    from tests.support.soaking import Part

ROOT = Path("/data/broker-1")
PARTITIONS = [("a", 0), ("a", 1), ("b", 0)]
Messages = list[tuple[tuple[str, int], int, int]]
"""Partition, payload size, filter code."""

PRODUCERS = [3, 4]
resends = st.lists(
    st.tuples(
        st.sampled_from(PARTITIONS), st.sampled_from(PRODUCERS), st.integers(0, 12), st.integers(1, 5), st.booleans()
    ),
    min_size=1,
    max_size=4,
)
"""Partition, producer, how far to go back, messages, whether as a pack."""

batches = st.lists(st.tuples(st.sampled_from(PARTITIONS), st.integers(1, 700), st.integers(0, 3)), max_size=8)


class StoreMachine(RuleBasedStateMachine):
    """See the module."""

    durability = Durability.DISK
    whole_disk_from = 200

    @initialize(seed=st.integers(0, 1 << 20), short_writes=st.booleans())
    def start(self, seed: int, short_writes: bool) -> None:
        self.disk = FaultyDisk(seed=seed, short_writes=short_writes)
        self.promised: dict[tuple[str, int], list[bytes]] = {partition: [] for partition in PARTITIONS}
        self.confirmed: dict[tuple[str, str, int], int] = {}
        self.unknown: tuple[dict[tuple[str, int], list[bytes]], dict[tuple[str, str, int], int]] | None = None
        self.unknown_drop: str | None = None
        self.seen_ids: set[int] = set()
        self.serial = 0
        self.numbered: dict[tuple[str, int, int], dict[int, bytes]] = {}
        """Payload by sequence, of each partition and producer."""
        self.unknown_numbered: list[tuple[tuple[str, int, int], int, bytes]] = []
        self.now_ms = 1_790_000_000_000
        self.failed = False
        self._open()

    def _open(self) -> None:
        small = StoreSettings(
            durability=self.durability,
            segment_bytes=2000,
            journal_segment_bytes=1500,
            journal_padding_bytes=700,
            checkpoint_bytes=1500,
            whole_disk_from=self.whole_disk_from,
            reserve_bytes=0,
            max_open_files=2,
        )
        self.store = BrokerStore.open(ROOT, disk=self.disk, settings=small)
        for partition in PARTITIONS:
            self.store.ensure_partition(*partition)
        self.failed = False

    def _prepare(self, batch: Messages, confirm: int | None) -> Prepared:
        staging = self.store.staging()
        self.unknown = ({}, {})
        self.unknown_numbered = []
        for (topic, partition_id), size, code in batch:
            self.serial += 1
            payload = self.serial.to_bytes(4, "big") * (size // 4 + 1)
            staging.append(topic, partition_id, payload, 0, code)
            self.unknown[0].setdefault((topic, partition_id), []).append(payload)
        if confirm is not None:
            staging.confirm("g", "a", 0, confirm)
            self.unknown[1]["g", "a", 0] = confirm
        return self.store.prepare(staging, self.now_ms)

    def _settle(self) -> None:
        assert self.unknown is not None
        for partition, payloads in self.unknown[0].items():
            self.promised[partition] += payloads
        self.confirmed.update(self.unknown[1])
        for key, sequence, payload in self.unknown_numbered:
            self.numbered[key][sequence] = payload
        self.unknown, self.unknown_numbered = None, []

    @precondition(lambda self: not self.failed)
    @rule(batch=batches, confirm=st.none() | st.integers(0, 1000))
    def append(self, batch: Messages, confirm: int | None) -> None:
        prepared = self._prepare(batch, confirm)
        try:
            self.store.write(prepared)
        except DiskFullError:
            self.store.abandon(prepared)
            self.unknown = None  # refused on a sound disk: it must never turn up
            return
        except DiskFailedError:
            self.store.abandon(prepared)
            self.failed = True  # whether the block is on the device is open until the next start
            return
        self._check_ids(self.store.publish(prepared), len(batch))
        self._settle()

    def _check_ids(self, appended: list[Outcome], messages: int) -> None:
        ids: set[int] = set()
        for item in appended:
            if isinstance(item, Appended):
                ids.add(item.message_id)
            else:
                ids |= {span.first_message_id + at for span in item.spans for at in range(span.messages)}
        assert len(ids) == messages
        assert not ids & self.seen_ids
        self.seen_ids |= ids

    @precondition(lambda self: not self.failed)
    @rule(packs=batches, copies=st.integers(1, 4))
    def append_packs(self, packs: Messages, copies: int) -> None:
        staging = self.store.staging()
        self.unknown, self.unknown_numbered = ({}, {}), []
        for (topic, partition_id), size, code in packs:
            self.serial += 1
            payloads = [self.serial.to_bytes(4, "big") * (size // 8 + 1) + bytes([at]) for at in range(copies)]
            codes = code if code else [at % 2 for at in range(copies)]
            staging.append_batch(topic, partition_id, columns(payloads, codes=codes))
            self.unknown[0].setdefault((topic, partition_id), []).extend(payloads)
        self._write(self.store.prepare(staging, self.now_ms), messages=len(packs) * copies)

    def _write(self, prepared: Prepared, *, messages: int | None) -> None:
        try:
            self.store.write(prepared)
        except DiskFullError:
            self.store.abandon(prepared)
            self.unknown = None
            return
        except DiskFailedError:
            self.store.abandon(prepared)
            self.failed = True
            return
        outcome = self.store.publish(prepared)
        if messages is not None:
            self._check_ids(outcome, messages)
        self._settle()

    @precondition(lambda self: not self.failed)
    @rule(sends=resends)
    def send_again(self, sends: list[tuple[tuple[str, int], int, int, int, bool]]) -> None:
        """Numbered messages, from some way back: what the partition has already must not be stored again."""
        staging = self.store.staging()
        self.unknown, self.unknown_numbered = ({}, {}), []
        staged: dict[tuple[str, int, int], set[int]] = {}
        for (topic, partition_id), producer_id, back, count, as_pack in sends:
            key = (topic, partition_id, producer_id)
            known = self.numbered.setdefault(key, {})
            pending = staged.setdefault(key, set())
            first = max(0, len(known) + len(pending) - back)
            payloads = [b"%d:%d:%d" % (partition_id, producer_id, first + at) for at in range(count)]
            mark = ProducerMark(producer_id, 1, first)
            if as_pack:
                staging.append_batch(topic, partition_id, columns(payloads), producer=mark)
            else:
                for at, payload in enumerate(payloads):
                    staging.append(topic, partition_id, payload, 0, -1, producer=mark._replace(sequence=first + at))
            for at, payload in enumerate(payloads):
                if first + at not in known and first + at not in pending:
                    pending.add(first + at)
                    self.unknown[0].setdefault((topic, partition_id), []).append(payload)
                    self.unknown_numbered.append((key, first + at, payload))
        self._write(self.store.prepare(staging, self.now_ms), messages=None)

    @precondition(lambda self: not self.failed)
    @rule(batch=batches)
    def prepare_and_abandon(self, batch: Messages) -> None:
        self.store.abandon(self._prepare(batch, None))
        self.unknown = None

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
        self._settle_drop(topic)
        assert not any(path.parts[4] == topic for path in self.disk.files() if path.parts[3] == "logs")
        for partition in PARTITIONS:
            self.store.ensure_partition(*partition)

    def _settle_drop(self, topic: str) -> None:
        for partition in PARTITIONS:
            if partition[0] == topic:
                self.promised[partition] = []
        self.confirmed = {key: offset for key, offset in self.confirmed.items() if key[1] != topic}
        self.numbered = {key: known for key, known in self.numbered.items() if key[0] != topic}

    @rule(milliseconds=st.integers(-5000, 5000))
    def clock_moves(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @rule(
        operation=st.sampled_from(
            [
                Operation.WRITE,
                Operation.FDATASYNC,
                Operation.SYNC_ALL,
                Operation.FSYNC_DIR,
                Operation.RENAME,
                Operation.UNLINK,
            ]
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

    @rule(batch=batches, written=st.booleans(), power_loss=st.booleans())
    def crash(self, batch: Messages, written: bool, power_loss: bool) -> None:
        self.disk.heal()
        self.disk.capacity_bytes = None
        if not self.failed:
            prepared = self._prepare(batch, None)
            if written:
                self.store.write(prepared)
        (self.disk.crash if power_loss and self.durability is Durability.DISK else self.disk.kill)()
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
        """Of a batch, or a drop, whose fate was open all is there, or nothing."""
        if self.unknown_drop is not None:
            topic, self.unknown_drop = self.unknown_drop, None
            left = [partition for partition in PARTITIONS if partition[0] == topic and self.store.ends(*partition)[1]]
            if not left and not any(key[1] == topic for key in self.store.positions()):
                self._settle_drop(topic)
        if self.unknown is not None:
            added = {
                partition: self.store.ends(*partition)[1] // OFFSET_UNIT - len(self.promised[partition])
                for partition in PARTITIONS
            }
            if any(added.values()):
                self._settle()
            elif not any(self.unknown[0].values()):
                found = self.store.positions()
                if any(found.get(key) != self.confirmed.get(key) for key in self.unknown[1]):
                    self._settle()
        self.unknown, self.unknown_numbered = None, []

    @invariant()
    def all_promised_is_there_and_nothing_else(self) -> None:
        for partition, payloads in self.promised.items():
            assert self.store.ends(*partition) == (0, len(payloads) * OFFSET_UNIT)
            found = self._read_all(partition)
            assert [message.payload for message in found] == payloads
            assert [message.offset for message in found] == [at * OFFSET_UNIT for at in range(len(payloads))]
            ids = [message.message_id for message in found]
            assert ids == sorted(set(ids))
            self.seen_ids.update(ids)
        assert self.store.positions() == self.confirmed

    def _read_all(self, partition: tuple[str, int]) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        offset, end = self.store.ends(*partition)
        while offset < end:
            piece = self.store.read(*partition, offset, max_bytes=900, max_messages=5)
            assert piece.next_offset > offset
            found += [message for message in split(b"".join(piece.parts)) if (message.offset or 0) >= offset]
            offset = piece.next_offset
        return found

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.crash([], False, True)
            self.all_promised_is_there_and_nothing_else()


def test_what_is_promised_survives_with_the_disk(part: Part) -> None:
    run_machine(StoreMachine, part, max_examples=examples(60))


class ProcessMachine(StoreMachine):
    """The same with Durability.PROCESS, where the process may die but the machine does not."""

    durability = Durability.PROCESS


def test_what_is_promised_survives_with_the_process(part: Part) -> None:
    run_machine(ProcessMachine, part, max_examples=examples(30))


class WholeDiskMachine(StoreMachine):
    """The same where every checkpoint flushes the whole file system at once."""

    whole_disk_from = 0


def test_what_is_promised_survives_with_whole_disk_flushes(part: Part) -> None:
    run_machine(WholeDiskMachine, part, max_examples=examples(30))
