"""The stream reader: offsets and limits on the driver, ranges on the executors.

The invariants: a batch read again, also after a restart, has the same rows; `latest` is looked up once per query; a
query that reads what is available now ends, whatever arrives meanwhile.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Partition
from pytubemq.spark.source.cluster import Cluster
from pytubemq.spark.source.options import Positions, SourceOptions
from pytubemq.spark.source.plan import Ends, Offsets, advance, newest, ranges, resolve
from pytubemq.spark.source.task import RangePartition, read_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

FRESH_S: Final = 0.02
"""How long the ends of partitions are taken as known, for the questions about one batch. The next batch asks anew, or
`processAllAvailable` would miss what has just been sent; so an idle query without a trigger interval asks at most 50
times a second.
"""


class TubeMqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics batch by batch."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(options.masters)
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._available_now = False
        self._ends: dict[Partition, Ends] = {}
        self._asked_s: float | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        """`maxRowsPerTrigger`, or all that there is."""
        rows = self._options.max_rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to what is there at the first `latestOffset`, then end.

        The target is taken there and not here: an unfinished batch of an earlier run is replayed first.
        """
        self._available_now = True

    def initialOffset(self) -> Offsets:
        """Where a new query starts. Spark asks twice; both get the same answer."""
        if self._initial is None:
            self._initial = resolve(self._options.starting or Positions("latest", {}), self._current_ends())
        return self._initial

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """The end of the batch that begins at `start`."""
        if self._available_now:
            if self._target is None:
                self._target = newest(self._current_ends())
            target = self._target
        else:
            self._let_age()
            target = newest(self._current_ends())
        return advance(start, target, max_rows=_max_rows(limit))

    def reportLatestOffset(self) -> Offsets:
        """The newest offsets, for the query's progress: lag is these minus the batch's end."""
        return newest(self._current_ends())

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """One task per partition that the batch reads. Works from the two offsets alone: a replay begins here."""
        ends = self._current_ends(reaching={key: last for key, last in end.items() if last > start.get(key, 0)})
        planned = ranges(start, end, ends, fail_on_data_loss=self._options.fail_on_data_loss)
        return [RangePartition(wanted) for wanted in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor: the rows of one task, one Arrow batch per fetch."""
        return read_range(self._options, partition)

    def commit(self, end: Offsets) -> None:
        """Nothing to do: the checkpoint is the one truth about progress."""

    def stop(self) -> None:
        """Close the driver's connections."""
        self._cluster.forget()

    def _let_age(self) -> None:
        """Wait until what is known counts as old: a batch never begins with what was known before it."""
        if self._asked_s is not None:
            time.sleep(max(0.0, self._asked_s + FRESH_S - time.monotonic()))
            self._asked_s = None

    def _current_ends(self, *, reaching: Mapping[str, int] | None = None) -> dict[Partition, Ends]:
        """The ends of all partitions, asked for again when they are old or do not reach as far as `reaching`."""
        needed = {Partition.parse(key): offset for key, offset in (reaching or {}).items()}
        fresh = self._asked_s is not None and time.monotonic() - self._asked_s <= FRESH_S
        if not fresh or not all(
            partition in self._ends and self._ends[partition].max_offset >= offset
            for partition, offset in needed.items()
        ):
            self._ends = self._cluster.ends(self._options.topics, needed=needed)
            self._asked_s = time.monotonic()
        return self._ends


def _max_rows(limit: ReadLimit) -> int | None:
    if isinstance(limit, ReadAllAvailable):
        return None
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    raise ConfigError(f'format("tubemq") cannot limit a batch by {type(limit).__name__}', hint="use maxRowsPerTrigger")
