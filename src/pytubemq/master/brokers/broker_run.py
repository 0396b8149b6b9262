"""A Broker while it is registered: what it was given, what it has reported, when it is due."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytubemq.master.brokers.configuration import BrokerConf, SyncId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.model.ids import Address
    from pytubemq.model.records import ManageStatus, TopicProps, TopicStatus
    from pytubemq.model.topic import TopicConfig


@dataclass(frozen=True, slots=True)
class Serving:
    """A topic as an online Broker has it: what it has reported, and what producers and consumers may do there."""

    config: TopicConfig
    publish: bool
    subscribe: bool


@dataclass(frozen=True, slots=True)
class HeldTopic:
    """A topic as a Broker reported it; `max_message_bytes` None is the cluster's."""

    name: str
    status: TopicStatus
    props: TopicProps
    max_message_bytes: int | None


@dataclass(slots=True)
class BrokerRun:
    """A Broker that is registered now."""

    broker_id: int
    address: Address
    version: str
    deadline_s: float
    heard_s: float
    conf: BrokerConf
    reported: SyncId = field(default_factory=SyncId)
    source: str = ""
    """The machine that its connection comes from."""
    settled_s: float = 0.0
    """The time from which on its reports change records: a Broker that replaced a live one may be a mistake."""
    over_tls: bool = False
    holds_heartbeats: bool = False
    """True if its heartbeats may be held until something changes, so that it learns of a change at once."""
    knows_access: bool = False
    """True if it gets users, permissions and keys from the Master, and identifies clients by them."""
    online: bool = False
    topics: dict[str, TopicConfig] = field(default_factory=dict)
    reported_defaults: str = ""
    reported_topics: dict[str, TopicConfig] = field(default_factory=dict)
    """The reported topics, by the strings that they were read from."""
    surplus: int = 0
    """The most partitions that it can have reported beyond those of the records."""
    unknown: Mapping[str, HeldTopic] = field(default_factory=dict)
    """Topics that it has and the Master does not know: it gets no orders until they are taken over or discarded."""
    read_status: int = 0
    write_status: int = 0
    durability: str = ""
    """Its own durability setting, for topics without one; blank for a Broker of the original."""
    access_version: int | None = None
    """The version of users and permissions that it has; None for a Java Broker, which does not know them."""
    web_port: int | None = None
    """The port of its web pages, as it reports it; None for a Broker without pages and for a Java Broker."""
    problems: tuple[str, ...] = ()
    """The problems that it reports."""
    pushed: SyncId | None = None
    pushed_s: float = 0.0
    overdue: bool = False
    """True if it has not applied a change in time, nor any since: nobody waits for it, if there is another Broker."""
    manage_status: ManageStatus | None = None
    """The manage status that an operator set, as of its last heartbeat; None before the first."""
    last_news: object = None
    """The content of its last response beside the configuration; None if that may not have reached it."""
    lost: bool = False
    since_ms: int = 0
    heard_ms: int = 0

    @property
    def in_sync(self) -> bool:
        """True if it has reported the configuration that it was given last."""
        return self.reported == self.conf.sync_id
