"""The records of a Java Broker's data files.

The invariant: a record is handed out only if its token, its lengths and its checksum are right; where they are not,
the bytes up to the next right one are reported as `Damage`. All numbers there are big-endian.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.model.limits import MAX_MESSAGE_BYTES
from pytubemq.storage.java.layout import PARTITIONS_PER_STORE
from pytubemq.wire.batch.checksum import check_sum

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytubemq.storage.java.layout import JavaStore

# In every record. The Java Broker does not look at it when it starts, nor at the checksum, so torn and damaged bytes
# stay in its files, with sound records behind them.
_TOKEN: Final = 0x02C998B8
# Length, token, checksum, partition, index offset, time, sender's address, filter code, message id, flag.
_HEAD: Final = Struct(">iIIiqqIiqi")
HEAD_BYTES: Final = _HEAD.size  # 52
_AFTER_LENGTH: Final = HEAD_BYTES - 4
"""The length field counts everything after itself."""
_TOKEN_BYTES: Final = _TOKEN.to_bytes(4, "big")


class JavaRecord(NamedTuple):
    """One message as the Java Broker stored it; `index_offset` is its place in the index that its store's partitions
    share."""

    partition_id: int
    index_offset: int
    receive_time_ms: int
    key_code: int
    message_id: int
    flag: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a data file that hold no sound record."""

    path: Path
    position: int
    size_bytes: int
    at_end: bool
    """Nothing sound follows in this file, as behind a write that was cut off."""


def read_records(store: JavaStore) -> Iterator[JavaRecord | Damage]:
    """Yield everything in a store, in the order it was written.

    Raises:
        OSError: a file cannot be read.
    """
    for _, path in store.files:
        yield from _read_file(path, store.store_id)


def _read_file(path: Path, store_id: int) -> Iterator[JavaRecord | Damage]:
    with path.open("rb") as file:
        size = path.stat().st_size
        # A file that was just begun; mmap refuses it.
        if not size:
            return
        # Mapped, as a file has up to a GiB and is gone through once.
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = 0
            while at < size:
                found = _record(data, at, size, store_id)
                if found is None:
                    following = _next_sound(data, at + 1, size, store_id)
                    yield Damage(path, at, following - at, at_end=following == size)
                    at = following
                else:
                    record, at = found
                    yield record


def _record(data: mmap.mmap, at: int, size: int, store_id: int) -> tuple[JavaRecord, int] | None:
    """Return the record at `at` and where it ends; None if there is no sound one."""
    if size - at < HEAD_BYTES:
        return None
    length, token, crc, partition_id, index_offset, time_ms, _, key_code, message_id, flag = _HEAD.unpack_from(data, at)
    end = at + 4 + length
    if token != _TOKEN or not 0 < length - _AFTER_LENGTH <= MAX_MESSAGE_BYTES or end > size:
        return None
    payload = data[at + HEAD_BYTES : end]
    # An id contains its store's number, so a record that came from elsewhere shows.
    if check_sum(payload) != crc or partition_id // PARTITIONS_PER_STORE != store_id or index_offset < 0:
        return None
    return JavaRecord(partition_id, index_offset, time_ms, key_code, message_id, flag, payload), end


def _next_sound(data: mmap.mmap, at: int, size: int, store_id: int) -> int:
    """Find the next sound record at or after `at`; `size` if there is none."""
    while True:
        # A token is four bytes behind its record's beginning.
        token_at = data.find(_TOKEN_BYTES, at + 4)
        if token_at < 0:
            return size
        if _record(data, token_at - 4, size, store_id) is not None:
            return token_at - 4
        at = token_at - 3
