"""The files of each partition, compared with a checkpoint.

The invariant: nothing is changed, and whatever is wrong with a partition's files is said of that partition alone. Only
want of handles, and files of another version, concern the whole.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from pytubemq.model.names import is_file_name, shown
from pytubemq.storage.disk.disk import NotOpenedError, list_directory, open_file, read_exactly
from pytubemq.storage.disk.paths import is_partition_name, partition_directory
from pytubemq.storage.format.header import HEADER_BYTES, FileHeader, FileKind, decode_header
from pytubemq.storage.format.index import INDEX_BYTES, decode_index_entry
from pytubemq.storage.format.record import LogEnd, PartitionKey
from pytubemq.storage.log.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.format.index import IndexEntry

_log = logging.getLogger(__name__)

_SEGMENT_FILE = re.compile(r"(\d{20})\.(log|index)")
_KINDS: Final = {"log": FileKind.LOG, "index": FileKind.INDEX}
STOP_AND_REPAIR: Final = "stop the Broker and run `pytubemq store repair` on its directory"
"""The way out for a partition with missing or damaged files."""


@dataclass(slots=True)
class FoundLog:
    """A partition on disk: its sound segments up to the checkpoint, and files beyond it that go."""

    topic: str
    partition_id: int
    directory: Path
    end: LogEnd
    segments: list[Segment] = field(default_factory=list)
    leftovers: list[Path] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of each file by name."""
    problem: str | None = None
    """The reason why the partition cannot be used: the first file that is missing or belongs to another partition."""
    damage: list[str] = field(default_factory=list)
    """Files with a damaged header, or too short: only the damaged part of them is lost."""

    lost_indexes: list[Path] = field(default_factory=list)
    """Index files that are missing while their logs exist."""

    def trouble(self, what: str) -> None:
        """Record a problem; the first one is reported."""
        self.problem = self.problem or what


def damage_text(log: FoundLog) -> str | None:
    """Return the damage in a partition's files that are still in use, for health and logs; None if there is none."""
    if not log.damage:
        return None
    more = f", and {len(log.damage) - 1} more of its files are damaged" if len(log.damage) > 1 else ""
    return f"{log.damage[0]}{more}; {STOP_AND_REPAIR}"


def survey_logs(disk: Disk, directory: Path, ends: dict[PartitionKey, LogEnd]) -> tuple[list[FoundLog], list[Path]]:
    """Find all partitions below `directory` or in `ends`, and the directories of topics without one.

    Raises:
        NewerVersionError, OlderVersionError: naming the file. NotOpenedError: no handle.
        OSError: `directory` itself cannot be read.
    """
    found: list[FoundLog] = []
    empty: list[Path] = []
    # Whoever is found is taken out; what remains is known to the checkpoint and has no directory.
    missing = dict(ends)
    unreadable: dict[str, str] = {}
    for topic in sorted(disk.listdir(directory)):
        path = directory / topic
        if not is_file_name(topic):
            _log.warning("%s is ignored: %s is not a topic name", directory, shown(topic))
            continue
        try:
            names = sorted(list_directory(disk, path))
        except NotADirectoryError:
            continue  # not ours
        except NotOpenedError:
            raise
        except OSError as error:
            unreadable[topic] = f"{path} cannot be read: {error.strerror or error}"
            continue
        # A removal ended between the last partition and its topic.
        if not names:
            empty.append(path)
        for name in names:
            if is_partition_name(name):
                # Of one that the checkpoint does not name nothing counts.
                end = missing.pop((topic, int(name)), LogEnd(0, 0))
                found.append(survey_log(disk, FoundLog(topic, int(name), path / name, end)))
    found += [_missing_log(directory, key, end, unreadable.get(key[0])) for key, end in missing.items()]
    return found, empty


def _missing_log(directory: Path, key: PartitionKey, end: LogEnd, unreadable: str | None) -> FoundLog:
    topic, partition_id = key
    log = FoundLog(topic, partition_id, partition_directory(directory.parent, topic, partition_id), end)
    if unreadable is not None:
        log.trouble(unreadable)
    # A log of which all has expired has no files, and lacks none.
    elif end.first_ordinal < end.ordinal:
        log.trouble(f"{log.directory} is missing; it should hold {end.ordinal - end.first_ordinal} messages")
    return log


def survey_log(disk: Disk, log: FoundLog) -> FoundLog:
    """Fill in what is found of a partition. Raises as `survey_logs`, but no other OSError."""
    try:
        names = sorted(list_directory(disk, log.directory))
    # It would mark a sound partition as damaged, though nothing is known of it.
    except NotOpenedError:
        raise
    except OSError as error:
        log.trouble(f"{log.directory} cannot be read: {error.strerror or error}")
        return log
    end = log.end
    bases, headless = _read_headers(disk, log, names)
    for base, path in sorted(headless.items()):
        _place_headless(disk, log, base, path, bases)
    log.segments = [Segment(log.directory, base, position) for base, position in sorted(bases.items())]
    # The first file may be gone with its whole name; only the checkpoint shows that it must be there.
    if end.ordinal > end.first_ordinal and end.first_ordinal not in bases:
        first = Segment(log.directory, end.first_ordinal, end.first_position)
        log.trouble(f"{first.log_path} is missing; the partition begins there")
    for segment, following in zip_longest(log.segments, log.segments[1:]):
        # With a head that cannot be read nothing vouches for the file, so each of its records is checked.
        segment.damaged = segment.base_ordinal in headless
        _survey_segment(disk, log, segment, following)
    return log


def _read_headers(disk: Disk, log: FoundLog, names: Iterable[str]) -> tuple[dict[int, int], dict[int, Path]]:
    """Return where each segment that counts begins, and a file of each with a header that fails its check."""
    bases: dict[int, int] = {}
    headless: dict[int, Path] = {}
    for name in names:
        # What people or tools have put beside the files is left alone.
        match = _SEGMENT_FILE.fullmatch(name)
        if match is None:
            continue
        path, base = log.directory / name, int(match[1])
        # What begins elsewhere comes from retention or a removal that was not
        # finished, or was applied after the checkpoint.
        counts = log.end.first_ordinal <= base < log.end.ordinal
        if not counts:
            log.leftovers.append(path)
        try:
            header, log.sizes[name] = read_header(disk, path, _KINDS[match[2]])
        except NotOpenedError:
            raise
        except OSError as error:
            if counts:
                log.trouble(f"{path} cannot be read: {error.strerror or error}")
            continue
        # Also of a file that does not count the header is read: one of another version must not be removed.
        if not counts:
            continue
        if header is None:
            headless[base] = path
        elif header.number != base or bases.setdefault(base, header.base) != header.base:
            # To use it would be to give out other messages under these offsets.
            log.trouble(f"{path} is damaged at byte 0: the header is another file's")
    return bases, headless


def _place_headless(disk: Disk, log: FoundLog, base: int, path: Path, bases: dict[int, int]) -> None:
    """Find where a segment with a damaged header begins: from its other file's header, its first index entry, or, for
    the partition's first segment, the checkpoint."""
    # If the header of its other file is sound, the position is known already.
    if base not in bases:
        try:
            entry = _entry(disk, Segment(log.directory, base, 0), 0)
        except NotOpenedError:
            raise
        except OSError:
            entry = None
        if entry is not None and entry.first_ordinal == base:
            bases[base] = entry.position
        elif base == log.end.first_ordinal:
            bases[base] = log.end.first_position
        else:
            log.trouble(f"{path} is damaged at byte 0: the header fails its check, and where it begins is unknown")
            return
    log.damage.append(f"{path} is damaged at byte 0: the header fails its check; its messages are served without it")


def _survey_segment(disk: Disk, log: FoundLog, segment: Segment, following: Segment | None) -> None:
    """Say how many index entries of a segment count, and whether its files hold what they must."""
    index_bytes = log.sizes.get(segment.index_path.name, 0)
    if following is None:
        end_ordinal, end_position = log.end.ordinal, log.end.position
        # From the checkpoint and not from the size: beyond it a crash may have left entries that mean nothing.
        segment.records = log.end.last_records
    else:
        end_ordinal, end_position = following.base_ordinal, following.base_position
        # The checkpoint counts the entries of the last segment alone; the others go by their size.
        segment.records = max(1, (index_bytes - HEADER_BYTES) // INDEX_BYTES)
    for path, needed in (
        (segment.log_path, segment.log_size(end_position)),
        (segment.index_path, segment.index_size(segment.records)),
    ):
        size = log.sizes.get(path.name)
        # The log has all that an index says, so nothing is lost with it.
        if size is None and path == segment.index_path and segment.log_path.name in log.sizes:
            segment.damaged = True
            log.lost_indexes.append(path)
            log.damage.append(f"{path} is missing; its messages are found without it")
        elif size is None:
            log.trouble(f"{path} is missing")
        elif size < needed:
            segment.damaged = True
            log.damage.append(f"{path} is damaged at byte {size}: {needed - size} bytes are missing")
    # A file cut between two entries has a size that looks right; its last entry does not.
    if following is not None and segment.index_path.name in log.sizes:
        try:
            last = _entry(disk, segment, segment.records - 1)
        except NotOpenedError:
            raise
        except OSError as error:
            log.trouble(f"{segment.index_path} cannot be read: {error.strerror or error}")
            return
        if last is not None and last.end_ordinal < end_ordinal:
            lacking = end_ordinal - last.end_ordinal
            segment.damaged = True
            log.damage.append(f"{segment.index_path} is damaged at byte {index_bytes}: {lacking} messages are missing")


def _entry(disk: Disk, segment: Segment, at: int) -> IndexEntry | None:
    file = open_file(disk, segment.index_path)
    try:
        data = read_exactly(file, INDEX_BYTES, segment.index_size(at))
    finally:
        file.close()
    return decode_index_entry(data, 0)


def read_header(disk: Disk, path: Path, kind: FileKind) -> tuple[FileHeader | None, int]:
    """Return a file's header, None if it fails its check, and its size. Raises as `survey_logs`."""
    file = open_file(disk, path)
    try:
        return decode_header(read_exactly(file, HEADER_BYTES, 0), kind, path), file.size()
    finally:
        file.close()
