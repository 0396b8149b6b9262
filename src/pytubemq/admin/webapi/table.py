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
    master_statistics,
    runtime,
    topic_control,
    topics,
)
from pytubemq.admin.webapi.methods.web_statistics import counted

if TYPE_CHECKING:
    from pytubemq.master.service import MasterService

NOT_OFFERED = {
    "admin_transfer_current_master": "stop the Master that leads, and a standby takes over",
}


def master_table() -> Table[MasterService]:
    """Return the Master's methods, which are counted from now on."""
    statistics = master_statistics.MasterStatistics()
    offered = (
        *cluster.METHODS,
        *brokers.METHODS,
        *topics.METHODS,
        *topic_control.METHODS,
        *consumes.METHODS,
        *consume_lists.METHODS,
        *groups.METHODS,
        *default_rules.METHODS,
        *runtime.METHODS,
        *master_statistics.methods(statistics),
    )
    return Table([counted(method, statistics.web.called) for method in offered], NOT_OFFERED)
