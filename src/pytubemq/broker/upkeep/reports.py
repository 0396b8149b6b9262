"""What this Broker tells its Master: how it is, what it serves, what it has removed.

The invariant: it tells what is so now, never what it was told to become.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.model.ids import UNDEFINED
from pytubemq.wire.protocol.messages.master import ClusterConfig, HeartRequestB2M, RegisterRequestB2M

if TYPE_CHECKING:
    from pytubemq.broker.topics import MasterConfig

_SELF_STOPPED: Final = -1
_STOPPED_BY_MASTER: Final = 1


@dataclass(frozen=True, slots=True)
class Condition:
    """How the Broker is, as the Master is told."""

    writes_off: bool = False
    """It takes no messages until somebody has mended it."""
    problems: tuple[str, ...] = ()
    read_stopped: bool = False
    write_stopped: bool = False
    """The Master's own word, which it hears back."""
    removed: tuple[str, ...] = ()
    """Topics taken away for good that the Master still wants removed."""

    @property
    def read_status(self) -> int:
        """The original's `readStatusRpt`: 0, or 1 while the Master has stopped reads. (A disk that cannot be read does
        not stop them here: what is in memory, or on its sound parts, is still served.)"""
        return _STOPPED_BY_MASTER if self.read_stopped else 0

    @property
    def write_status(self) -> int:
        """The original's `writeStatusRpt`: 0, 1 while the Master has stopped writes, or -1 for a Broker that has
        stopped them itself."""
        if self.writes_off:
            return _SELF_STOPPED
        return _STOPPED_BY_MASTER if self.write_stopped else 0


def registration(
    client_id: str, config: MasterConfig, condition: Condition, *, tls_port: int, stored_topics: tuple[str, ...] = ()
) -> RegisterRequestB2M:
    """A registration. It asks for the flow-control rules anew, since another Master may have others under the same id.

    A Broker that knows topics from before says that it is on line: it serves them already, and a Java Master then
    offers them at once instead of after half a minute.
    """
    return RegisterRequestB2M(
        client_id=client_id,
        broker_online=bool(config.topic_confs),
        enable_tls=False,
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
    """A heartbeat; `report` says whether it tells the configuration, `wait_s` how long the Master may hold it."""
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
