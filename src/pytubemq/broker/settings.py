"""Settings of a Broker's service."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytubemq.model.ids import DEFAULT_BROKER_TLS_PORT
from pytubemq.model.limits import (
    BROKER_HEARTBEAT_PERIOD_S,
    FOREIGN_CONNECTION_GRACE_S,
    LEASE_TIMEOUT_S,
    LOST_CONNECTION_GRACE_S,
    MAX_CONNECTIONS,
    MAX_POSITIONS,
    MAX_STAGED_BYTES,
    MAX_UNAPPLIED_BYTES,
    RETENTION_CHECK_S,
)
from pytubemq.storage.store_settings import StoreSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.model.ids import Address
    from pytubemq.model.tls_options import TlsOptions
    from pytubemq.model.topic import TopicConfig
    from pytubemq.security.credentials import Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings of a Broker.

    `data_dir` is the directory under which the Broker makes its own, `broker-<id>`. `masters` empty: no Master, the
    topics are `topics`. `advertised` None: clients are sent the listening address.
    """

    broker_id: int
    listen: Address
    data_dir: Path
    advertised: Address | None = None
    masters: tuple[Address, ...] = ()
    topics: tuple[TopicConfig, ...] = ()
    credentials: Credentials | None = None
    """The user as which this Broker registers at its Master; None: it does not sign."""
    requires_access: bool = False
    """True if callers are refused until the Master has sent the rules of access."""
    insecure: bool = False
    """Shown in the Broker's health, metrics and pages."""
    tls_port: int = DEFAULT_BROKER_TLS_PORT
    """Reported to the Master, which may have it in its records of this Broker, where nothing listens there, too."""
    tls_listen: Address | None = None
    """The address of the TLS port; None without one. The port in use is reported."""
    opens_plain: bool = True
    """True if the port of `listen` is opened; else it is only reserved."""
    servers_tls: TlsOptions | None = None
    """The options for connections to the Masters; None connects without TLS."""
    heartbeat_period_s: float = BROKER_HEARTBEAT_PERIOD_S
    """The time between heartbeats to a Master that does not hold them."""
    lease_timeout_s: float = LEASE_TIMEOUT_S
    lost_connection_grace_s: float = LOST_CONNECTION_GRACE_S
    foreign_connection_grace_s: float = FOREIGN_CONNECTION_GRACE_S
    """The times that one of our clients, and any other, keeps its partitions after its connection broke."""
    max_staged_bytes: int = MAX_STAGED_BYTES
    max_unapplied_bytes: int = MAX_UNAPPLIED_BYTES
    max_positions: int = MAX_POSITIONS
    """The most confirmed offsets, one for each group and partition."""
    max_connections: int = MAX_CONNECTIONS
    retention_check_s: float = RETENTION_CHECK_S
    """The time between two passes of retention."""
    stop_timeout_s: float = 2.0
    """The time that a stop waits for unfinished writes."""
    store: StoreSettings = field(default_factory=StoreSettings)
    """Files, and the durability of topics for which nobody says it."""
