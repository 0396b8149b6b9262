"""The stream reader: offsets and limits on the driver, ranges on the executors.

The invariants: a batch read again, also after a restart, has the same rows; `latest` is looked up once per query; a
query that reads what is available now ends, whatever arrives meanwhile; the checkpoint is the one truth about progress.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Partition
from pytubemq.model.offset import messages_between
from pytubemq.spark.error_boundary import entrance
from pytubemq.spark.source.planning.batch_limits import TaskRowLimit, TriggerDelay
from pytubemq.spark.source.planning.loss import lose
from pytubemq.spark.source.planning.partition_speeds import Speeds
from pytubemq.spark.source.planning.plan import (
    Ends,
    Offsets,
    advance,
    backlog,
    capped,
    check_checkpoint,
    in_order,
    newest,
    offsets_after,
    plan,
    resume_offsets,
    truncations,
)
from pytubemq.spark.source.planning.resolve import resolve_start
from pytubemq.spark.source.planning.stream_end import Ending
from pytubemq.spark.source.planning.survey import Survey
from pytubemq.spark.source.planning.tasks import tasks
from pytubemq.spark.source.positions import Edge, Positions
from pytubemq.spark.source.progress import GroupProgress
from pytubemq.spark.source.read.task import read_range
from pytubemq.spark.source.read.task_reports import Reports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from pytubemq.spark.source.options import SourceOptions

logger = logging.getLogger(__name__)

FRESH_S: Final = 0.02
"""Seconds for which the ends of partitions are taken as known, for the questions about one batch. The next batch asks
anew, or `processAllAvailable` would miss what has just been sent; so a query without a trigger interval asks at most
50 times a second.
"""
IDLE_FRESH_S: Final = 0.1
"""Seconds of the same for a query that has seen nothing new for `IDLE_AFTER_S`: 10 times a second."""
IDLE_AFTER_S: Final = 1.0
_NO_BOUND: Final = 2**63 - 1


class TubeMqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics batch by batch."""

    def __init__(self, options: SourceOptions) -> None:
        limits = options.limits
        self._options = options
        self._survey = Survey(options)
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._available_now = False
        self._ends: dict[Partition, Ends] = {}
        self._asked_s: float | None = None
        self._news_s = time.monotonic()
        self._now_ms = int(time.time() * 1000)
        """The time that earlier times are counted from."""
        self._ending = None if options.ending is None else Ending(options.ending, self._survey, self._now_ms)
        self._row_limit = None if limits.fetch_s is None else TaskRowLimit(limits.fetch_s)
        self._trigger_delay: TriggerDelay | None = None
        self._speeds = Speeds()
        self._slow: set[str] = set()
        self._reports: Reports | None = None
        self._progress: GroupProgress | None = None
        self._began = False

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return `maxRowsPerTrigger`, or all that there is. A query that runs once gets another limit from Spark."""
        limits = self._options.limits
        if not limits.any_most and limits.min_rows is None:
            return ReadAllAvailable()
        return ReadMaxRows(_NO_BOUND if limits.max_rows is None else limits.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to what is there at the first `latestOffset`, then end.

        The target is taken there and not here: an unfinished batch of an earlier run is replayed first.
        """
        self._available_now = True

    @entrance
    def initialOffset(self) -> Offsets:
        """Return the start of a new query. Spark asks twice; both get the same offsets."""
        self._begin()
        if self._initial is None:
            self._initial = resolve_start(
                self._options.starting or Positions(Edge.LATEST),
                self._current_ends(),
                self._survey,
                now_ms=self._now_ms,
                no_such_time=self._options.no_such_time,
            )
        return self._initial

    @entrance
    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """Return the end of the batch that begins at `start`, where the batch before it has ended for good."""
        self._begin(start)
        if self._row_limit is not None:
            self._row_limit.end(time.monotonic())
        ends = self._fixed_ends() if self._available_now else self._new_ends()
        target = self._target if self._target is not None else self._reachable(ends)
        origin = self._from_what_is_there(start, ends)
        waiting = sum(backlog(origin, target).values())
        if waiting:
            self._news_s = time.monotonic()
        self._publish(start, idle=not waiting)
        if self._holds_back(waiting, limit):
            return in_order({key: origin[key] for key in start})
        end = self._advance(origin, target, ends, limit)
        # a partition found since, of which nothing is read yet, is no news
        return {key: offset for key, offset in end.items() if key in start or offset > origin[key]}

    @entrance
    def reportLatestOffset(self) -> Offsets:
        """Return the newest offsets, for the query's progress: lag is these minus the batch's end."""
        return newest(self._current_ends())

    @entrance
    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Plan the tasks of a batch, from the two offsets alone: a replay begins here."""
        self._begin(start)
        ends = self._current_ends(reaching={key: last for key, last in end.items() if last > start.get(key, 0)})
        report_to = None if self._reports is None else self._reports.to
        planned = plan(start, end, ends)
        made = tasks(planned, self._survey, self._options, report_to=report_to)
        if self._row_limit is not None:
            most = max((messages_between(one.start, one.end) for one in planned.ranges), default=0)
            self._row_limit.begin(time.monotonic(), most)
        return made

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read, on an executor, the rows of one task."""
        return read_range(self._options, partition)

    def commit(self, end: Offsets) -> None:
        """Ignore the call: the checkpoint is the one truth about progress."""

    def stop(self) -> None:
        """Leave the group and close the driver's connections."""
        if self._progress is not None:
            self._progress.close()
        if self._reports is not None:
            self._reports.close()
        self._survey.cluster.forget()

    # --- the course of a query ------------------------------------------------------------------------------

    def _begin(self, start: Offsets | None = None) -> None:
        """Prepare at the first call; check the offsets of every call, and join the commit group."""
        if not self._began:
            self._began = True
            _leave_at_sigterm()
        if start is None:
            return
        check_checkpoint(start, self._options.topics, lenient=not self._options.fail_on_data_loss)
        if self._options.limits.damp_slow and self._reports is None:
            self._reports = Reports(self._options.masters)
        group = self._options.commit_group
        if group is not None and self._progress is None:
            progress = GroupProgress(group, self._survey.cluster.tube)
            progress.open(self._still_read(start))
            self._progress = progress

    def _publish(self, done: Offsets, *, idle: bool) -> None:
        """Publish how far the query is: a batch's end is its successor's start, and by then its commit is on disk."""
        if self._progress is not None:
            self._progress.publish(self._still_read(done), at_once=idle or self._available_now)

    def _from_what_is_there(self, start: Offsets, ends: Mapping[Partition, Ends]) -> Offsets:
        """Return the start of the next batch; where a log has lost its end, the end that it has now.

        Raises:
            OffsetMovedError: a log has, and data loss is an error.
        """
        origin = resume_offsets(start, ends)
        for hole in truncations(start, ends):
            lose(hole, self._options)
            origin[str(hole.partition)] = hole.start
        return origin

    def _still_read(self, offsets: Offsets) -> Offsets:
        """Drop the partitions that do not exist any more."""
        ends = self._current_ends()
        return {key: offset for key, offset in offsets.items() if Partition.parse(key) in ends}

    def _holds_back(self, waiting: int, limit: ReadLimit) -> bool:
        """True if there is too little to begin a batch."""
        limits = self._options.limits
        if limits.min_rows is None or self._available_now or isinstance(limit, ReadAllAvailable):
            return False
        if self._trigger_delay is None:
            self._trigger_delay = TriggerDelay(limits.min_rows, limits.max_delay_s, time.monotonic())
        return self._trigger_delay.should_wait(waiting, time.monotonic())

    def _advance(self, start: Offsets, target: Offsets, ends: Mapping[Partition, Ends], limit: ReadLimit) -> Offsets:
        if isinstance(limit, ReadAllAvailable):
            return advance(start, target)
        end = advance(
            start,
            target,
            max_rows=_max_rows(limit),
            max_bytes=self._options.limits.max_bytes,
            row_bytes={str(partition): there.row_bytes or 0.0 for partition, there in ends.items()},
            most_each=None if self._row_limit is None else self._row_limit.most_rows,
        )
        return end if self._reports is None else self._damped(start, end, self._reports)

    def _damped(self, start: Offsets, end: Offsets, reports: Reports) -> Offsets:
        """Return the end of a batch that does not wait for slow partitions."""
        self._speeds.keep(end)
        for report in reports.take():
            if report[0] in end:
                self._speeds.add(*report)
        rows = backlog(start, end)
        damped = self._speeds.damped(rows)
        slow = {key for key in rows if damped[key] < rows[key]}
        for partition in sorted(slow - self._slow):
            logger.warning("partition %s is slow: it gets fewer rows in a batch than its share", partition)
        self._slow = slow
        return offsets_after(start, damped)

    # --- what is there --------------------------------------------------------------------------------------

    def _reachable(self, ends: Mapping[Partition, Ends]) -> Offsets:
        target = newest(ends)
        return target if self._ending is None else capped(target, self._ending.offsets(ends))

    def _fixed_ends(self) -> dict[Partition, Ends]:
        """Return the ends now, and set with the first ones the target of a query that reads what is available."""
        ends = self._current_ends()
        if self._target is None:
            self._target = self._reachable(ends)
        return ends

    def _new_ends(self) -> dict[Partition, Ends]:
        """Wait until what is known counts as old, then ask: a batch never begins with what was known before it."""
        if self._asked_s is not None:
            idle = time.monotonic() - self._news_s > IDLE_AFTER_S
            time.sleep(max(0.0, self._asked_s + (IDLE_FRESH_S if idle else FRESH_S) - time.monotonic()))
            self._asked_s = None
        return self._current_ends()

    def _current_ends(self, *, reaching: Mapping[str, int] | None = None) -> dict[Partition, Ends]:
        """Return the ends of all partitions, fetched again when they are old or do not reach as far as `reaching`."""
        needed = {Partition.parse(key): offset for key, offset in (reaching or {}).items()}
        fresh = self._asked_s is not None and time.monotonic() - self._asked_s <= FRESH_S
        if not fresh or not all(
            partition in self._ends and self._ends[partition].max_offset >= offset
            for partition, offset in needed.items()
        ):
            self._ends = self._survey.ends(needed=needed)
            self._asked_s = time.monotonic()
        return self._ends


def _max_rows(limit: ReadLimit) -> int:
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    raise ConfigError(f'format("tubemq") cannot limit a batch by {type(limit).__name__}', hint="use maxRowsPerTrigger")


def _leave_at_sigterm() -> None:
    """Exit at SIGTERM, by which Spark ends this process, as a program does: the signal alone would skip `stop`."""

    def leave(*_: Any) -> None:
        raise SystemExit(0)

    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, leave)
