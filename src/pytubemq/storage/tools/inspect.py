"""The content of a Broker's directory, read without changing anything; a Broker may run there meanwhile.

The invariant: what is said of partitions is what a Broker would find on opening the store as it is now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytubemq.errors import CorruptError, FormatError, StorageError
from pytubemq.model.offset import to_offset
from pytubemq.storage.format.checkpoint import NAME, Checkpoint, read_checkpoint
from pytubemq.storage.format.header import HEADER_BYTES, VERSION
from pytubemq.storage.format.index import RecordKind
from pytubemq.storage.format.scan import read_record
from pytubemq.storage.tools.read.blocks import BadBytes, walk_blocks
from pytubemq.storage.tools.read.files import find_journals, find_partitions
from pytubemq.storage.tools.read.read_only_store import open_read_only
from pytubemq.storage.tools.read.records import Skipped, messages_of, raw_records
from pytubemq.storage.tools.read.store_access import ReadingDisk, check_store
from pytubemq.storage.tools.repair_steps.side_files import kept_files
from pytubemq.wire.batch.payload import decode_payload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.store.store import BrokerStore
    from pytubemq.storage.tools.read.files import StoreFile

_HEAD_BYTES = 64
"""Bytes of a body that are shown."""


@dataclass(slots=True)
class Inspected:
    """The result of `inspect`; rows are plain, so that they can be written as JSON."""

    version: int = VERSION
    problem: str | None = None
    """Why a Broker would not open it; then nothing is said of partitions."""
    checkpoint: dict[str, Any] | None = None
    journals: list[dict[str, Any]] = field(default_factory=list)
    partitions: list[dict[str, Any]] = field(default_factory=list)
    positions: list[dict[str, Any]] = field(default_factory=list)
    producers: list[dict[str, Any]] = field(default_factory=list)
    fences: list[dict[str, Any]] = field(default_factory=list)
    kept: list[dict[str, Any]] = field(default_factory=list)
    """Files that recoveries and repairs left in the directory, and what to do with them."""


def inspect(root: Path, *, topic: str | None = None, partition_id: int | None = None) -> Inspected:
    """Return everything but the records; of one topic or partition if given.

    Raises:
        StorageError: no store. NewerVersionError, OlderVersionError: another version. OSError: it cannot be read.
    """
    check_store(root)
    # No lock is taken, so all of it may change meanwhile; nothing read here is relied on later.
    disk = ReadingDisk()
    found = Inspected()
    try:
        checkpoint = read_checkpoint(disk, root)
    except CorruptError as error:
        checkpoint, found.problem = None, error.message
    if checkpoint is not None:
        found.checkpoint = _checkpoint(root, checkpoint)
    found.kept = [{"name": path.name, "what": what} for path, what in kept_files(disk, root)]
    found.journals = [_journal(disk, file, checkpoint) for file in find_journals(disk, root)]
    files = {(item.topic, item.partition_id): item for item in find_partitions(disk, root)}

    def wanted(name: str, number: int) -> bool:
        return topic in (None, name) and partition_id in (None, number)

    try:
        with open_read_only(root) as store:
            known = store.partitions()
            # A position may be of a partition that has no messages and no files.
            there = set(known)
            for key in known:
                if wanted(*key):
                    held = files.get(key)
                    found.partitions.append(
                        _partition(store, *key, len(held.segments) if held else 0, held.size_bytes if held else 0)
                    )
            found.positions = [
                {"group": group, "topic": name, "partition": number, "offset": offset,
                 "behind": max(0, store.ends(name, number)[1] - offset) // to_offset(1)}
                for (group, name, number), offset in sorted(store.positions().items())
                if wanted(name, number) and (name, number) in there
            ]  # fmt: skip
            found.producers = [
                {"topic": name, "partition": number, "producer": producer, "epoch": window.epoch,
                 "last_sequence": window.runs[-1][1] - 1 if window.runs else None, "gaps": max(0, len(window.runs) - 1),
                 "floor": window.floor}
                for (name, number, producer), window in store.windows().items()
                if wanted(name, number)
            ]  # fmt: skip
            found.fences = [
                {"topic": lost_range.topic, "partition": lost_range.partition_id, "from": lost_range.from_offset,
                 "to": lost_range.to_offset, "messages": lost_range.messages, "reason": lost_range.reason.name.lower()}
                for lost_range in store.lost_ranges()
                if wanted(lost_range.topic, lost_range.partition_id)
            ]  # fmt: skip
    except CorruptError as error:
        found.problem = error.message
    return found


def inspect_records(
    root: Path, topic: str, partition_id: int, *, start: int | None = None, count: int
) -> Iterator[dict[str, Any]]:
    """Yield records of a partition, from the one with the message at `start` on.

    Raises:
        NotFoundError: no such partition. Else as `inspect`, and CorruptError: a Broker would not open the store.
    """
    with open_read_only(root) as store:
        first, end = store.ends(topic, partition_id)
        for record in raw_records(store, topic, partition_id, max(first, start or 0), end):
            if count <= 0:
                return
            count -= 1
            yield _record(topic, partition_id, record)


def _checkpoint(root: Path, checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "bytes": (root / NAME).stat().st_size,
        "journal": checkpoint.journal,
        "journal_position": checkpoint.journal_position,
        "next_sequence": checkpoint.next_sequence,
        "last_message_id": checkpoint.last_message_id,
        "partitions": len(checkpoint.ends),
        "positions": len(checkpoint.confirmed),
        "producers": len(checkpoint.windows),
        "fences": len(checkpoint.lost_ranges),
    }


def _journal(disk: Disk, file: StoreFile, checkpoint: Checkpoint | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "file": file.path.name, "bytes": file.size_bytes, "blocks": 0, "messages": 0, "first_sequence": None,
        "last_sequence": None, "replayed_from": None, "bad_bytes": 0,
    }  # fmt: skip
    # Without a checkpoint a start would replay every file.
    if checkpoint is None or file.number >= checkpoint.journal:
        first = checkpoint is not None and file.number == checkpoint.journal
        row["replayed_from"] = checkpoint.journal_position if checkpoint is not None and first else HEADER_BYTES
    if file.header is None:
        return row | {"bad_bytes": file.size_bytes}
    row["first_sequence"] = file.header.base
    opened = disk.open(file.path)
    try:
        for block in walk_blocks(opened, file.header.salt, HEADER_BYTES, file.size_bytes):
            if isinstance(block, BadBytes):
                row["bad_bytes"] += block.size_bytes
                continue
            row["blocks"] += 1
            row["messages"] += sum(run.count for run in block.records.runs)
            row["last_sequence"] = block.head.sequence
    finally:
        opened.close()
    return row


def _partition(store: BrokerStore, topic: str, partition_id: int, segments: int, size: int) -> dict[str, Any]:
    extent = store.extent(topic, partition_id)
    first, end = extent.min_offset, extent.max_offset
    row: dict[str, Any] = {
        "topic": topic, "partition": partition_id, "first_offset": first, "end_offset": end,
        "messages": (end - first) // to_offset(1), "bytes": extent.max_position - extent.min_position,
        "first_time_ms": None, "last_time_ms": None, "segments": segments, "disk_bytes": size,
        "problem": store.partition_problem(topic, partition_id),
    }  # fmt: skip
    if end > first and row["problem"] is None:
        try:
            row["first_time_ms"] = _time_at(store, topic, partition_id, first)
            row["last_time_ms"] = _time_at(store, topic, partition_id, end - to_offset(1))
        except (StorageError, OSError) as error:
            row["problem"] = str(error)
    return row


def _time_at(store: BrokerStore, topic: str, partition_id: int, offset: int) -> int | None:
    # A read ends behind the record that reaches its limit, so with one byte one record comes.
    piece = store.read(topic, partition_id, offset, max_bytes=1, max_messages=1)
    for record in piece.parts:
        found = read_record(bytes(record))
        return None if found is None else found.append_time_ms
    return None


def _record(topic: str, partition_id: int, record: bytes | Skipped) -> dict[str, Any]:
    row: dict[str, Any] = {"topic": topic, "partition": partition_id}
    if isinstance(record, Skipped):
        return row | {"kind": "hole", "first_offset": record.from_offset, "messages": record.messages, "sound": False}
    found = read_record(record)
    if found is None:
        return row | {"kind": "unknown", "bytes": len(record), "sound": False}
    kind = RecordKind.SINGLE
    if found.is_batch:
        kind = RecordKind.MIXED_PACK if found.is_mixed else RecordKind.PACK
    # Of a record batch the first message is shown.
    first = messages_of(record)[0]
    try:
        body, attributes = decode_payload(first.payload, first.flag)
    except FormatError:
        body, attributes = first.payload, None
    return row | {
        "kind": kind.name.lower(),
        "first_offset": to_offset(found.first_ordinal),
        "messages": found.messages,
        "time_ms": found.append_time_ms,
        "bytes": len(record),
        "key_code": None if found.is_mixed else found.key_code,
        "message_id": found.message_id,
        "sound": True,
        "attributes": attributes,
        "body": body[:_HEAD_BYTES].decode(errors="replace"),
    }
