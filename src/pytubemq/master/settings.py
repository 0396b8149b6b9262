"""Settings of a Master."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytubemq.model.ids import DEFAULT_MASTER_PORT, Address
from pytubemq.model.limits import (
    AUDIT_DAYS,
    BROKER_ABSENCE_S,
    CLIENT_TIMEOUT_S,
    EVENT_TIMEOUT_S,
    FIRST_BROKER_WAIT_S,
    FOREIGN_TOPIC_TIMEOUT_S,
    INSPECT_TIMEOUT_S,
    LOST_CONNECTION_GRACE_S,
    MAX_AUTO_FORBIDDEN,
    MAX_BROKERS,
    MAX_CLIENT_STATE_BYTES,
    MAX_CLIENTS,
    MAX_CLIENTS_PER_CONNECTION,
    MAX_CONNECTIONS,
    MAX_HEARTBEAT_WAIT_S,
    MAX_HELD_HEARTBEATS,
    RESTART_GRACE_S,
    TOPIC_READY_TIMEOUT_S,
)
from pytubemq.net.elect.sole_elector import SOLE_EPOCH
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.storage.metastore.opening import lead_in_database, open_metastore

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.core.database.store_options import StoreOptions
    from pytubemq.model.tls_options import TlsOptions
    from pytubemq.storage.metastore.port import MetaStore


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterSettings:
    """Settings of one Master; waits in seconds.

    `data_dir` is the directory of the metadata file; None keeps the metadata in memory only.
    `advertised` is the address that others are sent, where it differs from `listen`.
    """

    listen: Address = field(default_factory=lambda: Address("127.0.0.1", DEFAULT_MASTER_PORT))
    advertised: Address | None = None
    tls_listen: Address | None = None
    """The address of the TLS port; None without one."""
    opens_plain: bool = True
    """True if the port of `listen` is opened; else it is only reserved."""
    servers_tls: TlsOptions | None = None
    """The options for connections to those Brokers that have TLS; None connects without."""
    data_dir: Path | None = None
    database: StoreOptions | None = None
    """The database or ZooKeeper with the metadata, instead of a file; the Master must hold the lease there."""
    epoch: int = SOLE_EPOCH
    """The epoch with which the Master leads."""
    authentication: AuthenticationMode = AuthenticationMode.OFF
    root_key: bytes | None = field(default=None, repr=False)
    """The key that secrets are sealed and tokens derived with; without one there are no users."""
    audit_days: int = AUDIT_DAYS
    insecure: bool = False
    """Shown in the cluster's health, metrics and pages."""
    auto_register_brokers: bool = True
    client_timeout_s: float = CLIENT_TIMEOUT_S
    consumer_timeout_s: float = 0.0
    producer_timeout_s: float = 0.0
    broker_timeout_s: float = 0.0
    """Timeouts of one kind of client each; 0 is `client_timeout_s`."""
    lost_connection_grace_s: float = LOST_CONNECTION_GRACE_S
    event_timeout_s: float = EVENT_TIMEOUT_S
    restart_grace_s: float = RESTART_GRACE_S
    broker_absence_s: float = BROKER_ABSENCE_S
    max_heartbeat_wait_s: float = MAX_HEARTBEAT_WAIT_S
    max_connections: int = MAX_CONNECTIONS
    max_clients: int = MAX_CLIENTS
    max_clients_per_connection: int = MAX_CLIENTS_PER_CONNECTION
    max_client_state_bytes: int = MAX_CLIENT_STATE_BYTES
    max_brokers: int = MAX_BROKERS
    max_auto_forbidden: int = MAX_AUTO_FORBIDDEN
    max_held_heartbeats: int = MAX_HELD_HEARTBEATS
    first_broker_wait_s: float = FIRST_BROKER_WAIT_S
    topic_ready_timeout_s: float = TOPIC_READY_TIMEOUT_S
    foreign_topic_timeout_s: float = FOREIGN_TOPIC_TIMEOUT_S
    inspect_timeout_s: float = INSPECT_TIMEOUT_S

    def open_store(self) -> MetaStore:
        """Return the store of the metadata. It blocks while it is opened. Raises as `storage.metastore.opening`."""
        if self.database is None:
            return open_metastore(self.data_dir)
        return lead_in_database(self.database, self.epoch, directory=self.data_dir)

    @property
    def heartbeat_wait_s(self) -> float:
        """The longest time that a heartbeat is held: well within the time after which its sender counts as gone."""
        shortest_s = min(self.consumer_silence_s, self.producer_silence_s, self.broker_silence_s)
        return min(self.max_heartbeat_wait_s, shortest_s / 3)

    @property
    def consumer_silence_s(self) -> float:
        """The time after which a silent consumer counts as gone."""
        return self.consumer_timeout_s or self.client_timeout_s

    @property
    def producer_silence_s(self) -> float:
        """The time after which a silent producer counts as gone."""
        return self.producer_timeout_s or self.client_timeout_s

    @property
    def broker_silence_s(self) -> float:
        """The time after which a silent Broker counts as gone."""
        return self.broker_timeout_s or self.client_timeout_s
