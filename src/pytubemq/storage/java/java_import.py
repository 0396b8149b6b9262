"""Import of a stopped Java Broker's messages and group positions into a store.

The invariants: a crash at any point leaves the store without any of it or with all of it, because one checkpoint makes
it count, and a mark lets the next start remove logs that it does not name; a topic that the store has is never touched;
within a partition the order is the Java Broker's, and each message keeps its payload, flag, filter code and id.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final
from zlib import crc32

from pytubemq.errors import BadRequestError, Code, CorruptError, TubeError
from pytubemq.model.limits import MIB
from pytubemq.model.names import check_group, check_topic
from pytubemq.model.offset import to_offset
from pytubemq.model.topic import HISTORY_TOPIC
from pytubemq.storage.disk.disk import OsDisk, flush_directory
from pytubemq.storage.disk.file_cache import FileCache
from pytubemq.storage.disk.paths import partition_directory
from pytubemq.storage.format.checkpoint import Checkpoint, read_checkpoint
from pytubemq.storage.format.entry import EntryEncoder
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.index import INDEX_BYTES, encode_index_entry
from pytubemq.storage.format.record_range import RecordRange
from pytubemq.storage.java.imported import MAX_LISTED, BadRecord, Imported, ImportedPartition, ImportedPosition
from pytubemq.storage.java.layout import find_offsets, find_stores
from pytubemq.storage.java.log import HEAD_BYTES, Damage, JavaRecord, read_records
from pytubemq.storage.java.offsets import OwnOffsets, read_offsets
from pytubemq.storage.journal.journal import is_padding
from pytubemq.storage.journal.unfinished_import import mark_import, unmark_import
from pytubemq.storage.log.partition_log import Dirty, PartitionLog
from pytubemq.storage.log.retention import roll_at
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.storage.tools.read.files import find_journals
from pytubemq.storage.tools.repair_steps.rewrite import put_checkpoint
from pytubemq.wire.batch.payload import HAS_ATTRIBUTES, attributes_fit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.java.layout import JavaStore

_WAITING_BYTES: Final = 64 * MIB
"""Bytes of all partitions together that wait to be written at once."""
_LARGEST_ID: Final = (1 << 63) - (1 << 58)
"""Ids beyond this are kept, but later ones do not count on from there: there must be room."""


def import_java(
    root: Path,
    source: Path,
    *,
    offsets: Path | None = None,
    topics: Collection[str] = (),
    progress: Callable[[int, int], None] | None = None,
    disk: Disk | None = None,
) -> Imported:
    """Take the Java Broker's data in `source` (its `primaryPath`) into the store in `root`, which may be new.

    Args:
        offsets: the file of group offsets, if it is not in its usual place below `source`.
        topics: only these; all if empty.
        progress: called with bytes read and bytes there.

    Raises:
        BadRequestError: nothing to take, or a topic that the store has already; nothing was changed.
        FormatError: the file of group offsets makes no sense. DirectoryLockedError: a Broker runs in `root`.
        StorageError, OSError: a file cannot be read or written; the store is as it was.
    """
    disk = disk or OsDisk()
    result = Imported()
    # What can be refused by looking is refused before anything is written.
    stores = _choose(source, frozenset(topics), result)
    file = offsets or find_offsets(source)
    positions = {} if file is None else read_offsets(file)
    # Brings all that the journal has into the logs, so that the checkpoint is all that has to change.
    BrokerStore.open(root, disk=disk, settings=StoreSettings(reserve_bytes=0)).close()
    # Again, as closing gave it back; whoever came in between makes this fail.
    lock = disk.lock(root / "lock")
    try:
        checkpoint = _checkpoint(disk, root)
        _refuse_known(root, checkpoint, stores)
        # Before the first log: a start must not take what is written for messages that the journal lost.
        mark_import(disk, root)
        work = _Import(disk, root, result, positions, progress, sum(store.size_bytes for store in stores))
        for store in stores:
            work.take(store)
        work.finish(checkpoint)
        # All of it counts already; a mark that stays is removed by the next start.
        with suppress(OSError):
            unmark_import(disk, root)
    finally:
        lock.release()
    return result


def _choose(source: Path, topics: frozenset[str], result: Imported) -> list[JavaStore]:
    stores = []
    for store in find_stores(source):
        if store.topic == HISTORY_TOPIC:
            result.left_out[store.topic] = "the Java Broker's own records about groups"
        elif topics and store.topic not in topics:
            result.left_out[store.topic] = "not asked for"
        else:
            # A name that the Java Broker took and this one does not ends the import here.
            check_topic(store.topic)
            stores.append(store)
    missing = sorted(topics - {store.topic for store in stores})
    if missing or not stores:
        wanted = f"topic {', '.join(missing)}" if missing else "data of a topic"
        raise BadRequestError(
            f"no {wanted} in {source}",
            hint="give the Java Broker's primaryPath, the directory with <topic>-<store> directories in it",
            code=Code.BAD_REQUEST,
        )
    return stores


def _checkpoint(disk: Disk, root: Path) -> Checkpoint:
    """Return the checkpoint of the store, with everything in its logs."""
    checkpoint = read_checkpoint(disk, root) or Checkpoint()
    for file in find_journals(disk, root):
        end = checkpoint.journal_position if file.number == checkpoint.journal else HEADER_BYTES
        if file.size_bytes > end and file.number >= checkpoint.journal:
            opened = disk.open(file.path)
            try:
                # Zeros that were written ahead of blocks are none.
                if not is_padding(opened, end, file.size_bytes):
                    raise _in_use(root)
            finally:
                opened.close()
    return checkpoint


def _in_use(root: Path) -> CorruptError:
    return CorruptError(f"the journal in {root} could not be moved into the logs", hint="run it again")


def _refuse_known(root: Path, checkpoint: Checkpoint, stores: Sequence[JavaStore]) -> None:
    known = {topic for topic, _ in checkpoint.ends} & {store.topic for store in stores}
    if known:
        raise BadRequestError(
            f"the store in {root} has messages of topic {', '.join(sorted(known))} already",
            hint="a topic is imported as a whole, and only once: name others with --topic, or give a new directory",
            code=Code.BAD_REQUEST,
        )


class _Import:
    """One import under way: logs are written, and count with the checkpoint that `finish` makes."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        result: Imported,
        positions: Mapping[tuple[str, str, int], int],
        progress: Callable[[int, int], None] | None,
        total: int,
    ) -> None:
        self._disk = disk
        self._root = root
        self._result = result
        self._progress = progress
        self._total = total
        self._done = 0
        self._files = FileCache(disk, limit=64)
        self._dirty = Dirty()
        self._logs: dict[tuple[str, int], _Partition] = {}
        self._last_id = 0
        self._in_store = 0
        """Bytes read of the store that is being taken."""
        self._waiting_bytes = 0
        self._positions = positions
        self._wanted: dict[tuple[str, int], list[int]] = {}
        for (_, topic, partition_id), offset in positions.items():
            self._wanted.setdefault((topic, partition_id), []).append(offset)

    def take(self, store: JavaStore) -> None:
        """Take all messages of one Java store."""
        mine: dict[int, _Partition] = {}
        self._in_store = 0
        for item in read_records(store):
            if isinstance(item, Damage):
                what = "torn: the file ends within a record" if item.at_end else "damaged: no sound record"
                self._bad(item.path, item.position, item.size_bytes, what)
                self._read(item.size_bytes)
                continue
            size = HEAD_BYTES + len(item.payload)
            partition = mine.get(item.partition_id)
            if partition is None:
                partition = mine[item.partition_id] = self._partition(store.topic, item.partition_id)
            # The Java Broker passes over such a record when it reads, so no consumer ever had it.
            if item.flag & HAS_ATTRIBUTES and not attributes_fit(item.payload):
                path, position = _place(store, self._in_store)
                self._bad(path, position, size, "the attributes are longer than the message")
            else:
                self._waiting_bytes += partition.add(item)
                self._last_id = max(self._last_id, item.message_id if item.message_id < _LARGEST_ID else 0)
            self._read(size)
            if self._waiting_bytes >= _WAITING_BYTES:
                self._write(mine.values())
        self._write(mine.values())

    def _write(self, partitions: Iterable[_Partition]) -> None:
        for partition in partitions:
            partition.write(self._files, self._dirty)
        self._waiting_bytes = 0

    def _partition(self, topic: str, partition_id: int) -> _Partition:
        made = self._logs[topic, partition_id] = _Partition(
            self._root, topic, partition_id, self._wanted.get((topic, partition_id), ())
        )
        self._result.partitions.append(made.summary)
        return made

    def _bad(self, path: Path, position: int, size: int, what: str) -> None:
        self._result.bad_places += 1
        if len(self._result.bad) < MAX_LISTED:
            self._result.bad.append(BadRecord(path, position, size, what))

    def _read(self, size: int) -> None:
        self._done += size
        self._in_store += size
        if self._progress is not None:
            self._progress(self._done, self._total)

    def finish(self, checkpoint: Checkpoint) -> None:
        """Put everything on the device, and let it count."""
        # Files, then names, then the checkpoint that makes all of them count in one step.
        for path in sorted(name for item in self._dirty.segments for name in (item.log_name, item.index_name)):
            with self._files.borrow(path) as file:
                file.fdatasync()
        for directory in sorted(self._dirty.directories):
            flush_directory(self._disk, directory)
        self._files.close()
        self._result.partitions.sort(key=lambda partition: (partition.topic, partition.partition_id))
        for key, partition in self._logs.items():
            if partition.summary.messages:
                checkpoint.ends[key] = partition.log.applied_end
        self._place_groups(checkpoint)
        checkpoint.last_message_id = max(checkpoint.last_message_id, self._last_id)
        put_checkpoint(self._disk, self._root, checkpoint)

    def _place_groups(self, checkpoint: Checkpoint) -> None:
        topics = {topic for topic, _ in self._logs}
        for (group, topic, partition_id), java_offset in sorted(self._positions.items()):
            try:
                # The Java Broker takes any text as a group's name.
                check_group(group)
            except TubeError:
                self._result.positions_left_out += 1
                continue
            if topic not in topics:
                self._result.positions_left_out += 1
                continue
            partition = self._logs.get((topic, partition_id))
            # A partition without messages begins at 0 for everybody.
            offset = 0 if partition is None else partition.own_offsets.own(java_offset)
            checkpoint.confirmed[group, topic, partition_id] = offset
            self._result.positions.append(ImportedPosition(group, topic, partition_id, java_offset, offset))


def _place(store: JavaStore, done: int) -> tuple[Path, int]:
    """Return the file and the byte in it, so many bytes from the beginning of a store."""
    for _, path in store.files:
        size = path.stat().st_size
        if done < size:
            return path, done
        done -= size
    return store.files[-1][1], 0


class _Partition:
    """A partition that is being written."""

    def __init__(self, root: Path, topic: str, partition_id: int, wanted: Iterable[int]) -> None:
        self.log = PartitionLog(topic, partition_id, partition_directory(root, topic, partition_id), Lock())
        self.summary = ImportedPartition(topic, partition_id)
        self.own_offsets = OwnOffsets(wanted)
        self._entries: list[bytes] = []
        self._index: list[bytes] = []
        self._ordinal = self._position = 0
        self._encoder = EntryEncoder(0)
        self._time_ms = 0

    def add(self, record: JavaRecord) -> int:
        """Add the next message; returns how many bytes more wait in memory."""
        summary = self.summary
        # The Java Broker stores its clock as it is; here times rise within a partition, as lookups by time need it.
        time_ms = max(record.receive_time_ms, self._time_ms)
        if record.receive_time_ms < self._time_ms:
            summary.times_lifted += 1
        if time_ms != self._time_ms:
            self._encoder, self._time_ms = EntryEncoder(time_ms), time_ms
        payload = record.payload
        entry = self._encoder.encode(
            record.message_id, payload, record.flag, to_offset(self._ordinal), crc32(payload) & 0x7FFFFFFF, 0
        )
        size = len(entry)
        self._entries.append(entry)
        self._index.append(
            encode_index_entry(self._position, self._ordinal, time_ms, size, 1, record.key_code, crc32(entry), 0)
        )
        self.own_offsets.passes(record.index_offset)
        self._ordinal += 1
        self._position += size
        summary.messages += 1
        summary.size_bytes += len(payload)
        summary.first_time_ms = time_ms if summary.first_time_ms is None else summary.first_time_ms
        summary.last_time_ms = time_ms
        return size + INDEX_BYTES

    def write(self, files: FileCache, dirty: Dirty) -> None:
        """Let what waits leave memory."""
        if not self._entries:
            return
        log = self.log
        run = RecordRange(
            log.topic,
            log.partition_id,
            log.end_ordinal,
            log.end_position,
            len(self._entries),
            b"".join(self._index),
            b"".join(self._entries),
        )
        self._entries, self._index = [], []
        # Published and applied at once: nobody reads this store yet.
        log.publish(run)
        log.apply(run.end_ordinal, files, dirty, roll_at(None, StoreSettings().segment_bytes))
