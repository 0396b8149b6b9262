"""All methods of a Broker, and those of the original's that are not offered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.admin.broker_api import changes, queries
from pytubemq.admin.broker_api.response_rows import data_set
from pytubemq.admin.broker_api.statistics import Statistics
from pytubemq.admin.broker_api.statistics_methods import methods, wall_ms
from pytubemq.admin.webapi.method import Method, Table
from pytubemq.admin.webapi.methods.web_statistics import counted

if TYPE_CHECKING:
    from pytubemq.admin.webapi.envelope import Reply
    from pytubemq.admin.webapi.params import Args
    from pytubemq.broker.service import BrokerService

_HISTORY = "past offsets of groups are not kept, only who moved them:"

NOT_OFFERED = {
    "admin_set_offset_by_time": f"{_HISTORY} `pytubemq group reset` goes to the messages of a time",
    "admin_get_group_history_offset": f"{_HISTORY} `pytubemq group history` shows it, admin_query_offset the current "
    "offsets",
    "admin_backup_group_offsets": "offsets are in the Broker's store and are backed up with its data directory; "
    "admin_query_offset shows them",
    "admin_query_broker_memstore_info": "messages wait in one journal; admin_query_broker_all_store_info shows sizes, "
    "admin_get_msgstore_stats what came in",
}


class BrokerTable(Table["BrokerService"]):
    """The Broker's methods, listed under the names that its other responses use."""

    def __init__(self) -> None:
        statistics = Statistics(wall_ms=wall_ms)
        offered = (*queries.METHODS, *changes.METHODS, *methods(statistics))
        super().__init__([counted(method, statistics.web.called) for method in offered], NOT_OFFERED)

    def _listing(self) -> Method[BrokerService]:
        async def run(_: BrokerService, __: Args) -> Reply:
            return data_set(
                {"method": name, "needAuth": method.modify} for name, method in sorted(self._by_name.items())
            )

        return Method("admin_get_methods", "All methods, and whether they need the token.", False, (), run)
