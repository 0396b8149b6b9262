"""The topics that a pipeline names, looked for before Spark starts: a wrong name is told at once.

The invariant: only what the cluster says is not there is refused here. What it cannot be asked now is left to the
source and the sinks, which wait for a cluster that is away.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.errors import ConfigError, TubeError
from pytubemq.net.client.masters import parse_masters
from pytubemq.pipelines.analysis.missing import MissingTopicError
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.frames.source import source_options
from pytubemq.spark.source.options import parse_options
from pytubemq.spark.source.planning.survey import known_topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytubemq.model.ids import Address
    from pytubemq.pipelines.file.model import Pipeline


class Named(NamedTuple):
    """A topic that the pipeline's file names."""

    path: str
    """Where in the file: `source.topics[0]`, `sinks[1].topic`."""
    key: str
    """The same as it is shown: `source.topic`, `sinks.copied.topic`."""
    masters: tuple[Address, ...]
    topic: str


def check_topics(pipeline: Pipeline, *, source: bool = True) -> None:
    """Refuse the first of `missing_topics`.

    Raises:
        MissingTopicError: there is one.
    """
    for missing in missing_topics(pipeline, source=source):
        raise missing


def missing_topics(pipeline: Pipeline, *, source: bool = True) -> Iterator[MissingTopicError]:
    """Ask for the topics that are read and written, once and without patience.

    Args:
        pipeline: its Masters named.
        source: whether those that are read are asked for, too; where there is progress, one that is missing may be
            away for a while, and the source waits for it.

    Yields:
        An error for each that is not there; with the key that names it, and the nearest one that there is.
    """
    wanted: dict[tuple[Address, ...], list[Named]] = {}
    for named in topics_named(pipeline, source=source):
        wanted.setdefault(named.masters, []).append(named)
    for masters, of_cluster in wanted.items():
        yield from _missing(masters, of_cluster)


def topics_named(pipeline: Pipeline, *, source: bool = True) -> list[Named]:
    """The topics that the pipeline's file names, each with its cluster."""
    found: list[Named] = []
    if source and pipeline.source.format == "tubemq":
        with contextlib.suppress(ConfigError):  # the source says what is wrong with its options
            found += _read(pipeline)
    else_at = pipeline.source.master
    for index, sink in enumerate(pipeline.sinks):
        if sink.format == "tubemq" and sink.topic:
            key = f"sinks.{sink.name}.topic"
            found += _written(f"sinks[{index}].topic", key, sink.master or else_at, sink.topic)
    letters = pipeline.dead_letter
    if letters is not None and letters.format == "tubemq" and letters.topic:
        key = "dead_letter.topic"
        found += _written(key, key, letters.master or else_at, letters.topic)
    return found


def _read(pipeline: Pipeline) -> Iterator[Named]:
    masters = parse_options(source_options(pipeline)).masters
    topics = pipeline.source.topics
    for index, topic in enumerate(topics):
        path = f"source.topics[{index}]"
        yield Named(path, "source.topic" if len(topics) == 1 else path, masters, resolve(topic))


def _written(path: str, key: str, master: str | None, topic: str) -> Iterable[Named]:
    if master:
        with contextlib.suppress(TubeError):  # the sink says what is wrong with its Masters
            yield Named(path, key, parse_masters(resolve(master)), resolve(topic))


def _missing(masters: tuple[Address, ...], named: Sequence[Named]) -> list[MissingTopicError]:
    """The errors for those of a cluster's topics that are not there; none if it does not say."""
    import pytubemq.sync

    try:
        with pytubemq.sync.connect(masters, client_name="pipeline") as tube:
            there = tube.partitions_of(sorted({one.topic for one in named}))
            gone = [one for one in named if one.topic not in there]
            known = known_topics(tube) if gone else None
            return [MissingTopicError(one.path, one.key, one.topic, known=known) for one in gone]
    except TubeError:
        return []
