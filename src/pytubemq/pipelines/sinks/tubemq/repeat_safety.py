"""Brokers that store again what is sent again: without them, rows with a number are stored once.

The invariant: a sink by number is taken to write to none of them only where every Broker that its rows may go to has
said so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import TubeError
from pytubemq.pipelines.file.cluster_keys import address_of
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.file.sink_table import sink_kind

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import ClusterKeys, Pipeline, Sink
    from pytubemq.sync import Tube


def find_repeating_broker(tube: Tube, topic: str | None) -> str | None:
    """Find a topic's Broker that does not recognize a number which it has; None if there is none.

    Args:
        tube: connected to the topic's cluster.
        topic: its name; None where each row names its own, which may be any.

    Raises:
        TubeError: the cluster cannot be asked.
    """
    from pytubemq.wire.protocol.extensions import Capability

    names = [topic] if topic is not None else tube.topics()
    partitions = [one for found in tube.partitions_of(names).values() for one in found]
    can = tube.capabilities(partitions)
    strange = next((one for one in partitions if Capability.IDEMPOTENT not in can[one.broker_id]), None)
    return None if strange is None else f"Broker {strange.broker_id} of topic {strange.topic}"


def repeating(pipeline: Pipeline) -> frozenset[str]:
    """Return the names of the sinks, the dead letters among them, whose Brokers store repeats, or did not say.

    Args:
        pipeline: its Masters named.
    """
    letters = () if pipeline.dead_letter is None else (pipeline.dead_letter.as_sink(),)
    asked = [sink for sink in (*pipeline.sinks, *letters) if sink_kind(sink.format).by_number(sink)]
    return frozenset(sink.name for sink in asked if _repeats(sink, pipeline.cluster_of(sink)))


def _repeats(sink: Sink, cluster: ClusterKeys) -> bool:
    import pytubemq.sync

    try:
        with pytubemq.sync.connect(address_of(cluster), client_name="pipeline") as tube:
            return find_repeating_broker(tube, resolve(sink.topic) if sink.topic else None) is not None
    except TubeError:
        return True
