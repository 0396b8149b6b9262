"""Gaps between what the journal replays and what the partitions' logs hold, filled from the log tails or with holes.

The invariant: a run goes on exactly where its log ends; messages that are lost on the way are fenced, and the caller
learns of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytubemq.errors import CorruptError
from pytubemq.storage.format.header import REPAIR_HINT
from pytubemq.storage.format.record import LossReason, LostRange
from pytubemq.storage.format.record_range import hole
from pytubemq.storage.journal.log_tails import sequences_in
from pytubemq.storage.journal.staging import Prepared
from pytubemq.storage.log.index_repair import Border

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pytubemq.storage.format.record import PartitionKey, Sequences
    from pytubemq.storage.format.record_range import RecordRange
    from pytubemq.storage.journal.log_tails import LogTails
    from pytubemq.storage.journal.replay import Loss, Resume
    from pytubemq.storage.log.partition_log import PartitionLog


def fit(
    block: Prepared,
    log_of: Callable[[str, int], PartitionLog],
    losses: Sequence[Loss],
    root: Path,
    tails: LogTails | None = None,
) -> list[LostRange]:
    """Bring a block's runs to where their logs end: what these hold already is left out, and what the block goes on
    behind, because blocks before it were lost, is taken from `tails` or becomes a hole. Returns the messages lost so.

    Raises:
        CorruptError: it goes on behind the end of a log, and nothing was lost.
    """
    runs: list[RecordRange] = []
    lost_ranges: list[LostRange] = []
    # A block may hold two runs of one partition, and the log's own end moves only when all of it is published.
    ends: dict[PartitionKey, tuple[int, int]] = {}
    for run in block.runs:
        key = (run.topic, run.partition_id)
        log = log_of(*key)
        ordinal, position = ends.get(key, (log.end_ordinal, log.end_position))
        if run.base_ordinal > ordinal:
            # Nothing was lost, and yet something is missing: files of another
            # time or store. Guessing would renumber messages.
            if not losses or run.base_position < position:
                raise _gap(root, run, ordinal)
            begin, end = Border(ordinal, position), Border(run.base_ordinal, run.base_position)
            taken = [] if tails is None else tails.between(key, begin, end)
            # In front: windows must see a producer's sequences in the order in which they were stored.
            block.sequences = [*sequences_in(taken), *block.sequences]
            bridged, lost = bridge(key, begin, end, taken, log.last_time_ms)
            runs += bridged
            lost_ranges += lost
        # The rest is in the log already, which may reach beyond the place that a start replays from.
        if run.end_ordinal > ordinal:
            runs.append(run.from_ordinal(ordinal))
            ends[key] = run.end_ordinal, run.end_position
    block.runs, block.size_bytes = runs, sum(run.size_bytes for run in runs)
    return lost_ranges


def bridge(
    key: PartitionKey, begin: Border, end: Border, taken: Sequence[RecordRange], time_ms: int
) -> tuple[list[RecordRange], list[LostRange]]:
    """Fill the gaps between runs, from one border to the other, with holes, whose messages are lost."""
    runs: list[RecordRange] = []
    lost_ranges: list[LostRange] = []

    def lose(there: Border) -> None:
        count, size_bytes = there.ordinal - here.ordinal, there.position - here.position
        runs.append(hole(*key, *here, count=count, size_bytes=size_bytes, append_time_ms=time_ms))
        lost_ranges.append(LostRange(*key, here.ordinal, there.ordinal, LossReason.JOURNAL))

    # `lose` takes it as it is when called.
    here = begin
    for run in taken:
        if run.base_ordinal > here.ordinal:
            lose(Border(run.base_ordinal, run.base_position))
        runs.append(run)
        here, time_ms = Border(run.end_ordinal, run.end_position), run.last_time_ms
    if end.ordinal > here.ordinal:
        lose(end)
    return runs, lost_ranges


@dataclass(slots=True)
class Remainder:
    """The content of the logs behind the journal's end."""

    runs: list[RecordRange] = field(default_factory=list)
    lost_ranges: list[LostRange] = field(default_factory=list)
    sequences: list[Sequences] = field(default_factory=list)

    def block(self, resume: Resume) -> Prepared:
        """Return the content as a block behind all others."""
        size_bytes = sum(run.size_bytes for run in self.runs)
        # Counts as written: the quarantine holds all of it durably until a checkpoint has it.
        block = Prepared(self.runs, {}, [], resume.last_message_id, size_bytes, written=True, flushed=True)
        block.journal, block.journal_end = resume.number - 1, resume.end
        block.next_sequence = resume.next_sequence
        return block


def read_remainder(tails: LogTails, partitions: Mapping[PartitionKey, PartitionLog]) -> Remainder:
    """Return the content of `tails` behind the replayed end of each partition."""
    found = Remainder()
    for key in tails.partitions:
        log = partitions.get(key)
        # One that neither checkpoint nor journal names began behind the checkpoint, so with message 0.
        begin = Border(0, 0) if log is None else Border(log.end_ordinal, log.end_position)
        end, taken = tails.behind(key, begin)
        runs, lost_ranges = bridge(key, begin, end, taken, 0 if log is None else log.last_time_ms)
        found.runs += runs
        found.lost_ranges += lost_ranges
        found.sequences += sequences_in(taken)
    return found


def _gap(root: Path, run: RecordRange, end_ordinal: int) -> CorruptError:
    return CorruptError(
        f"{root}: the journal goes on at message {run.base_ordinal} of {run.topic}:{run.partition_id}, "
        f"its log ends at {end_ordinal}",
        hint=REPAIR_HINT,
    )
