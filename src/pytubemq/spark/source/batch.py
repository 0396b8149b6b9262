"""The batch reader: two positions on the driver, ranges on the executors."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pytubemq.errors import ConfigError
from pytubemq.model.missing_topic import LIST
from pytubemq.spark.error_boundary import entrance
from pytubemq.spark.source.planning.loss import lose
from pytubemq.spark.source.planning.plan import plan, truncations
from pytubemq.spark.source.planning.resolve import check_named, check_order, resolve, resolve_start
from pytubemq.spark.source.planning.survey import Survey
from pytubemq.spark.source.planning.tasks import tasks
from pytubemq.spark.source.positions import Edge, Positions
from pytubemq.spark.source.read.task import read_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from pytubemq.spark.source.options import SourceOptions


class TubeMqReader(DataSourceReader):
    """Reads once from one position to another."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @entrance
    def partitions(self) -> list[InputPartition]:
        """Plan a task per partition with something to read; small ranges share one, and the options can ask for more.

        Raises:
            ConfigError: what is named is not there, or ends before it begins.
            OffsetMovedError: rows are wanted that a Broker does not have, also where only the begin lies behind its
                end, and data loss is an error.
            TubeError: the cluster cannot be asked.
        """
        options = self._options
        survey = Survey(options)
        ends = survey.ends()
        if not ends:
            raise ConfigError(f"no topic matches the pattern {options.topics.pattern!r}", hint=LIST)
        now_ms = int(time.time() * 1000)
        start = resolve_start(
            options.starting or Positions(Edge.EARLIEST),
            ends,
            survey,
            now_ms=now_ms,
            no_such_time=options.no_such_time,
        )
        ending = options.ending or Positions(Edge.LATEST)
        check_named(ending, ends)
        if options.starting is not None:
            check_order(options.starting, ending, ends)
        for hole in truncations(start, ends):
            lose(hole, options)
        end = resolve(ending, ends, survey, now_ms=now_ms)
        return tasks(plan(start, end, ends), survey, options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read, on an executor, the rows of one task."""
        return read_range(self._options, partition)
