"""The reading half of a store: where messages are, which of them can be read, and which cannot.

The invariant: a reader gets whole records of one partition in order, or an error that names what is wrong; what is lost
to damage is skipped, counted, and said in the log once. Safe from any thread.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, TypeVar

from pytubemq.errors import Code, CorruptError
from pytubemq.model.offset import to_offset, to_ordinal
from pytubemq.storage.disk.disk import NotOpenedError
from pytubemq.storage.disk.file_cache import LostFileError
from pytubemq.storage.format.record import LossReason, LostRange
from pytubemq.storage.journal.journal import handles_error
from pytubemq.storage.journal.staging import no_partition
from pytubemq.storage.log.segment_reader import SegmentReader
from pytubemq.storage.log.survey import STOP_AND_REPAIR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.storage.journal.store_state import StoreState
    from pytubemq.storage.log.index_repair import Lost
    from pytubemq.storage.log.lookup import SegmentExtent
    from pytubemq.storage.log.partition_log import PartitionLog
    from pytubemq.storage.log.partition_reads import Extent
    from pytubemq.storage.log.selection import Slice
    from pytubemq.storage.store_settings import StoreSettings

T = TypeVar("T")

_logger = logging.getLogger(__name__)

MOST_REPORTED: Final = 20
"""Damages that are logged one by one, of those found at a time."""


class StoreReads:
    """The reads of a `BrokerStore`."""

    def __init__(self, state: StoreState, settings: StoreSettings) -> None:
        self.stats = state.stats
        # The one dict of the store, so that a topic that comes or goes shows at once.
        self._partitions = state.partitions
        self._lost_ranges = state.lost_ranges
        self._reader = SegmentReader(
            state.files,
            check=settings.check_on_read,
            check_batches=settings.check_packs_on_read,
            on_damage=self._record_damage,
        )

    def ends(self, topic: str, partition_id: int) -> tuple[int, int]:
        """Return the offset of the first message kept, and the one behind the last readable. NotFoundError if
        unknown."""
        log = self._log(topic, partition_id)
        return to_offset(log.min_ordinal), to_offset(log.end_ordinal)

    def extent(self, topic: str, partition_id: int) -> Extent:
        """Return start and end with the positions in the partition's bytes. NotFoundError if unknown."""
        return self._log(topic, partition_id).extent()

    def position_of(self, topic: str, partition_id: int, offset: int) -> int:
        """Return the position of the message at `offset` in the partition's bytes; its nearest end outside. May read
        the disk.

        Raises:
            NotFoundError: no such partition. CorruptError, StorageError: as `read`.
        """
        return self._ask(topic, partition_id, lambda log: log.position_of(self._reader, offset))

    def partitions(self) -> list[tuple[str, int]]:
        """Return all partitions known, by topic and id."""
        return sorted(self._partitions)

    def in_memory(self, topic: str, partition_id: int, offset: int) -> bool:
        """True if `read` from `offset` will not touch the disk. NotFoundError if the partition is unknown.

        If `apply` gets in between, the read finds the same bytes in files just written, so in the system's cache.
        """
        return self._log(topic, partition_id).in_memory(offset)

    def read(
        self,
        topic: str,
        partition_id: int,
        offset: int,
        *,
        end_offset: int | None = None,
        max_bytes: int,
        max_messages: int,
        codes: frozenset[int] | None = None,
        check: bool = False,
    ) -> Slice:
        """Return messages from `offset` on, as bytes that go into a fetch response as they are.

        Args:
            offset: rounded down to a whole message; at or beyond the end the slice is empty.
            end_offset: no record that begins at it or behind it is taken. A batch that begins before comes whole, so
                `next_offset` may be behind it, and `count` says how many messages there are before `next_offset`.
            max_bytes: stops after the entry that reaches it, so one message always comes.
            codes: only messages with these filter codes; None takes all. `next_offset` also passes the others.
            check: check each record that is read from the disk, also where the settings leave that out.

        Raises:
            NotFoundError: no such partition. OffsetMovedError: `offset` is below what is kept.
            OutOfResourcesError: no file handle now, try again later.
            CorruptError: the partition is of no use until it is repaired. StorageError: the disk could not be read.
        """
        return self._ask(
            topic,
            partition_id,
            lambda log: log.read(
                self._reader,
                offset,
                end_offset=end_offset,
                max_bytes=max_bytes,
                max_messages=max_messages,
                codes=codes,
                check=check,
            ),
        )

    def offset_at(self, topic: str, partition_id: int, time_ms: int) -> int:
        """Return the offset of the first message kept that came at `time_ms` or later; the partition's end if none did.
        May read the disk.

        Raises:
            NotFoundError: no such partition. CorruptError, StorageError: as `read`.
        """
        return self._ask(topic, partition_id, lambda log: log.offset_at(self._reader, time_ms))

    def _ask(self, topic: str, partition_id: int, question: Callable[[PartitionLog], T]) -> T:
        """Ask a partition what it may have to read the disk for; its errors are raised as `read` says."""
        log = self._log(topic, partition_id)
        try:
            return question(log)
        except NotOpenedError as error:
            # This passes, and the partition is not at fault.
            raise handles_error(error) from error
        except LostFileError as error:
            if self._partitions.get((topic, partition_id)) is not log:  # it was dropped meanwhile
                raise no_partition(topic, partition_id) from None
            raise CorruptError(
                error.text,
                hint=f"restore the file from a backup, or {STOP_AND_REPAIR}",
                code=Code.INTERNAL_SERVER_ERROR,
            ) from error

    def lost_ranges(self) -> list[LostRange]:
        """Return the messages known to be lost to damage, which readers skip, by topic, partition and offset."""
        return self._lost_ranges.all()

    def partition_problem(self, topic: str, partition_id: int) -> str | None:
        """Return why a partition, or a part of it, cannot be read; None if all is well. NotFoundError if unknown."""
        return self._log(topic, partition_id).trouble

    def doubt(self, topic: str, partition_id: int, offset: int) -> None:
        """Distrust what was read around `offset`: from now on the records of its file are checked when they are read,
        so that what is damaged is fenced off. NotFoundError if the partition is unknown."""
        self._log(topic, partition_id).mark_damaged(to_ordinal(offset))

    def _record_damage(self, extent: SegmentExtent, lost: Sequence[Lost], rebuilt: int, in_record: bool) -> None:
        """Record damage that a reader met; logged once."""
        topic, partition_id = extent.key
        segment = extent.segment
        reason = LossReason.RECORD if in_record else LossReason.INDEX
        # `LostRanges.add_all` wants them in order; a segment's losses come in the order in which they were met.
        lost = sorted(lost)
        new = self._lost_ranges.add_all(
            [LostRange(topic, partition_id, piece.from_ordinal, piece.to_ordinal, reason) for piece in lost]
        )
        self.stats.fenced_messages += sum(lost_range.messages for lost_range in new)
        for lost_range in new[:MOST_REPORTED]:
            # What is new may begin inside a loss that was known in part; the loss has the place in the file.
            first = lost[bisect_right(lost, lost_range.from_ordinal, key=lambda piece: piece.from_ordinal) - 1]
            _logger.error(
                "%d messages of %s:%d, offsets %d to before %d, are lost: %s is damaged at byte %d",
                lost_range.messages,
                topic,
                partition_id,
                lost_range.from_offset,
                lost_range.to_offset,
                segment.log_path,
                segment.log_size(first.position),
            )
        if more := new[MOST_REPORTED:]:
            messages = sum(lost_range.messages for lost_range in more)
            _logger.error("and %d more in %d other places of %s", messages, len(more), segment.log_path)
        # With a segment's first damage only: its index is repaired again whenever it was dropped.
        if rebuilt and not segment.damaged:
            self.stats.repaired_entries += rebuilt
            _logger.warning("%s is damaged: %d entries were read from the log instead", segment.index_path, rebuilt)
        segment.damaged = True

    def _log(self, topic: str, partition_id: int) -> PartitionLog:
        try:
            return self._partitions[topic, partition_id]
        except KeyError:
            raise no_partition(topic, partition_id) from None
