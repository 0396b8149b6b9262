"""The Master's records of a cluster: its metadata, record by record.

Every record is a plain value with a `Stamp` that has its authors. A property that nobody set is None and is looked up
one layer below: a topic's deployment on a Broker, then the Broker, then the cluster. The names are the
original's, Python-cased; sizes and times are in the unit that the name says.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum, unique

from pytubemq.model.durability import Durability  # noqa: TC001 - rows and tests look the field types up
from pytubemq.model.ids import DEFAULT_BROKER_TLS_PORT, UNDEFINED, Address
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES

DEFAULT_BROKER_WEB_PORT = 8081
DEFAULT_QRY_PRIORITY_ID = 301
NO_RULES = "[]"


@unique
class ManageStatus(IntEnum):
    """The uses that a Broker is allowed; the numbers are the original's."""

    DRAFT = 1
    ONLINE = 5
    ONLY_READ = 6
    ONLY_WRITE = 7
    OFFLINE = 9

    @property
    def text(self) -> str:
        """The status as the HTTP API writes it: `only-read`."""
        return self.name.lower().replace("_", "-")

    @property
    def publishes(self) -> bool:
        """True if producers may use the Broker."""
        return self in (ManageStatus.ONLINE, ManageStatus.ONLY_WRITE)

    @property
    def subscribes(self) -> bool:
        """True if consumers may use the Broker."""
        return self in (ManageStatus.ONLINE, ManageStatus.ONLY_READ)


@unique
class TopicStatus(IntEnum):
    """The stage of removal of a topic on a Broker; the numbers are the original's."""

    NORMAL = 0
    SOFT_DELETED = 1
    SOFT_REMOVED = 2
    HARD_REMOVED = 3

    @property
    def removed(self) -> bool:
        """True if the Broker must delete the topic from its disk, or has."""
        return self >= TopicStatus.SOFT_REMOVED


@dataclass(frozen=True, slots=True)
class Stamp:
    """The authors of a record and of its last change; times in ms since 1970, 0 = not known.

    `serial_id` only grows: the wall clock in ms, or 10 more than before. -2 = never saved.
    """

    create_user: str = ""
    create_ms: int = 0
    modify_user: str = ""
    modify_ms: int = 0
    data_version_id: int = UNDEFINED
    serial_id: int = UNDEFINED


@dataclass(frozen=True, slots=True)
class TopicProps:
    """The properties a topic can have, at any layer; None = use the layer below.

    `durability` is ours; the layer below the cluster is each Broker's own setting.
    """

    num_topic_stores: int | None = None
    num_partitions: int | None = None
    unflush_threshold: int | None = None
    unflush_interval: int | None = None
    unflush_data_hold: int | None = None
    mem_cache_msg_size_in_mb: int | None = None
    mem_cache_msg_cnt_in_k: int | None = None
    mem_cache_flush_intvl: int | None = None
    accept_publish: bool | None = None
    accept_subscribe: bool | None = None
    delete_policy: str | None = None
    durability: Durability | None = None

    def over(self, below: TopicProps) -> TopicProps:
        """Return these, with the layer below for each None."""
        return TopicProps(
            **{
                prop.name: getattr(below if getattr(self, prop.name) is None else self, prop.name)
                for prop in fields(self)
            }
        )


BUILT_IN_PROPS = TopicProps(
    num_topic_stores=1,
    num_partitions=1,
    unflush_threshold=1000,
    unflush_interval=10_000,
    unflush_data_hold=0,
    mem_cache_msg_size_in_mb=3,
    mem_cache_msg_cnt_in_k=10,
    mem_cache_flush_intvl=20_000,
    accept_publish=True,
    accept_subscribe=True,
    delete_policy="delete,168h",
)
"""The lowest layer; has a value for every property but the durability."""


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """Settings of the whole cluster. `stamp.serial_id` stays -2 until something was set, as clients expect."""

    broker_port: int = 8123
    broker_tls_port: int = DEFAULT_BROKER_TLS_PORT
    broker_web_port: int = DEFAULT_BROKER_WEB_PORT
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    qry_priority_id: int = DEFAULT_QRY_PRIORITY_ID
    flow_ctrl_enable: bool = False
    flow_ctrl_info: str = NO_RULES
    props: TopicProps = BUILT_IN_PROPS
    stamp: Stamp = field(default_factory=Stamp)


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A Broker of the cluster, whether it runs or not."""

    broker_id: int
    address: Address
    tls_port: int = DEFAULT_BROKER_TLS_PORT
    web_port: int = DEFAULT_BROKER_WEB_PORT
    region_id: int = 0
    group_id: int = 0
    manage_status: ManageStatus = ManageStatus.ONLINE
    props: TopicProps = field(default_factory=TopicProps)
    stamp: Stamp = field(default_factory=Stamp)


@dataclass(frozen=True, slots=True)
class DeployRecord:
    """A topic on one Broker. Key: (topic, broker_id)."""

    topic: str
    broker_id: int
    topic_status: TopicStatus = TopicStatus.NORMAL
    props: TopicProps = field(default_factory=TopicProps)
    stamp: Stamp = field(default_factory=Stamp)


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic in the whole cluster (the original's topic control). Key: topic."""

    topic: str
    topic_name_id: int = 0
    enable_auth_control: bool = False
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    stamp: Stamp = field(default_factory=Stamp)


@dataclass(frozen=True, slots=True)
class ConsumeRecord:
    """The rules for one group and one topic (the original's consume control). Key: (group, topic)."""

    group: str
    topic: str
    consume_enable: bool = True
    disable_csm_rsn: str = ""
    filter_enable: bool = False
    filter_conds: frozenset[str] = frozenset()
    stamp: Stamp = field(default_factory=Stamp)


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """Settings of one consumer group (the original's group resource control). Key: group."""

    group: str
    res_check_enable: bool = False
    alwd_broker_client_rate: int = 0
    qry_priority_id: int = DEFAULT_QRY_PRIORITY_ID
    flow_ctrl_enable: bool = False
    flow_ctrl_info: str = NO_RULES
    stamp: Stamp = field(default_factory=Stamp)


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A user of the cluster: a client, a Broker or a person. Key: user.

    `sealed_secret` is the secret that signs requests, encrypted; `password_hash` what people use over HTTP, hashed;
    each is blank where the user has none. `secret_epoch` grows whenever earlier tokens of the user become invalid.
    """

    user: str
    user_enabled: bool = True
    secret_epoch: int = 1
    sealed_secret: str = field(default="", repr=False)
    password_hash: str = field(default="", repr=False)
    stamp: Stamp = field(default_factory=Stamp)


@dataclass(frozen=True, slots=True)
class PermissionRecord:
    """An operation that a user is allowed on the resources that a pattern covers. All but the stamp is the key."""

    user: str
    operation: str
    resource_kind: str
    pattern: str
    stamp: Stamp = field(default_factory=Stamp)


@dataclass(frozen=True, slots=True)
class UserTokenRecord:
    """A bearer token of a user for HTTP. Key: (user, token_id).

    `token_hash` is the SHA-256 of the token; `expires_ms` is 0 where it does not expire. `stamp.create_user` made it.
    """

    user: str
    token_id: str
    token_hash: str = field(default="", repr=False)
    expires_ms: int = 0
    stamp: Stamp = field(default_factory=Stamp)


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An entry of the audit trail: a change, or a refused sign-in. Key: entry_id, which only grows.

    `stamp.create_user` did it at `stamp.create_ms`, from `host`, by the call `action`. `before` and `after` are JSON
    objects of the changed fields by record, without secrets, and are cut to a bounded length.
    """

    entry_id: int
    host: str
    action: str
    target: str
    outcome: str
    before: str = "{}"
    after: str = "{}"
    stamp: Stamp = field(default_factory=Stamp)


Record = (
    ClusterRecord
    | BrokerRecord
    | DeployRecord
    | TopicRecord
    | ConsumeRecord
    | GroupRecord
    | UserRecord
    | PermissionRecord
    | UserTokenRecord
    | AuditRecord
)
