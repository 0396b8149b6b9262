"""Gaps of a partition: messages without a file, as a log is gone together with its index.

The invariant: a gap is between two borders that something proves: the checkpoint, a segment's header, or a sound entry
of an index. Damage inside files that are there is no gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytubemq.storage.disk.disk import read_exactly
from pytubemq.storage.disk.paths import partition_directory
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.index import INDEX_BYTES, decode_index_entry
from pytubemq.storage.log.index_repair import Border
from pytubemq.storage.log.segment import Segment
from pytubemq.storage.tools.read.files import PartitionFiles
from pytubemq.storage.tools.repair_steps.partition_repair import kept_segments, sound_ends

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.format.record import LogEnd, PartitionKey
    from pytubemq.storage.tools.read.files import SegmentFiles


class Gap(NamedTuple):
    """Messages without a file, from one border to the other."""

    begin: Border
    end: Border
    last_ms: int | None = None
    """The time of the newest of them, where the checkpoint has it."""


def partitions_of(
    root: Path, partitions: Sequence[PartitionFiles], ends: Mapping[PartitionKey, LogEnd]
) -> dict[PartitionKey, PartitionFiles]:
    """Return the partitions in `ends`, those without a directory among them."""
    found = {(one.topic, one.partition_id): one for one in partitions}
    return {key: found.get(key) or PartitionFiles(*key, partition_directory(root, *key)) for key in ends}


def find_gaps(disk: Disk, found: PartitionFiles, end: LogEnd) -> Iterator[Gap]:
    """Yield the gaps of one partition, in order. Raises OSError."""
    here, last = Border(end.first_ordinal, end.first_position), Border(end.ordinal, end.position)
    kept = kept_segments(disk, found, end)
    for at, (files, begin) in enumerate(kept):
        if here.ordinal < begin.ordinal:
            yield Gap(here, begin)
        stop = kept[at + 1][1] if at + 1 < len(kept) else last
        here = _reach(disk, found.directory, files, begin, stop)
    if here.ordinal < last.ordinal:
        # Only this gap ends with the partition's newest message, whose time the checkpoint has.
        yield Gap(here, last, end.last_time_ms)


def _reach(disk: Disk, directory: Path, files: SegmentFiles, begin: Border, stop: Border) -> Border:
    """Return the end of a segment that should end at `stop`."""
    # A log as long as it should be has no gap; damage within it is another step's.
    if files.log is not None and files.log.size_bytes - HEADER_BYTES >= stop.position - begin.position:
        return stop
    if files.index is not None:
        file = disk.open(files.index.path)
        try:
            for at in reversed(range(files.held_records)):
                entry = decode_index_entry(read_exactly(file, INDEX_BYTES, HEADER_BYTES + at * INDEX_BYTES), 0)
                if entry is not None and entry.end_ordinal <= stop.ordinal and entry.end_position <= stop.position:
                    return Border(entry.end_ordinal, entry.end_position)
        finally:
            file.close()
    # Neither file shows how far it goes, so the records themselves have to.
    ends = (border for border, _ in sound_ends(disk, files, Segment(directory, *begin)) if border <= stop)
    return max(ends, default=begin)
