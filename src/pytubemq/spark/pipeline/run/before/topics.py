"""The topics that a pipeline names, looked for before Spark starts: a wrong name is told at once.

The invariant: only what the cluster says is not there is refused here. What it cannot be asked now is left to the
source and the sinks, which wait for a cluster that is away.
"""

from __future__ import annotations

import contextlib
import difflib
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.errors import Code, ConfigError, NotFoundError, TubeError
from pytubemq.net.masters import parse_masters
from pytubemq.spark.pipeline.run.source import source_options
from pytubemq.spark.pipeline.spec.model import SinkFormat
from pytubemq.spark.pipeline.spec.secrets import resolve
from pytubemq.spark.source.options import parse_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytubemq.model.ids import Address
    from pytubemq.spark.pipeline.spec.model import Pipeline
    from pytubemq.sync import Tube


class Named(NamedTuple):
    """A topic that the pipeline's file names."""

    key: str
    """Where: `source.topic`, `sinks.copied.topic`."""
    masters: tuple[Address, ...]
    topic: str


def check_topics(pipeline: Pipeline, *, source: bool = True) -> None:
    """Ask for the topics that are read and written, once and without patience.

    Args:
        pipeline: its Masters named.
        source: whether those that are read are asked for, too; where there is progress, one that is missing may be
            away for a while, and the source waits for it.

    Raises:
        NotFoundError: there is no such topic; with the key that names it, and the nearest one that there is.
    """
    wanted: dict[tuple[Address, ...], list[Named]] = {}
    for named in topics_named(pipeline, source=source):
        wanted.setdefault(named.masters, []).append(named)
    for masters, of_cluster in wanted.items():
        missing = _missing(masters, of_cluster)
        if missing is not None:
            raise missing


def topics_named(pipeline: Pipeline, *, source: bool = True) -> list[Named]:
    """The topics that the pipeline's file names, each with its cluster."""
    found: list[Named] = []
    if source and pipeline.source.format == "tubemq":
        with contextlib.suppress(ConfigError):  # the source says what is wrong with its options
            options = parse_options(source_options(pipeline))
            found += [Named("source.topic", options.masters, name) for name in options.topics.names]
    else_at = pipeline.source.master
    for sink in pipeline.sinks:
        if sink.format is SinkFormat.TUBEMQ and sink.topic:
            found += _written(f"sinks.{sink.name}.topic", sink.master or else_at, sink.topic)
    letters = pipeline.dead_letter
    if letters is not None and letters.format is SinkFormat.TUBEMQ and letters.topic:
        found += _written("dead_letter.topic", letters.master or else_at, letters.topic)
    return found


def _written(key: str, master: str | None, topic: str) -> Iterable[Named]:
    if master:
        with contextlib.suppress(TubeError):  # the sink says what is wrong with its Masters
            yield Named(key, parse_masters(resolve(master)), resolve(topic))


def _missing(masters: tuple[Address, ...], named: Sequence[Named]) -> NotFoundError | None:
    """The error for the first of a cluster's topics that is not there; None if all are, or it does not say."""
    import pytubemq.sync

    try:
        with pytubemq.sync.connect(masters, client_name="pipeline") as tube:
            there = tube.partitions_of(sorted({one.topic for one in named}))
            gone = next((one for one in named if one.topic not in there), None)
            return None if gone is None else _error(gone, _nearest(tube, gone.topic))
    except TubeError:
        return None


def _nearest(tube: Tube, topic: str) -> str | None:
    try:
        return next(iter(difflib.get_close_matches(topic, tube.topics(), 1)), None)
    except TubeError:  # a Java Master does not tell the names
        return None


def _error(named: Named, near: str | None) -> NotFoundError:
    create = f"create it with  pytubemq topic create {named.topic}"
    return NotFoundError(
        f"{named.key}: topic {named.topic!r} does not exist, or no Broker serves it now",
        hint=create if near is None else f"did you mean {near}? Else {create}",
        code=Code.TOPIC_NOT_DEPLOYED,
    )
