"""Parts that many responses of the Master share.

The invariant: a field that the original always sends is always sent, for its clients read it without looking
whether it is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.model.ids import DEFAULT_BROKER_PORT, DEFAULT_BROKER_TLS_PORT, UNDEFINED, Address, BrokerInfo
from pytubemq.wire.protocol.messages.master import ApprovedClientConfig, ClusterConfig
from pytubemq.wire.text.broker_strings import format_broker_infos

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.model.records import BrokerRecord, ClusterRecord

OK = "OK!"
NO_RULES = "[]"
UNCHANGED = " "


def approved_config(cluster: ClusterRecord, reported: ApprovedClientConfig | None) -> ApprovedClientConfig:
    """Return the message size limit for a client that does not have it yet."""
    known = reported.config_id if reported is not None else 0
    size = cluster.max_message_bytes if known != cluster.stamp.serial_id else None
    return ApprovedClientConfig(config_id=cluster.stamp.serial_id, max_msg_size=size)


def cluster_config(cluster: ClusterRecord, reported: ClusterConfig | None) -> ClusterConfig:
    """Return the message size limit for a Broker that does not have it yet."""
    known = reported.config_id if reported is not None else 0
    size = cluster.max_message_bytes if known != cluster.stamp.serial_id else None
    return ClusterConfig(config_id=cluster.stamp.serial_id, max_msg_size=size)


def broker_infos(brokers: Iterable[BrokerRecord], *, over_tls: bool) -> tuple[str, ...]:
    """Return every configured Broker, running or not; the default port is written as one blank.

    A client that came over TLS gets the TLS ports, of Brokers without TLS, too: it must not fall back to plain ones."""
    return format_broker_infos(
        (reached_at(broker, over_tls=over_tls) for broker in brokers),
        default_port=DEFAULT_BROKER_TLS_PORT if over_tls else DEFAULT_BROKER_PORT,
    )


def reached_at(broker: BrokerRecord, *, over_tls: bool) -> BrokerInfo:
    """Return a Broker with the port for clients of one kind."""
    address = Address(broker.address.host, broker.tls_port) if over_tls else broker.address
    return BrokerInfo(broker.broker_id, address)


NO_FLOW_CONTROL = {
    "def_flow_check_id": UNDEFINED,
    "def_flow_control_info": UNCHANGED,
    "group_flow_check_id": UNDEFINED,
    "group_flow_control_info": UNCHANGED,
    "ssd_store_id": UNDEFINED,
    "qry_priority_id": UNDEFINED,
}
"""The fields for a consumer that requests flow control while there is none."""
