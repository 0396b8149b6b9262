"""All methods of the Master."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.admin.webapi.method import Table
from pytubemq.admin.webapi.methods import (
    brokers,
    cluster,
    consume_lists,
    consumes,
    default_rules,
    groups,
    runtime,
    topic_control,
    topics,
)

if TYPE_CHECKING:
    from pytubemq.master.service import MasterService

_STATS = "counters are not kept in this form; see /metrics for Prometheus, and /api/v1/health"

NOT_OFFERED = {
    "admin_get_metrics_info": _STATS,
    "admin_enable_stats": _STATS,
    "admin_disable_stats": _STATS,
    "admin_disable_all_stats": _STATS,
    "admin_transfer_current_master": "stop the Master that leads, and a standby takes over",
}


def master_table() -> Table[MasterService]:
    """Return the Master's methods."""
    return Table(
        (
            *cluster.METHODS,
            *brokers.METHODS,
            *topics.METHODS,
            *topic_control.METHODS,
            *consumes.METHODS,
            *consume_lists.METHODS,
            *groups.METHODS,
            *default_rules.METHODS,
            *runtime.METHODS,
        ),
        NOT_OFFERED,
    )
