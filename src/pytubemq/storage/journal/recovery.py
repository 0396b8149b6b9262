"""Opening a store after whatever happened: look at everything first, then cut the logs back to the checkpoint.

The invariant: no file is changed before every file's version is known to be readable here. After it, the logs of sound
partitions end exactly where the checkpoint says. A partition whose files are missing, short or damaged is marked, left
as it is but for an empty file in the place of a missing index, and does not keep the others from being opened.

Partition logs are cut back to the checkpoint, also where more of them may be sound: the journal holds all of that, as
was proven before, or what it lacks was put into a quarantine.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.errors import CorruptError
from pytubemq.storage.disk.disk import NotOpenedError, open_file
from pytubemq.storage.format.checkpoint import NAME as CHECKPOINT
from pytubemq.storage.format.checkpoint import Checkpoint, read_checkpoint
from pytubemq.storage.format.header import HEADER_BYTES, REPAIR_HINT, FileHeader, FileKind, corrupt_error
from pytubemq.storage.journal.journal import UNFINISHED, journal_path, missing_journals
from pytubemq.storage.log.removal import remove_empty
from pytubemq.storage.log.survey import read_header, survey_logs

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.format.record import PartitionKey
    from pytubemq.storage.log.survey import FoundLog

_NUMBER = r"(\d{20})"
_JOURNAL = re.compile(_NUMBER + r"\.journal")


@dataclass(slots=True)
class FoundJournal:
    """A journal file."""

    number: int
    path: Path
    header: FileHeader
    size_bytes: int


@dataclass(slots=True)
class Found:
    """A whole store as it is on disk; nothing was changed yet."""

    checkpoint: Checkpoint
    is_new: bool
    """There is nothing yet, not even a checkpoint."""
    logs: list[FoundLog]
    journals: list[FoundJournal]
    leftovers: list[Path]
    empty: list[Path]
    """Directories of topics without a partition."""


# --- looking ------------------------------------------------------------------------------------------------------


def survey(disk: Disk, root: Path) -> Found:
    """Read every file's header, change nothing.

    Raises:
        NewerVersionError, CorruptError: naming the file.
    """
    # The checkpoint says where each log ends and which journal files count; without it nothing else can be judged.
    checkpoint = read_checkpoint(disk, root)
    journals = _survey_journals(disk, root / "journal")
    logs, empty = survey_logs(disk, root / "logs", (checkpoint or Checkpoint()).ends)
    # A first start makes its journal file before its checkpoint, so a bare header is no loss. Anything more shows that
    # there was a checkpoint, and beginning without it would give out offsets a second time.
    if checkpoint is None and (
        any(log.sizes for log in logs) or any(item.size_bytes > HEADER_BYTES for item in journals)
    ):
        raise CorruptError(
            f"{root / CHECKPOINT} is missing",
            hint=REPAIR_HINT,
        )
    first = checkpoint.journal if checkpoint else 1
    # Files that the last checkpoint made superfluous and that a crash, or an unlink that failed, left behind.
    leftovers = [journal.path for journal in journals if journal.number < first]
    leftovers += [
        path for path in map((root / "journal").joinpath, disk.listdir(root / "journal")) if _is_unfinished(path)
    ]
    kept = [journal for journal in journals if journal.number >= first]
    missing = missing_journals(first, [journal.number for journal in kept])
    # With neither there was never a journal, and the start makes the first file.
    if missing and (checkpoint or kept):
        raise CorruptError(
            f"{journal_path(root / 'journal', missing[0])} is missing; the logs may still have the messages in it",
            hint=REPAIR_HINT,
        )
    return Found(checkpoint or Checkpoint(), checkpoint is None, logs, kept, leftovers, empty)


def _is_unfinished(path: Path) -> bool:
    return path.suffix == UNFINISHED and _JOURNAL.fullmatch(path.stem) is not None


def _survey_journals(disk: Disk, directory: Path) -> list[FoundJournal]:
    found = []
    for name in sorted(disk.listdir(directory)):
        if match := _JOURNAL.fullmatch(name):
            path, number = directory / name, int(match[1])
            header, size = read_header(disk, path, FileKind.JOURNAL)
            # It got its name when its header was on the device.
            if header is None or header.number != number:
                raise corrupt_error(path, 0, "the header fails its check")
            found.append(FoundJournal(number, path, header, size))
    return found


# --- cutting ------------------------------------------------------------------------------------------


def cut_logs(disk: Disk, found: Found, rewritten: Container[PartitionKey] = ()) -> None:
    """Bring the partition logs back to the checkpoint, and drop files that it made superfluous. What keeps one from it
    is trouble of its partition alone.

    Args:
        disk: the store's disk.
        found: its files.
        rewritten: partitions for which the journal has all messages behind the checkpoint.
    """
    for log in found.logs:
        # A partition without a log begins with message 0, so its first files get the same names. To remove them and to
        # make them anew would take longer than all the rest of its replay.
        is_begun = not log.end.ordinal and (log.topic, log.partition_id) in rewritten
        for path in log.leftovers:
            if is_begun and not int(path.stem):
                continue
            with suppress(OSError):  # one that stays means nothing, and is emptied should its name be needed
                disk.unlink(path)
        if is_begun:
            continue
        if not log.end.ordinal:  # of a topic that was being removed, or made and never used
            with suppress(OSError):
                remove_empty(disk, log.directory)
        # A partition in trouble is left as it is: a repair needs every byte of it.
        elif log.segments and log.problem is None:
            make_missing_indexes(disk, log)
            last = log.segments[-1]
            # What is longer was applied after the checkpoint. The journal has it,
            # too, and its replay writes it at the same place.
            for path, size in (
                (last.log_path, last.log_size(log.end.position)),
                (last.index_path, last.index_size(last.records)),
            ):
                if log.sizes.get(path.name, 0) > size:
                    _cut(disk, log, path, size)
    # The others never counted; should the partition come again, it begins anew.
    found.logs = [log for log in found.logs if log.end.ordinal]
    for path in found.leftovers:
        disk.unlink(path)
    for path in found.empty:
        with suppress(OSError):
            disk.rmdir(path)


def make_missing_indexes(disk: Disk, log: FoundLog) -> None:
    """Make an empty file in the place of each missing index: readers find in the log what an index lacks."""
    for path in log.lost_indexes:
        try:
            open_file(disk, path, create=True).close()
        # Want of handles says nothing about the partition: the start ends, and may succeed when it is tried again.
        except NotOpenedError:
            raise
        except OSError as error:
            log.trouble(f"{path} is missing and cannot be made: {error.strerror or error}")


def _cut(disk: Disk, log: FoundLog, path: Path, size: int) -> None:
    try:
        file = open_file(disk, path)
        try:
            # Without a flush: if a power loss brings the bytes back, the next start cuts them again.
            file.truncate(size)
        finally:
            file.close()
    except NotOpenedError:
        raise
    except OSError as error:
        log.trouble(f"{path} cannot be cut: {error.strerror or error}")
