"""The partitions that the records place on each Broker, and the refusal of more than a Broker takes.

The invariant: no change adds partitions to a Broker beyond `MAX_PARTITIONS_PER_BROKER`. A Broker would refuse every
configuration from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytubemq.errors import BadRequestError, Code
from pytubemq.model.limits import MAX_PARTITIONS_PER_BROKER
from pytubemq.model.records import BUILT_IN_PROPS, BrokerRecord, ClusterRecord, DeployRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytubemq.model.records import Record, TopicProps


class Records(Protocol):
    """The part of the catalogue that is counted."""

    @property
    def cluster(self) -> ClusterRecord:
        """The cluster's record."""
        ...

    @property
    def brokers(self) -> Mapping[int, BrokerRecord]:
        """The records of Brokers, by id."""
        ...

    def broker_props(self, broker_id: int) -> TopicProps:
        """Return a Broker's defaults for topics."""
        ...

    def deploys_on(self, broker_id: int) -> Mapping[str, DeployRecord]:
        """Return the deployments on a Broker, by topic."""
        ...


_Deploys = dict[str, "DeployRecord | None"]


class PartitionTotals:
    """The number of partitions by Broker, counted once and kept up to date."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._totals: dict[int, int] = {}

    def on(self, broker_id: int) -> int:
        """Return how many partitions the records place on a Broker."""
        if (known := self._totals.get(broker_id)) is not None:
            return known
        below = self._records.broker_props(broker_id)
        total = sum(_partitions(place, below) for place in self._records.deploys_on(broker_id).values())
        self._totals[broker_id] = total
        return total

    def replaced(self, old: DeployRecord | None, new: DeployRecord | None) -> None:
        """Count a deployment that was added, changed or deleted; call it before its Broker's settings change."""
        for place, sign in ((old, -1), (new, 1)):
            if place is not None and place.broker_id in self._totals:
                below = self._records.broker_props(place.broker_id)
                self._totals[place.broker_id] += sign * _partitions(place, below)

    def forget(self, record: BrokerRecord | ClusterRecord) -> None:
        """Count anew where other settings may be in force now."""
        if isinstance(record, BrokerRecord):
            self._totals.pop(record.broker_id, None)
        else:
            self._totals.clear()

    def check(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        """Refuse a change that leaves a Broker with more partitions than it takes, and than it has now.

        Raises:
            BadRequestError: it does; nothing has changed.
        """
        changed: dict[int, _Deploys] = {}
        for record in deletes:
            if isinstance(record, DeployRecord):
                changed.setdefault(record.broker_id, {})[record.topic] = None
        for record in puts:
            if isinstance(record, DeployRecord):
                changed.setdefault(record.broker_id, {})[record.topic] = record
        cluster = next((one for one in puts if isinstance(one, ClusterRecord)), self._records.cluster)
        brokers = {one.broker_id: one for one in puts if isinstance(one, BrokerRecord)}
        everywhere = _layout(cluster.props) != _layout(self._records.cluster.props)
        for broker_id in {*changed, *brokers, *(self._records.brokers if everywhere else ())}:
            self._check(broker_id, changed.get(broker_id, {}), brokers, cluster)

    def _check(
        self, broker_id: int, changed: _Deploys, brokers: Mapping[int, BrokerRecord], cluster: ClusterRecord
    ) -> None:
        now, before = self._records.broker_props(broker_id), self.on(broker_id)
        broker = brokers.get(broker_id) or self._records.brokers.get(broker_id)
        below = cluster.props.over(BUILT_IN_PROPS)
        below = below if broker is None else broker.props.over(below)
        there = self._records.deploys_on(broker_id)
        added = sum(_partitions(place, below) for place in changed.values() if place is not None)
        if _layout(below) == _layout(now):
            kept = before - sum(_partitions(there[topic], now) for topic in changed if topic in there)
        else:
            kept = sum(_partitions(place, below) for topic, place in there.items() if topic not in changed)
        if kept + added > max(before, MAX_PARTITIONS_PER_BROKER):
            raise BadRequestError(
                f"the topics on broker {broker_id} have {before:,} partitions, and would have {kept + added:,}; "
                f"{MAX_PARTITIONS_PER_BROKER:,} are allowed on a Broker",
                hint="give fewer partitions, delete topics, or add a Broker for others",
                code=Code.BAD_REQUEST,
            )


def _layout(props: TopicProps) -> tuple[int | None, int | None]:
    return props.num_partitions, props.num_topic_stores


def _partitions(place: DeployRecord, below: TopicProps) -> int:
    """Return the partitions of a topic on a Broker whose own settings are `below`; none once it is to be removed."""
    if place.topic_status.removed:
        return 0
    partitions = place.props.num_partitions or below.num_partitions or 1
    return partitions * (place.props.num_topic_stores or below.num_topic_stores or 1)
