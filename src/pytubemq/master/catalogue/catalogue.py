"""The metadata in memory, written through to the store.

The invariants: everything read here is durable, because memory changes only after the store has responded; whoever
reads a record to change it holds `lock` from the reading to the writing, so no change is lost. The store blocks (a
flush takes milliseconds), so it is called on one thread of its own.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from pytubemq.master.catalogue.audit_trail import REFUSED, AuditTrail, current_origin
from pytubemq.master.catalogue.loading import sound_records
from pytubemq.master.catalogue.partition_totals import PartitionTotals
from pytubemq.model.limits import AUDIT_DAYS
from pytubemq.model.policy import parse_delete_policy
from pytubemq.model.records import (
    BUILT_IN_PROPS,
    AuditRecord,
    BrokerRecord,
    ClusterRecord,
    ConsumeRecord,
    DeployRecord,
    GroupRecord,
    PermissionRecord,
    TopicProps,
    TopicRecord,
    UserRecord,
    UserTokenRecord,
)
from pytubemq.model.topic import TopicConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping

    from pytubemq.model.records import Record
    from pytubemq.net.clock import Clock
    from pytubemq.storage.metastore.port import MetaStore

T = TypeVar("T")

SERIAL_STEP = 10
"""The growth of a serial id when the clock has not advanced, in ms."""
_NOTHING: Mapping[int, DeployRecord] = {}
_NO_DEPLOYS: Mapping[str, DeployRecord] = {}
_NOBODY: Mapping[str, ConsumeRecord] = {}


class Catalogue:
    """All records by key. `broker_checksum` tells clients whether their list of Brokers is current.

    `on_change` is called after every change, in the turn of the loop in which it can be read here, with the
    records that were put and deleted.
    """

    def __init__(self, clock: Clock, *, audit_days: int = AUDIT_DAYS) -> None:
        self.cluster = ClusterRecord()
        self.brokers: dict[int, BrokerRecord] = {}
        self.topics: dict[str, TopicRecord] = {}
        self.deploys: dict[tuple[str, int], DeployRecord] = {}
        self.consumes: dict[tuple[str, str], ConsumeRecord] = {}
        self.groups: dict[str, GroupRecord] = {}
        self.users: dict[str, UserRecord] = {}
        self.permissions: dict[str, dict[tuple[str, str, str], PermissionRecord]] = {}
        """The permissions of each user, by operation, kind and pattern."""
        self.user_tokens: dict[str, UserTokenRecord] = {}
        """The bearer tokens of all users, by id."""
        self.audit = AuditTrail(clock, keep_days=audit_days)
        self.broker_checksum = clock.wall_ms()
        self.on_change: Callable[[Collection[Record]], None] = lambda records: None
        self.lock = asyncio.Lock()
        self._clock = clock
        self._store: MetaStore | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metastore")
        self._last_serial_id = 0
        self.changes = 0
        """The number of changes that can be read here."""
        self._by_topic: dict[str, dict[int, DeployRecord]] = {}
        self._by_broker: dict[int, dict[str, DeployRecord]] = {}
        self._consumers: dict[str, dict[str, ConsumeRecord]] = {}
        self._disabled: dict[str, dict[str, ConsumeRecord]] = {}
        self._set_aside: dict[int, list[DeployRecord]] = {}
        """Deployments on Brokers whose records cannot be used."""
        self._configs: dict[tuple[str, int], TopicConfig] = {}
        """Results of `config`, until a record on which they depend changes."""
        self._totals = PartitionTotals(self)

    async def open(self, make: Callable[[], MetaStore]) -> None:
        """Open the store and read all of it."""
        self._store = await self._run(make)
        found = await self._run(self._store.load)
        self.cluster = found.cluster
        records, self._set_aside = sound_records(found)
        for record in records:
            self._enter(record)
        self._last_serial_id = found.last_serial_id

    async def close(self) -> None:
        """Close the store. Idempotent."""
        store, self._store = self._store, None
        if store is not None:
            await self._run(store.close)
        self._thread.shutdown(wait=False)

    async def apply(self, puts: Iterable[Record] = (), deletes: Iterable[Record] = ()) -> None:
        """Add, replace and delete records; durable, and to be read here, when it returns.

        If the caller is cancelled, CancelledError is raised only once the change is stored and can be read here.

        Each stored record gets a new serial id: the wall clock in ms, or 10 more than the last one. Call it with `lock`
        held if a record was derived from one that was read here.

        Raises:
            NotFoundError: a topic would be left on a Broker, or be a topic, that is not known.
            BadRequestError: the topics of a Broker would have more partitions than it takes; nothing has changed.
            StorageError: the store cannot write; nothing has changed.
        """
        await _to_its_end(self._apply(puts, deletes))

    async def _apply(self, puts: Iterable[Record], deletes: Iterable[Record]) -> None:
        store = self._store
        if store is None:
            raise RuntimeError("the catalogue is closed")
        serial_id = max(self._clock.wall_ms(), self._last_serial_id + SERIAL_STEP)
        renewed = [replace(record, stamp=replace(record.stamp, serial_id=serial_id)) for record in puts]
        gone = list(deletes)
        if not renewed and not gone:
            return
        self._totals.check(renewed, gone)
        pending = self.audit.pending(renewed, gone, self._stored)
        forgotten = [] if pending is None else self.audit.to_forget(pending.count)
        self._last_serial_id = serial_id

        def write() -> list[AuditRecord]:
            entries = [] if pending is None else pending.write()
            store.apply([*renewed, *entries], [*gone, *forgotten])
            return entries

        entries = await self._run(write)
        for record in chain(gone, renewed):
            self._forget_configs(record)
        if self._moves_brokers(renewed, gone):
            self.broker_checksum = max(self._clock.wall_ms(), self.broker_checksum + SERIAL_STEP)
        for record in gone:
            self._remove(record)
        for record in renewed:
            self._enter(record)
        self._took(entries, forgotten)
        self.changes += 1
        self.on_change([*gone, *renewed])

    async def note(self, entry: AuditRecord) -> None:
        """Store an entry of the audit trail that belongs to no change of records. Raises StorageError."""
        await _to_its_end(self._note(entry))

    async def _note(self, entry: AuditRecord) -> None:
        store = self._store
        if store is None:
            return
        forgotten = self.audit.to_forget(1, refusals=int(entry.outcome == REFUSED))
        await self._run(lambda: store.apply([entry], forgotten))
        self._took([entry], forgotten)

    # --- queries ------------------------------------------------------------------------------------------------

    def deployed(self, topic: str) -> Mapping[int, DeployRecord]:
        """Return the deployments of a topic, by Broker."""
        return self._by_topic.get(topic, _NOTHING)

    def deployed_on(self, broker_id: int) -> list[DeployRecord]:
        """Return the topics that a Broker carries, or has carried and not yet removed, sorted by name."""
        return [deploy for _, deploy in sorted(self._by_broker.get(broker_id, {}).items())]

    def deploys_on(self, broker_id: int) -> Mapping[str, DeployRecord]:
        """Return the deployments of `deployed_on` by topic, in no order; a live view that follows the records."""
        return self._by_broker.get(broker_id, _NO_DEPLOYS)

    def partitions_on(self, broker_id: int) -> int:
        """Return how many partitions the topics of a Broker have together, by the records."""
        return self._totals.on(broker_id)

    def topics_on(self, broker_id: int) -> Collection[str]:
        """Return the names of the topics of `deployed_on`, in no order; a live view that follows the records."""
        return self._by_broker.get(broker_id, {}).keys()

    def consumers(self, topic: str) -> Mapping[str, ConsumeRecord]:
        """Return the records of consuming of a topic, by group."""
        return self._consumers.get(topic, _NOBODY)

    def broker_props(self, broker_id: int) -> TopicProps:
        """Return a Broker's defaults for topics; a durability of None is the Broker's setting."""
        below = self.cluster.props.over(BUILT_IN_PROPS)
        broker = self.brokers.get(broker_id)
        return below if broker is None else broker.props.over(below)

    def props(self, topic: str, broker_id: int) -> TopicProps:
        """Return a topic's settings on a Broker, all layers together; a durability of None is the Broker's setting."""
        below = self.broker_props(broker_id)
        deploy = self.deployed(topic).get(broker_id)
        return below if deploy is None else deploy.props.over(below)

    def config(self, deploy: DeployRecord) -> TopicConfig:
        """Return a topic's configuration on a Broker, one of `deploys`, with every value, as a Broker reports it."""
        key = (deploy.topic, deploy.broker_id)
        if (known := self._configs.get(key)) is not None:
            return known
        props = deploy.props.over(self.broker_props(deploy.broker_id))
        self._configs[key] = made = TopicConfig(
            deploy.topic,
            props.num_partitions or 1,
            props.num_topic_stores or 1,
            bool(props.accept_publish),
            bool(props.accept_subscribe),
            props.delete_policy or "",
            self.max_message_bytes(deploy.topic),
            int(deploy.topic_status),
            props.durability,
            parse_delete_policy(props.delete_policy or ""),
        )
        return made

    def max_message_bytes(self, topic: str) -> int:
        """Return the size of the largest message of a topic, in bytes."""
        record = self.topics.get(topic)
        return self.cluster.max_message_bytes if record is None else record.max_message_bytes

    def disabled_topics(self, group: str) -> frozenset[str]:
        """Return the topics that a group may not consume, whatever other records allow."""
        return frozenset(self._disabled.get(group, ()))

    # --- inside -------------------------------------------------------------------------------------------------

    def _took(self, entries: Iterable[AuditRecord], forgotten: Iterable[AuditRecord]) -> None:
        for entry in forgotten:
            self.audit.remove(entry)
        for entry in entries:
            self.audit.enter(entry)
            if (origin := current_origin()) is not None:
                origin.noted = True

    def _stored(self, record: Record) -> Record | None:
        """Return the record that is stored under the key of another one."""
        match record:
            case ClusterRecord():
                return self.cluster
            case BrokerRecord():
                return self.brokers.get(record.broker_id)
            case TopicRecord():
                return self.topics.get(record.topic)
            case DeployRecord():
                return self.deploys.get((record.topic, record.broker_id))
            case ConsumeRecord():
                return self.consumes.get((record.group, record.topic))
            case GroupRecord():
                return self.groups.get(record.group)
            case UserRecord():
                return self.users.get(record.user)
            case PermissionRecord():
                return self.permissions.get(record.user, {}).get(_what(record))
            case UserTokenRecord():
                return self.user_tokens.get(record.token_id)
        return None

    def _moves_brokers(self, puts: list[Record], deletes: list[Record]) -> bool:
        """True if these changes alter the list of Brokers that clients have."""
        for record in puts:
            if isinstance(record, BrokerRecord):
                known = self.brokers.get(record.broker_id)
                if known is None or (known.address, known.tls_port) != (record.address, record.tls_port):
                    return True
        return any(isinstance(record, BrokerRecord) for record in deletes)

    def _forget_configs(self, record: Record) -> None:
        match record:
            case ClusterRecord():
                self._configs.clear()
            case BrokerRecord():
                for topic in self._by_broker.get(record.broker_id, ()):
                    self._configs.pop((topic, record.broker_id), None)
            case TopicRecord():
                for broker_id in self.deployed(record.topic):
                    self._configs.pop((record.topic, broker_id), None)
            case DeployRecord():
                self._configs.pop((record.topic, record.broker_id), None)

    def _enter(self, record: Record) -> None:
        match record:
            case ClusterRecord():
                self.cluster = record
                self._totals.forget(record)
            case BrokerRecord():
                self.brokers[record.broker_id] = record
                self._totals.forget(record)
                for place in self._set_aside.pop(record.broker_id, ()):
                    self._enter(place)
            case TopicRecord():
                self.topics[record.topic] = record
            case DeployRecord():
                self._totals.replaced(self.deploys.get((record.topic, record.broker_id)), record)
                self.deploys[record.topic, record.broker_id] = record
                self._by_topic.setdefault(record.topic, {})[record.broker_id] = record
                self._by_broker.setdefault(record.broker_id, {})[record.topic] = record
            case ConsumeRecord():
                self.consumes[record.group, record.topic] = record
                self._consumers.setdefault(record.topic, {})[record.group] = record
                if record.consume_enable:
                    _drop(self._disabled, record.group, record.topic)
                else:
                    self._disabled.setdefault(record.group, {})[record.topic] = record
            case GroupRecord():
                self.groups[record.group] = record
            case UserRecord():
                self.users[record.user] = record
            case PermissionRecord():
                self.permissions.setdefault(record.user, {})[_what(record)] = record
            case UserTokenRecord():
                self.user_tokens[record.token_id] = record
            case AuditRecord():
                self.audit.enter(record)

    def _remove(self, record: Record) -> None:
        match record:
            case ClusterRecord():
                self.cluster = ClusterRecord()
                self._totals.forget(record)
            case BrokerRecord():
                self.brokers.pop(record.broker_id, None)
                self._totals.forget(record)
            case TopicRecord():
                self.topics.pop(record.topic, None)
            case DeployRecord():
                self._totals.replaced(self.deploys.pop((record.topic, record.broker_id), None), None)
                _drop(self._by_topic, record.topic, record.broker_id)
                _drop(self._by_broker, record.broker_id, record.topic)
            case ConsumeRecord():
                self.consumes.pop((record.group, record.topic), None)
                _drop(self._consumers, record.topic, record.group)
                _drop(self._disabled, record.group, record.topic)
            case GroupRecord():
                self.groups.pop(record.group, None)
            case UserRecord():
                self.users.pop(record.user, None)
            case PermissionRecord():
                _drop(self.permissions, record.user, _what(record))
            case UserTokenRecord():
                self.user_tokens.pop(record.token_id, None)
            case AuditRecord():
                self.audit.remove(record)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Do some work to its end even if the caller is cancelled, who is so only then."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _what(record: PermissionRecord) -> tuple[str, str, str]:
    return record.operation, record.resource_kind, record.pattern


K = TypeVar("K")
L = TypeVar("L")


def _drop(index: dict[K, dict[L, T]], outer: K, inner: L) -> None:
    """Remove an entry from an index, and the inner dictionary once it is empty."""
    entries = index.get(outer, {})
    entries.pop(inner, None)
    if not entries:
        index.pop(outer, None)
