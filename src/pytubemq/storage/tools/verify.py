"""The check of a whole store: what is wrong with it; changes nothing.

The invariant: every byte of every file of the store goes through its check, unless nobody needs it: the lock, what a
log or index holds beyond the checkpoint's end, and the bytes of holes. Files beside it are read as the
caller says; one that nobody can read is named.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pytubemq.errors import CorruptError
from pytubemq.model.offset import OFFSET_UNIT, to_offset
from pytubemq.storage.disk.paths import partition_directory
from pytubemq.storage.format.checkpoint import NAME, Checkpoint, read_checkpoint
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.record import LogEnd
from pytubemq.storage.tools.check.findings import Finding, Severity
from pytubemq.storage.tools.check.journal_check import check_journal
from pytubemq.storage.tools.check.segment_check import check_partition
from pytubemq.storage.tools.read.files import find_journals, find_partitions
from pytubemq.storage.tools.read.journals import journals_at_hand
from pytubemq.storage.tools.read.store_access import ReadingDisk, check_store, lock_store
from pytubemq.storage.tools.repair_steps.gaps import find_gaps, partitions_of
from pytubemq.storage.tools.repair_steps.lost_files import find_pieces
from pytubemq.storage.tools.repair_steps.record_restore import find_copies
from pytubemq.storage.tools.repair_steps.side_files import check_side_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.format.record import PartitionKey
    from pytubemq.storage.tools.read.files import PartitionFiles, StoreFile
    from pytubemq.storage.tools.read.journals import JournalsAtHand
    from pytubemq.storage.tools.repair_steps.side_files import Decoders

MAX_FINDINGS: Final = 10_000
"""Listed; those beyond are counted."""


@dataclass(slots=True)
class Verified:
    """The result of a check: what was read, and everything that was found."""

    partitions: int = 0
    journal_files: int = 0
    read_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    """The first ones, at most MAX_FINDINGS."""
    _counts: dict[Severity, int] = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        """True if nothing needs a repair."""
        return not self.count(Severity.DAMAGE)

    @property
    def unlisted(self) -> int:
        """The number of findings beyond those listed."""
        return sum(self._counts.values()) - len(self.findings)

    def count(self, severity: Severity) -> int:
        """Return the number of findings of that kind, listed or not."""
        return self._counts.get(severity, 0)

    def take(self, findings: Iterable[Finding]) -> None:
        """Add what was found."""
        for finding in findings:
            # All are counted and few kept: a damaged file may have a finding for each of a million records.
            self._counts[finding.severity] = self.count(finding.severity) + 1
            if len(self.findings) < MAX_FINDINGS:
                self.findings.append(finding)


def verify(
    root: Path,
    *,
    topic: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    beside: Decoders | None = None,
) -> Verified:
    """Check the store in `root`, or one topic of it.

    Args:
        topic: only this one's logs and messages; journal blocks and checkpoint are checked all the same.
        progress: called with bytes read and bytes there.
        beside: how the Broker's other files are read; None: they are left out.

    Raises:
        StorageError: no store. DirectoryLockedError: a Broker runs there. NewerVersionError, OlderVersionError: not a
            version that this program reads. OSError: something cannot be read.
    """
    check_store(root)
    # A running Broker changes files while they are read, which would look like damage.
    with lock_store(root):
        result = verify_files(ReadingDisk(), root, topic=topic, progress=progress)
        if beside is not None:
            result.take(check_side_files(ReadingDisk(), root, beside))
        return result


def verify_files(
    disk: Disk, root: Path, *, topic: str | None = None, progress: Callable[[int, int], None] | None = None
) -> Verified:
    """Verify a directory that the caller holds."""
    journals, partitions = find_journals(disk, root), find_partitions(disk, root)
    total = sum(file.size_bytes for file in journals) + sum(found.size_bytes for found in partitions)
    result = Verified(journal_files=len(journals))

    def count_read(size: int) -> None:
        result.read_bytes += size
        if progress is not None:
            progress(result.read_bytes, max(total, result.read_bytes))

    # First, since it says which journal blocks and which part of each log count.
    checkpoint, findings = load_checkpoint(disk, root, journals, partitions)
    result.take(findings)
    if findings and journals:  # how far the logs count is not known
        # Without a checkpoint every journal file counts, from the first on.
        checkpoint.journal = journals[0].number
        checkpoint.next_sequence = journals[0].header.base if journals[0].header else 1
    result.take(check_journal(disk, root, journals, checkpoint, count_read, topic=topic, ends_known=not findings))
    # By what the checkpoint names: a partition whose whole directory is gone is found as well.
    by_key = {(found.topic, found.partition_id): found for found in partitions}
    for key, end in sorted(checkpoint.ends.items()):
        if topic in (None, key[0]):
            result.partitions += 1
            result.take(_check_known(disk, root, by_key.pop(key, None), key, end, count_read))
    # What no checkpoint names is beyond its end. Without a checkpoint it is all that there is, and a repair looks.
    if not findings:
        for found in by_key.values():
            # Up to 0, so its files are read for their version and nothing of them counts.
            result.take(check_partition(disk, found, LogEnd(0, 0), count_read))
    _report_copies(disk, root, result, journals, partitions, None if findings else checkpoint.ends)
    result.take(_unmet_losses(root / NAME, checkpoint, result.findings, topic))
    return result


def _unmet_losses(path: Path, checkpoint: Checkpoint, findings: list[Finding], topic: str | None) -> list[Finding]:
    """Return findings for the known losses that the checks have not met."""
    # The walk has met most of the known losses as holes; each is named once.
    listed = {(one.topic, one.partition_id, one.from_offset, one.to_offset) for one in findings}
    return [
        Finding(
            path=path,
            what=f"known to be lost ({lost_range.reason.name.lower()})",
            severity=Severity.FENCED,
            topic=lost_range.topic,
            partition_id=lost_range.partition_id,
            from_offset=lost_range.from_offset,
            to_offset=lost_range.to_offset,
        )
        for lost_range in checkpoint.lost_ranges
        if topic in (None, lost_range.topic)
        and (lost_range.topic, lost_range.partition_id, lost_range.from_offset, lost_range.to_offset) not in listed
    ]


def _report_copies(
    disk: Disk,
    root: Path,
    result: Verified,
    journals: list[StoreFile],
    partitions: list[PartitionFiles],
    ends: dict[PartitionKey, LogEnd] | None,
) -> None:
    """Add to each finding of which the journal has messages how many a repair takes back."""
    # Damage of the journal itself has no copy anywhere.
    logs = root / "logs"
    hit = {
        (one.topic, one.partition_id)
        for one in result.findings
        if one.severity is Severity.DAMAGE and one.messages and logs in one.path.parents
    }
    # A pass over all journal files is worth it only where it can help.
    if not hit:
        return
    some = [found for found in partitions if (found.topic, found.partition_id) in hit]
    # Partitions without a checkpoint have no known ends, and so no known gaps.
    known = {key: end for key, end in (ends or {}).items() if key in hit}
    copies = _find_restorable(disk, root, journals_at_hand(disk, root, journals), some, ends, known)
    for at, one in enumerate(result.findings):
        result.findings[at] = _with_copies(one, copies)


def _find_restorable(
    disk: Disk,
    root: Path,
    journals: JournalsAtHand,
    partitions: list[PartitionFiles],
    ends: dict[PartitionKey, LogEnd] | None,
    known: dict[PartitionKey, LogEnd],
) -> dict[PartitionKey, list[tuple[int, int]]]:
    """Return the ordinals of messages that the journal has: of damaged records, and of files that are gone."""
    copies: dict[PartitionKey, list[tuple[int, int]]] = {}
    # The same search as the repair makes, so that both promise the same.
    for key, _, entry, _ in find_copies(disk, journals.files, partitions, ends):
        copies.setdefault(key, []).append((entry.first_ordinal, entry.end_ordinal))
    gaps = {key: list(find_gaps(disk, one, known[key])) for key, one in partitions_of(root, partitions, known).items()}
    # A gap has no index entry that could prove a copy, so borders and neighbours have to.
    for key, pieces in find_pieces(disk, journals, gaps).items():
        copies.setdefault(key, []).extend((piece.begin.ordinal, piece.end.ordinal) for piece in pieces)
    return copies


def _with_copies(finding: Finding, copies: dict[PartitionKey, list[tuple[int, int]]]) -> Finding:
    """Return the finding with the number of its messages that the journal has, if it has any."""
    topic, partition_id = finding.topic, finding.partition_id
    if finding.severity is not Severity.DAMAGE or topic is None or partition_id is None or not finding.messages:
        return finding
    held = _count_covered(finding, copies.get((topic, partition_id), ()))
    if not held:
        return finding
    of = "all these" if held == finding.messages else f"{held} of the {finding.messages}"
    return replace(finding, what=f"{finding.what}; the journal has {of} messages, and a repair takes them back")


def _count_covered(finding: Finding, intervals: Iterable[tuple[int, int]]) -> int:
    """Count its messages in the intervals, which do not overlap."""
    # A finding may be wider than what the journal has, or be a part of it.
    begin, end = (finding.from_offset or 0) // OFFSET_UNIT, (finding.to_offset or 0) // OFFSET_UNIT
    return sum(max(0, min(end, high) - max(begin, low)) for low, high in intervals)


def load_checkpoint(
    disk: Disk, root: Path, journals: list[StoreFile], partitions: list[PartitionFiles]
) -> tuple[Checkpoint, list[Finding]]:
    """Return the checkpoint, or an empty one with what is wrong."""
    path = root / NAME
    try:
        checkpoint = read_checkpoint(disk, root)
    except CorruptError as error:
        # An empty one, so that the rest can be checked nevertheless.
        return Checkpoint(), [Finding(path=path, what=f"fails its check: {error.message}")]
    if checkpoint is not None:
        return checkpoint, []
    # A store that was never used has neither; anything in it means that there was a checkpoint.
    if any(found.segments for found in partitions) or any(file.size_bytes > HEADER_BYTES for file in journals):
        return Checkpoint(), [Finding(path=path, what="is missing")]
    return Checkpoint(), []


def _check_known(
    disk: Disk,
    root: Path,
    found: PartitionFiles | None,
    key: tuple[str, int],
    end: LogEnd,
    progress: Callable[[int], None],
) -> Iterable[Finding]:
    if found is not None:
        return check_partition(disk, found, end, progress)
    # All of it has expired, so nothing can be missing.
    if end.first_ordinal == end.ordinal:
        return []
    directory = partition_directory(root, *key)
    return [
        Finding(
            path=directory,
            what="is missing",
            topic=key[0],
            partition_id=key[1],
            from_offset=to_offset(end.first_ordinal),
            to_offset=to_offset(end.ordinal),
        )
    ]
