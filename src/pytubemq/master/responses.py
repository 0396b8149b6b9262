"""Parts that many responses of the Master share.

The invariant: a field that the original always sends is always sent, for its clients read it without looking
whether it is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.model.ids import UNDEFINED, BrokerInfo
from pytubemq.wire.protocol.messages.master import ApprovedClientConfig, ClusterConfig
from pytubemq.wire.text.broker_strings import format_broker_infos

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.model.records import BrokerRecord, ClusterRecord

OK = "OK!"
NO_RULES = "[]"
UNCHANGED = " "


def approved_config(cluster: ClusterRecord, asked: ApprovedClientConfig | None) -> ApprovedClientConfig:
    """Return the message size limit for a client that does not have it yet."""
    known = asked.config_id if asked is not None else 0
    size = cluster.max_message_bytes if known != cluster.stamp.serial_id else None
    return ApprovedClientConfig(config_id=cluster.stamp.serial_id, max_msg_size=size)


def cluster_config(cluster: ClusterRecord, asked: ClusterConfig | None) -> ClusterConfig:
    """Return the message size limit for a Broker that does not have it yet."""
    known = asked.config_id if asked is not None else 0
    size = cluster.max_message_bytes if known != cluster.stamp.serial_id else None
    return ClusterConfig(config_id=cluster.stamp.serial_id, max_msg_size=size)


def broker_infos(brokers: Iterable[BrokerRecord]) -> tuple[str, ...]:
    """Return every configured Broker, running or not; the default port is written as one blank."""
    return format_broker_infos(BrokerInfo(broker.broker_id, broker.address) for broker in brokers)


NO_FLOW_CONTROL = {
    "def_flow_check_id": UNDEFINED,
    "def_flow_control_info": UNCHANGED,
    "group_flow_check_id": UNDEFINED,
    "group_flow_control_info": UNCHANGED,
    "ssd_store_id": UNDEFINED,
    "qry_priority_id": UNDEFINED,
}
"""The fields for a consumer that requests flow control while there is none."""
