"""Settings of a Broker and of its store."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from pytubemq.model import limits
from pytubemq.model.durability import Durability  # noqa: TC001 - the type of a setting, read when it is used
from pytubemq.model.ids import DEFAULT_BROKER_PORT, DEFAULT_BROKER_TLS_PORT
from pytubemq.storage.store_settings import StoreSettings

DEFAULT_BROKER_HTTP_PORT = 8081
_STORE = StoreSettings()
"""A setting that is handed on has the default of the room that uses it."""


class BrokerSection(Struct, frozen=True, kw_only=True):
    """`[broker]`: the store of the messages."""

    id: Annotated[int, Meta(ge=1, le=2**31 - 1, description="this Broker's number, unique in the cluster")] = 1
    listen: Annotated[str, Meta(description="address to listen on for the protocol, host:port")] = (
        f"127.0.0.1:{DEFAULT_BROKER_PORT}"
    )
    advertised: Annotated[str, Meta(description="address advertised to clients, when it differs from `listen`")] = ""
    http_listen: Annotated[
        str,
        Meta(
            description="address to listen on for HTTP (`/broker.htm`), host:port; empty: none. `hosts`, `token` and "
            "`token_in_url` of [http] hold here too"
        ),
    ] = f"127.0.0.1:{DEFAULT_BROKER_HTTP_PORT}"
    masters: Annotated[
        list[str], Meta(description="the Masters; empty means the Master in the same process, or `master.listen`")
    ] = field(default_factory=list)
    tls_port: Annotated[
        int,
        Meta(
            ge=0,
            le=65_535,
            description="port for the protocol over TLS, on the host of `listen`; see [tls]. The Master has it in its "
            "record of this Broker, and a Java Master compares it also where nothing listens there",
        ),
    ] = DEFAULT_BROKER_TLS_PORT
    durability: Annotated[
        Durability,
        Meta(
            description="what an acknowledged message survives, if neither its topic nor the cluster sets it: "
            "a power cut (`disk`), a killed Broker (`process`), neither (`memory`)"
        ),
    ] = _STORE.durability
    retention_check_s: Annotated[float, Meta(gt=0, le=86_400, description="time between two retention passes")] = (
        limits.RETENTION_CHECK_S
    )
    check_on_read: Annotated[
        bool,
        Meta(
            description="check each record again when it is read from the disk, so that a damaged one is skipped and "
            "reported; costs some time for each single message. Without it a damaged one is found when a client could "
            "not read it and fetches again"
        ),
    ] = _STORE.check_on_read
    check_packs_on_read: Annotated[
        bool,
        Meta(
            description="the same where record batches are read, at a small cost for each message, so that this "
            "Broker notices "
            "and reports damage on its disk"
        ),
    ] = _STORE.check_packs_on_read
    heartbeat_period_s: Annotated[
        float, Meta(gt=0, le=60, description="time between heartbeats to a Master without long poll for heartbeats")
    ] = limits.BROKER_HEARTBEAT_PERIOD_S
    lease_timeout_s: Annotated[
        float, Meta(gt=0, le=3_600, description="how long a silent consumer keeps its partitions")
    ] = limits.LEASE_TIMEOUT_S
    segment_bytes: Annotated[
        int, Meta(ge=limits.MIB, le=2**40, description="size at which a partition's next log file begins")
    ] = _STORE.segment_bytes
    journal_segment_bytes: Annotated[
        int, Meta(ge=limits.MIB, le=2**40, description="the same for the journal's files")
    ] = _STORE.journal_segment_bytes
    reserve_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=2**50,
            description="free space on the disk that sends may not use, so that accepted messages "
            "always fit into their logs",
        ),
    ] = _STORE.reserve_bytes
