"""The topics: their records, their deployments on Brokers, and the removal of these.

The rules are the original's: partitions and stores only grow; a deployment is soft deleted only while nothing uses it,
removed only when it is soft deleted, and its record goes when the Broker has reported that the data is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytubemq.master.catalogue.topic_deletion import DELETED_BY
from pytubemq.master.registry.audit import Audit
from pytubemq.master.registry.change import Step, change
from pytubemq.master.registry.outcome import (
    BAD_STATE,
    BAD_VALUE,
    EXISTS,
    NOT_FOUND,
    UNCHANGED,
    Outcome,
)
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import MAX_PARTITIONS_PER_TOPIC
from pytubemq.model.records import DeployRecord, TopicProps, TopicRecord, TopicStatus
from pytubemq.model.topic import HISTORY_TOPIC

if TYPE_CHECKING:
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.records import Record

SYSTEM_USER = "systemSelf"
"""The user name on records that the system needs; the original's name."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic's record, or the changes to it; None is the default, or no change.

    A `topic_name_id` of UNDEFINED, which topics have whose records came along with a place, is for new records.
    """

    topic: str
    topic_name_id: int | None = None
    enable_auth_control: bool | None = None
    max_message_bytes: int | None = None

    def over(self, record: TopicRecord) -> TopicRecord:
        """Return a record with these changes; its stamp stays."""
        auth, name_id = self.enable_auth_control, self.topic_name_id
        return replace(
            record,
            topic_name_id=record.topic_name_id if name_id is None or name_id == UNDEFINED else name_id,
            enable_auth_control=record.enable_auth_control if auth is None else auth,
            max_message_bytes=self.max_message_bytes or record.max_message_bytes,
        )


@dataclass(frozen=True, slots=True)
class DeploySpec:
    """A topic's deployment on a Broker, or the changes to it."""

    topic: str
    broker_id: int
    props: TopicProps = field(default_factory=TopicProps)

    @property
    def key(self) -> tuple[int, str]:
        """The key of its outcome."""
        return (self.broker_id, self.topic)

    def __str__(self) -> str:
        return f"topic {self.topic} on broker {self.broker_id}"


_Decide = Callable[[DeploySpec, Audit, DeployRecord | None], Step[DeployRecord]]


def new_topic(topic: str, catalogue: Catalogue, by: Audit, spec: TopicSpec | None = None) -> TopicRecord:
    """Return the record of a new topic."""
    spec = spec or TopicSpec(topic, topic_name_id=UNDEFINED)
    return TopicRecord(
        topic,
        topic_name_id=spec.topic_name_id or 0,
        enable_auth_control=bool(spec.enable_auth_control),
        max_message_bytes=spec.max_message_bytes or catalogue.cluster.max_message_bytes,
        stamp=by.made(),
    )


class TopicRegistry:
    """Changes of topics. An outcome's key is (brokerId, topic) for deployments, (topic,) for topics."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    # --- deployments --------------------------------------------------------------------------------------------

    async def deploy(self, specs: Sequence[tuple[DeploySpec, Audit]]) -> list[Outcome]:
        """Put topics on Brokers; a topic that is new gets its record."""

        def along(puts: Iterable[DeployRecord]) -> list[TopicRecord]:
            missing = {put.topic: put.stamp.create_ms for put in puts if put.topic not in self._catalogue.topics}
            return [new_topic(topic, self._catalogue, Audit(SYSTEM_USER, ms)) for topic, ms in missing.items()]

        return await self._change(specs, self._deploy, along)

    async def update_deploy(self, specs: Sequence[tuple[DeploySpec, Audit]]) -> list[Outcome]:
        """Change properties of topics on Brokers."""
        return await self._change(specs, self._existing(self._grow))

    async def soft_delete(self, specs: Sequence[tuple[DeploySpec, Audit]]) -> list[Outcome]:
        """Take topics off Brokers where nobody may use them any more; their data stays."""
        return await self._change(specs, self._existing(self._soft_delete))

    async def restore(self, specs: Sequence[tuple[DeploySpec, Audit]]) -> list[Outcome]:
        """Bring back soft-deleted deployments; they are used again once their accept flags are set."""
        return await self._change(specs, self._existing(_restore))

    async def remove(self, specs: Sequence[tuple[DeploySpec, Audit]]) -> list[Outcome]:
        """Have Brokers delete the data of soft-deleted deployments."""
        existing = self._existing(_remove)

        def decide(spec: DeploySpec, by: Audit, record: DeployRecord | None) -> Step[DeployRecord]:
            if by.user == DELETED_BY:
                text = f"modifyUser {DELETED_BY} is reserved for topics that are deleted as a whole: give another name"
                return Step(Outcome(spec.key, BAD_VALUE, text))
            return existing(spec, by, record)

        return await self._change(specs, decide)

    async def _change(
        self,
        specs: Sequence[tuple[DeploySpec, Audit]],
        decide: _Decide,
        along: Callable[[Iterable[DeployRecord]], Iterable[Record]] = lambda _: (),
    ) -> list[Outcome]:
        return await change(
            self._catalogue,
            self._catalogue.deploys,
            specs,
            key=lambda asked: (asked[0].topic, asked[0].broker_id),
            decide=lambda asked, record: decide(*asked, record),
            along=along,
        )

    def _deploy(self, spec: DeploySpec, by: Audit, record: DeployRecord | None) -> Step[DeployRecord]:
        if spec.broker_id not in self._catalogue.brokers:
            return Step(_no_broker(spec))
        if record is not None:
            text = f"{spec} exists already"
            if record.topic_status is not TopicStatus.NORMAL:
                text += " and is being removed: restore it, or wait until it is gone"
            return Step(Outcome(spec.key, EXISTS, text))
        props = spec.props.over(self._catalogue.broker_props(spec.broker_id))
        if (refused := _too_many(spec, props)) is not None:
            return Step(refused)
        return Step(Outcome(spec.key), DeployRecord(spec.topic, spec.broker_id, props=props, stamp=by.made()))

    def _existing(self, turn: Callable[[DeploySpec, DeployRecord], DeployRecord | Outcome]) -> _Decide:
        def decide(spec: DeploySpec, by: Audit, record: DeployRecord | None) -> Step[DeployRecord]:
            if spec.broker_id not in self._catalogue.brokers:
                return Step(_no_broker(spec))
            if record is None:
                return Step(Outcome(spec.key, NOT_FOUND, f"{spec} does not exist: add it first"))
            wanted = turn(spec, record)
            if isinstance(wanted, Outcome):
                return Step(wanted)
            return Step(Outcome(spec.key), replace(wanted, stamp=by.changed(record.stamp)))

        return decide

    def _grow(self, spec: DeploySpec, record: DeployRecord) -> DeployRecord | Outcome:
        if record.topic_status is not TopicStatus.NORMAL:
            text = f"{spec} is being removed and cannot be changed: restore it, or remove it"
            return Outcome(spec.key, BAD_STATE, text)
        now = record.props.over(self._catalogue.broker_props(record.broker_id))
        wanted = spec.props.over(now)
        for name, before, after in (
            ("numPartitions", now.num_partitions or 0, wanted.num_partitions or 0),
            ("numTopicStores", now.num_topic_stores or 0, wanted.num_topic_stores or 0),
        ):
            if after < before:
                return Outcome(spec.key, BAD_VALUE, f"{spec} has {name} {before}: it can only grow, not become {after}")
            if after != before and record.topic == HISTORY_TOPIC:
                return Outcome(spec.key, BAD_VALUE, f"{name} of the system's own topic {HISTORY_TOPIC} stays {before}")
        if wanted == now:
            return Outcome(spec.key, UNCHANGED, f"{spec} has these values already")
        return _too_many(spec, wanted) or replace(record, props=spec.props.over(record.props))

    def _soft_delete(self, spec: DeploySpec, record: DeployRecord) -> DeployRecord | Outcome:
        props = record.props.over(self._catalogue.broker_props(record.broker_id))
        if record.topic_status is TopicStatus.SOFT_DELETED:
            return Outcome(spec.key)
        if record.topic_status is not TopicStatus.NORMAL:
            return Outcome(spec.key, BAD_STATE, f"{spec} is being removed")
        if props.accept_publish or props.accept_subscribe:
            text = f"{spec} is in use: set its acceptPublish and acceptSubscribe to false first"
            return Outcome(spec.key, BAD_STATE, text)
        return replace(record, topic_status=TopicStatus.SOFT_DELETED)

    # --- topics -------------------------------------------------------------------------------------------------

    async def add(self, specs: Sequence[tuple[TopicSpec, Audit]]) -> list[Outcome]:
        """Add records of topics."""

        def decide(spec: TopicSpec, by: Audit, record: TopicRecord | None) -> Step[TopicRecord]:
            if record is not None:
                return Step(Outcome((spec.topic,), EXISTS, f"topic {spec.topic} has a record already: change that"))
            return Step(Outcome((spec.topic,)), new_topic(spec.topic, self._catalogue, by, spec))

        return await self._change_topics(specs, decide)

    async def update(self, specs: Sequence[tuple[TopicSpec, Audit]]) -> list[Outcome]:
        """Change records of topics; Brokers that carry one learn a new size at once."""

        def decide(spec: TopicSpec, by: Audit, record: TopicRecord | None) -> Step[TopicRecord]:
            if record is None:
                return Step(Outcome((spec.topic,), NOT_FOUND, f"topic {spec.topic} has no record: add it first"))
            return _update_topic(spec, by, record)

        return await self._change_topics(specs, decide)

    async def put(self, specs: Sequence[tuple[TopicSpec, Audit]]) -> list[Outcome]:
        """Change records of topics, or add them."""

        def decide(spec: TopicSpec, by: Audit, record: TopicRecord | None) -> Step[TopicRecord]:
            if record is None:
                return Step(Outcome((spec.topic,)), new_topic(spec.topic, self._catalogue, by, spec))
            return _update_topic(spec, by, record)

        return await self._change_topics(specs, decide)

    async def disable_auth(self, topics: Iterable[str], *, by: Audit) -> list[Outcome]:
        """Let everyone consume topics again; one without a record is open already."""

        def decide(spec: TopicSpec, by: Audit, record: TopicRecord | None) -> Step[TopicRecord]:
            if record is None or not record.enable_auth_control:
                return Step(Outcome((spec.topic,)))
            return Step(Outcome((spec.topic,)), replace(spec.over(record), stamp=by.changed(record.stamp)))

        specs = [(TopicSpec(topic, enable_auth_control=False), by) for topic in topics]
        return await self._change_topics(specs, decide)

    async def delete(self, topics: Iterable[str], *, by: Audit) -> list[Outcome]:
        """Delete records of topics that are on no Broker; succeed where there is no record."""

        def decide(spec: TopicSpec, _: Audit, record: TopicRecord | None) -> Step[TopicRecord]:
            places = len(self._catalogue.deployed(spec.topic))
            if places:
                text = f"topic {spec.topic} is on {places} Brokers: remove it there first"
                return Step(Outcome((spec.topic,), BAD_STATE, text))
            if self._catalogue.consumers(spec.topic):
                text = f"topic {spec.topic} has consume control of groups: delete that first"
                return Step(Outcome((spec.topic,), BAD_STATE, text))
            return Step(Outcome((spec.topic,)), delete=record)

        return await self._change_topics([(TopicSpec(topic), by) for topic in topics], decide)

    async def _change_topics(
        self,
        specs: Sequence[tuple[TopicSpec, Audit]],
        decide: Callable[[TopicSpec, Audit, TopicRecord | None], Step[TopicRecord]],
    ) -> list[Outcome]:
        return await change(
            self._catalogue,
            self._catalogue.topics,
            specs,
            key=lambda asked: asked[0].topic,
            decide=lambda asked, record: decide(*asked, record),
        )


def _update_topic(spec: TopicSpec, by: Audit, record: TopicRecord) -> Step[TopicRecord]:
    wanted = spec.over(record)
    if wanted == record:
        return Step(Outcome((spec.topic,), UNCHANGED, f"topic {spec.topic} has these values already"))
    return Step(Outcome((spec.topic,)), replace(wanted, stamp=by.changed(record.stamp)))


def _no_broker(spec: DeploySpec) -> Outcome:
    return Outcome(spec.key, NOT_FOUND, f"broker {spec.broker_id} is not known: add it first")


def _restore(spec: DeploySpec, record: DeployRecord) -> DeployRecord | Outcome:
    if record.topic_status is not TopicStatus.SOFT_DELETED:
        state = "in use" if record.topic_status is TopicStatus.NORMAL else "being removed"
        return Outcome(spec.key, BAD_STATE, f"{spec} is {state}: only what is soft deleted comes back")
    return replace(record, topic_status=TopicStatus.NORMAL)


def _remove(spec: DeploySpec, record: DeployRecord) -> DeployRecord | Outcome:
    if record.topic_status is TopicStatus.NORMAL:
        return Outcome(spec.key, BAD_STATE, f"{spec} is in use: delete it softly first")
    if record.topic_status is TopicStatus.SOFT_DELETED:
        return replace(record, topic_status=TopicStatus.SOFT_REMOVED)
    return Outcome(spec.key)


def _too_many(spec: DeploySpec, props: TopicProps) -> Outcome | None:
    total = (props.num_partitions or 1) * (props.num_topic_stores or 1)
    if total <= MAX_PARTITIONS_PER_TOPIC:
        return None
    text = f"{spec} would have {total} partitions: {MAX_PARTITIONS_PER_TOPIC} are allowed"
    return Outcome(spec.key, BAD_VALUE, text)
