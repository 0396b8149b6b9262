"""State of the cluster for a plan: partitions, where the next batch begins, how much waits. It is only read."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError
from pytubemq.model.offset import messages_between
from pytubemq.pipelines.analysis.missing import MissingStartError
from pytubemq.pipelines.events import MAIN
from pytubemq.pipelines.file.model import LOG
from pytubemq.pipelines.state.fed_queries import checkpoint_of, log_query, step_query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.state.files import StateFiles


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """One partition."""

    partition: str
    first: int
    """The offset of its first message now."""
    start: int
    """The offset at which the next batch begins."""
    end: int
    """Its end offset now."""
    waiting: int


@dataclass(frozen=True, slots=True)
class Looked:
    """The source as it is now."""

    partitions: tuple[PartitionLook, ...]
    java: bool
    """True if a Java Broker has one of them."""
    goes_on: bool
    """True if there is progress to go on from."""

    @property
    def waiting(self) -> int:
        """Messages of all partitions; where a Java Broker's offsets have gaps it is the most that there can be."""
        return sum(one.waiting for one in self.partitions)


def look(pipeline: Pipeline, files: StateFiles | None) -> Looked:
    """Ask the cluster.

    Args:
        pipeline: whose source is a topic, its Masters named.
        files: the state directory; None if the pipeline has not run.

    Raises:
        MissingStartError: the place to begin at is not there.
        TubeError: the cluster cannot be reached, or a topic does not exist.
    """
    from pytubemq.pipelines.frames.source import source_options
    from pytubemq.spark.source.options import parse_options
    from pytubemq.spark.source.planning.plan import BrokerKind
    from pytubemq.spark.source.planning.resolve import resolve_start
    from pytubemq.spark.source.planning.survey import Survey
    from pytubemq.spark.source.positions import Edge, Positions

    options = parse_options(source_options(pipeline))
    survey = Survey(options)
    try:
        ends = survey.ends()
        known = progress(files, queries_beside(pipeline)) if files is not None else {}
        begin = dict(known)
        if not known:
            positions = options.starting or Positions(Edge.LATEST)
            now_ms = int(time.time() * 1000)
            try:
                begin = resolve_start(positions, ends, survey, now_ms=now_ms, no_such_time=options.no_such_time)
            except ConfigError as error:
                raise MissingStartError(error) from error
    finally:
        survey.cluster.forget()
    found = []
    for partition, there in sorted(ends.items(), key=lambda item: str(item[0])):
        start = max(begin.get(str(partition), there.min_offset), there.min_offset)
        waiting = messages_between(start, max(start, there.max_offset))
        found.append(PartitionLook(str(partition), there.min_offset, start, there.max_offset, waiting))
    java = any(survey.kind(partition) is BrokerKind.JAVA for partition in ends)
    return Looked(tuple(found), java=java, goes_on=bool(known))


def queries_beside(pipeline: Pipeline) -> list[str]:
    """Return the names that queries of the pipeline other than `main` may have."""
    steps = [step_query(step.name, updates=updates) for step in pipeline.steps for updates in (False, True)]
    return steps + [log_query(sink) for sink in pipeline.sinks if sink.layout == LOG]


def progress(files: StateFiles, beside: Sequence[str] = ()) -> Mapping[str, int]:
    """Return where the last finished batch ended, from Spark's checkpoint in the state directory; empty if none.

    Of a pipeline without the query `main` it is the place that all queries named `beside` have passed.
    """
    least: dict[str, int] = {}
    for query in (MAIN, *beside):
        for partition, offset in _ended(files, checkpoint_of(query)).items():
            least[partition] = min(offset, least.get(partition, offset))
        if query == MAIN and least:
            break
    return least


def _ended(files: StateFiles, checkpoint: str) -> Mapping[str, int]:
    numbers = [int(name) for name in files.names(f"{checkpoint}/commits") if name.isdigit()]
    if not numbers:
        return {}
    text = files.read_bytes(f"{checkpoint}/offsets/{max(numbers)}") or b""
    try:
        offsets = json.loads(text.splitlines()[-1]) if text else {}
    except ValueError:
        return {}
    if not isinstance(offsets, dict):
        return {}
    return {str(key): value for key, value in offsets.items() if isinstance(value, int)}
