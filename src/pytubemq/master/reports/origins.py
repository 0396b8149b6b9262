"""A topic's effective settings and the layer of each: the topic on a Broker, the Broker, the cluster, or a default.

The invariant: the reported value is the one that the Broker is sent; where no record sets the durability, it is the
Broker's own setting, which the Broker has reported.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from pytubemq.model.policy import retention_of_policy
from pytubemq.model.records import BUILT_IN_PROPS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.durability import Durability
    from pytubemq.model.records import DeployRecord, TopicProps


class Origin(Enum):
    """The layer that a setting comes from."""

    TOPIC = "topic"
    BROKER = "broker"
    """The Master's record of the Broker."""
    CLUSTER = "cluster"
    DEFAULT = "default"
    """No record: the built-in value, or the Broker's own setting."""


class EffectiveValue(NamedTuple):
    """A setting as text, and its origin; several of either are divided by ` / `. An unknown value is blank."""

    value: str
    origin: str


def durability(catalogue: Catalogue, brokers: Brokers, places: Iterable[DeployRecord]) -> EffectiveValue:
    """Return the durability of a topic's messages."""
    return _joined(_durability_at(catalogue, brokers, place) for place in places)


def retention(catalogue: Catalogue, places: Iterable[DeployRecord]) -> EffectiveValue:
    """Return how long a topic's messages are kept."""
    return _joined(
        EffectiveValue(retention_of_policy(str(value)), origin.value)
        for value, origin in (_found(catalogue, place.broker_id, "delete_policy", place.props) for place in places)
    )


def default_durability(catalogue: Catalogue, brokers: Brokers) -> EffectiveValue:
    """Return the durability of a topic without a setting of its own, on any Broker."""
    if (said := catalogue.cluster.props.durability) is not None:
        return EffectiveValue(said.value, Origin.CLUSTER.value)
    found = [EffectiveValue(_reported(brokers, broker_id), Origin.DEFAULT.value) for broker_id in sorted(brokers.runs)]
    return _joined(found or [EffectiveValue("", Origin.DEFAULT.value)])


def default_retention(catalogue: Catalogue) -> EffectiveValue:
    """Return the retention of a topic without a setting of its own."""
    value, origin = _of_cluster(catalogue, "delete_policy")
    return EffectiveValue(retention_of_policy(str(value)), origin.value)


def _durability_at(catalogue: Catalogue, brokers: Brokers, place: DeployRecord) -> EffectiveValue:
    value, origin = _found(catalogue, place.broker_id, "durability", place.props)
    said: Durability | None = value
    return EffectiveValue(_reported(brokers, place.broker_id) if said is None else said.value, origin.value)


def _found(catalogue: Catalogue, broker_id: int, prop: str, props: TopicProps) -> tuple[Any, Origin]:
    if (value := getattr(props, prop)) is not None:
        return value, Origin.TOPIC
    broker = catalogue.brokers.get(broker_id)
    if broker is not None and (value := getattr(broker.props, prop)) is not None:
        return value, Origin.BROKER
    return _of_cluster(catalogue, prop)


def _of_cluster(catalogue: Catalogue, prop: str) -> tuple[Any, Origin]:
    value, built_in = getattr(catalogue.cluster.props, prop), getattr(BUILT_IN_PROPS, prop)
    return (built_in, Origin.DEFAULT) if value in (None, built_in) else (value, Origin.CLUSTER)


def _reported(brokers: Brokers, broker_id: int) -> str:
    run = brokers.runs.get(broker_id)
    return "" if run is None else run.durability


def _joined(found: Iterable[EffectiveValue]) -> EffectiveValue:
    values = list(found)
    return EffectiveValue(_words(one.value for one in values), _words(one.origin for one in values))


def _words(found: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(filter(None, found)))
