"""Settings of the Master."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from pytubemq.core.database.database_limits import LEASE_S
from pytubemq.master.leader.store_settings import SQLITE, LeaseSeconds, PasswordFile, Store
from pytubemq.master.settings import MasterSettings
from pytubemq.model import limits
from pytubemq.model.ids import DEFAULT_MASTER_PORT, DEFAULT_MASTER_TLS_PORT

_MASTER = MasterSettings()
"""A setting that is handed on has the default of the room that uses it."""


class MasterSection(Struct, frozen=True, kw_only=True):
    """`[master]`: the keeper of topics, Brokers and groups."""

    listen: Annotated[str, Meta(description="address to listen on for the protocol, host:port")] = (
        f"127.0.0.1:{DEFAULT_MASTER_PORT}"
    )
    advertised: Annotated[str, Meta(description="advertised address, when it differs from `listen`")] = ""
    tls_port: Annotated[
        int, Meta(ge=0, le=65_535, description="port for the protocol over TLS, on the host of `listen`; see [tls]")
    ] = DEFAULT_MASTER_TLS_PORT
    store: Store = SQLITE
    store_password_file: PasswordFile = ""
    lease_s: LeaseSeconds = LEASE_S
    client_timeout_s: Annotated[
        float, Meta(gt=0, le=86_400, description="a client or Broker that is silent for this long counts as gone")
    ] = limits.CLIENT_TIMEOUT_S
    consumer_timeout_s: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="a consumer that is silent for this long counts as gone; 0: as `client_timeout_s`",
        ),
    ] = _MASTER.consumer_timeout_s
    producer_timeout_s: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="a producer that is silent for this long counts as gone; 0: as `client_timeout_s`",
        ),
    ] = _MASTER.producer_timeout_s
    broker_timeout_s: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="a Broker that is silent for this long counts as gone; 0: as `client_timeout_s`",
        ),
    ] = _MASTER.broker_timeout_s
    lost_connection_grace_s: Annotated[
        float,
        Meta(ge=0, le=3_600, description="a pytubemq client whose connection broke may come back within this time"),
    ] = limits.LOST_CONNECTION_GRACE_S
    auto_register_brokers: Annotated[bool, Meta(description="whether an unknown Broker may register automatically")] = (
        _MASTER.auto_register_brokers
    )
