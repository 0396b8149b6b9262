"""This Broker's reports to its Master: its condition, its topics and those it has removed, the leases of its readers.

The invariants: a report describes the current state, never an order that is not in force yet; a registration fits into
a frame, however many readers there are and however long their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.model.ids import UNDEFINED, Partition
from pytubemq.model.limits import MAX_REPORTED_LEASES
from pytubemq.wire.protocol.messages.master import ClusterConfig, HeartRequestB2M, RegisterRequestB2M
from pytubemq.wire.text.partition_strings import SubscribeInfo, format_subscribe_info

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.broker.members.consumer_registry import Registration
    from pytubemq.broker.topics import MasterConfig
    from pytubemq.model.ids import BrokerInfo

_SELF_STOPPED: Final = -1
_STOPPED_BY_MASTER: Final = 1
_ITEM_BYTES: Final = 8
"""The most bytes that protobuf puts before one text: its field number and its length."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The Broker's condition, as the Master gets it."""

    writes_off: bool = False
    """True if it refuses messages until somebody has repaired it."""
    problems: tuple[str, ...] = ()
    read_stopped: bool = False
    write_stopped: bool = False
    """The Master's own orders, which are reported back."""
    removed: tuple[str, ...] = ()
    """Topics removed for good that the Master still wants removed."""

    @property
    def read_status(self) -> int:
        """The original's `readStatusRpt`: 0, or 1 while the Master has stopped reads.

        A disk that cannot be read does not stop them: messages in memory, or on its sound parts, are still served.
        """
        return _STOPPED_BY_MASTER if self.read_stopped else 0

    @property
    def write_status(self) -> int:
        """The original's `writeStatusRpt`: 0, 1 while the Master has stopped writes, or -1 for a Broker that has
        stopped them itself."""
        if self.writes_off:
            return _SELF_STOPPED
        return _STOPPED_BY_MASTER if self.write_stopped else 0


def registration(
    client_id: str,
    config: MasterConfig,
    condition: Condition,
    *,
    tls_port: int,
    has_tls: bool = False,
    stored_topics: tuple[str, ...] = (),
) -> RegisterRequestB2M:
    """Return a registration. It requests the flow-control rules, as another Master may have others of the same id.

    A Broker that knows topics from before reports that it is online: it serves them already, and a Java Master then
    offers them at once instead of after half a minute.
    """
    return RegisterRequestB2M(
        client_id=client_id,
        broker_online=bool(config.topic_confs),
        enable_tls=has_tls,
        read_status_rpt=condition.read_status,
        write_status_rpt=condition.write_status,
        cur_broker_conf_id=config.conf_id,
        conf_check_sum_id=config.check_sum,
        broker_default_conf_info=config.default_conf,
        broker_topic_set_conf_info=config.topic_confs,
        held_durability=config.topic_durability,
        held_retention=config.topic_retention,
        stored_topics=stored_topics,
        flow_check_id=UNDEFINED,
        qry_priority_id=UNDEFINED,
        tls_port=tls_port,
        cls_config=ClusterConfig(config_id=config.cluster_id),
    )


def heartbeat(
    broker_id: int, config: MasterConfig, condition: Condition, *, report: bool, wait_s: float
) -> HeartRequestB2M:
    """Return a heartbeat; with `report` it has the configuration; `wait_s` is how long the Master may hold it."""
    return HeartRequestB2M(
        broker_id=str(broker_id),
        broker_online=True,
        read_status_rpt=condition.read_status,
        write_status_rpt=condition.write_status,
        cur_broker_conf_id=config.conf_id,
        conf_check_sum_id=config.check_sum,
        take_conf_info=report,
        take_removed_topic_info=bool(condition.removed),
        broker_default_conf_info=config.default_conf if report else None,
        broker_topic_set_conf_info=config.topic_confs if report else (),
        removed_topics_info=condition.removed,
        flow_check_id=config.flow_check_id,
        qry_priority_id=config.qry_priority_id,
        cls_config=ClusterConfig(config_id=config.cluster_id),
        max_wait_ms=int(wait_s * 1000) or None,
        problems=condition.problems,
    )


def reported_leases(
    registrations: Iterable[Registration], broker: BrokerInfo, *, now_s: float, room_bytes: int
) -> tuple[str, ...]:
    """Return the leases that have not expired, as subscriptions: at most `MAX_REPORTED_LEASES`, in `room_bytes`.

    A Master that has just started assigns these partitions to nobody else.
    """
    found: list[str] = []
    for registration in registrations:
        if registration.lease_until_s <= now_s:
            continue
        partition = Partition(broker.broker_id, registration.key.topic, registration.key.partition_id)
        text = format_subscribe_info(SubscribeInfo(registration.consumer_id, registration.key.group, broker, partition))
        room_bytes -= len(text.encode()) + _ITEM_BYTES
        if room_bytes < 0 or len(found) == MAX_REPORTED_LEASES:
            break
        found.append(text)
    return tuple(found)
