"""Topics that the file names: each is in its cluster.

Only what the cluster says is not there is a fault. What it cannot be asked now is left to the source and the sinks,
which wait for a cluster that is away.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.errors import ConfigError, TubeError
from pytubemq.pipelines.analysis.missing import MissingTopicError
from pytubemq.pipelines.file.cluster_keys import address_of
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.frames.source import source_options
from pytubemq.pipelines.rules.rule import Need, rule
from pytubemq.pipelines.state.progress import has_progress
from pytubemq.spark.source.options import parse_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytubemq.model.cluster_address import ClusterAddress
    from pytubemq.pipelines.file.model import ClusterKeys, Pipeline
    from pytubemq.pipelines.rules.rule import Context, Faults


class Named(NamedTuple):
    """A topic that the pipeline's file names."""

    path: str
    """Where in the file: `source.topics[0]`, `sinks[1].topic`."""
    key: str
    """The same as it is shown: `source.topic`, `sinks.copied.topic`."""
    masters: ClusterAddress
    topic: str


@rule(Need.VALUES | Need.CLUSTER, sharper=Need.PROGRESS)
def check(context: Context) -> Faults:
    """Report topics that do not exist, each with the nearest one that does.

    Where there is progress, a topic that is read may be away for a while, and the source waits for it.
    """
    source = context.state is None or not has_progress(context.state)
    wanted: dict[ClusterAddress, list[Named]] = {}
    for named in topics_named(context.pipeline, source=source):
        wanted.setdefault(named.masters, []).append(named)
    for masters, of_cluster in wanted.items():
        for missing in _missing(masters, of_cluster):
            yield context.fault(
                FaultCode.TOPIC_MISSING, missing.path, missing.message, missing.hint, cause=missing
            )  # fmt: skip


def topics_named(pipeline: Pipeline, *, source: bool = True) -> list[Named]:
    """Return the topics that the pipeline's file names, each with its cluster; without `source` those written to."""
    found: list[Named] = []
    if source and pipeline.source.format == "tubemq":
        with contextlib.suppress(ConfigError):  # the source says what is wrong with its options
            found += _read(pipeline)
    for index, sink in enumerate(pipeline.sinks):
        if sink.format == "tubemq" and sink.topic:
            key = f"sinks.{sink.name}.topic"
            found += _written(f"sinks[{index}].topic", key, pipeline.cluster_of(sink), sink.topic)
    letters = pipeline.dead_letter
    if letters is not None and letters.format == "tubemq" and letters.topic:
        key = "dead_letter.topic"
        found += _written(key, key, pipeline.cluster_of(letters), letters.topic)
    return found


def _read(pipeline: Pipeline) -> Iterator[Named]:
    masters = parse_options(source_options(pipeline)).masters
    topics = pipeline.source.topics
    for index, topic in enumerate(topics):
        path = f"source.topics[{index}]"
        yield Named(path, "source.topic" if len(topics) == 1 else path, masters, resolve(topic))


def _written(path: str, key: str, cluster: ClusterKeys, topic: str) -> Iterable[Named]:
    if cluster.master:
        with contextlib.suppress(TubeError):  # the sink says what is wrong with its Masters
            yield Named(path, key, address_of(cluster), resolve(topic))


def _missing(masters: ClusterAddress, named: Sequence[Named]) -> list[MissingTopicError]:
    """Return errors for those of a cluster's topics that do not exist; none if it does not say."""
    import pytubemq.sync
    from pytubemq.spark.source.planning.survey import known_topics

    try:
        with pytubemq.sync.connect(masters, client_name="pipeline") as tube:
            there = tube.partitions_of(sorted({one.topic for one in named}))
            gone = [one for one in named if one.topic not in there]
            known = known_topics(tube) if gone else None
            return [MissingTopicError(one.path, one.key, one.topic, known=known) for one in gone]
    except TubeError:
        return []
