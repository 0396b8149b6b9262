"""Methods about the Master's statistics, for the original's tools; monitors should use `/metrics`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from pytubemq.admin.webapi.envelope import Reply, date, rows, success
from pytubemq.admin.webapi.kinds import USER, Bool, Choice
from pytubemq.admin.webapi.method import Method
from pytubemq.admin.webapi.methods import web_statistics
from pytubemq.admin.webapi.methods.web_statistics import Since, WebStatistics
from pytubemq.admin.webapi.params import Args, Param
from pytubemq.observe.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.master.service import MasterService

_REFRESH: Final = Param("needRefresh", Bool(), default=False)
_KINDS: Final = Param("statsType", Choice({name: name for name in ("all", "serviceStatus", "webAPI")}), required=True)
_WEB: Final = ("all", "webAPI")
_BY: Final = Param("modifyUser", USER)
"""The original's tools give none."""


def wall_ms() -> int:
    """Return the current time in ms since 1970."""
    return time.time_ns() // 1_000_000


class MasterStatistics:
    """The statistics of one Master, for one page: what there is now, and counts since the last snapshot."""

    def __init__(self, *, wall_ms: Callable[[], int] = wall_ms) -> None:
        self.web = WebStatistics(wall_ms=wall_ms)
        self._wall_ms = wall_ms
        self._reset_ms = wall_ms()
        self._counted: dict[str, int] = {}

    def service(self, master: MasterService, *, refresh: bool) -> dict[str, Any]:
        """Return `serviceStatus`; with `refresh` its counts start again from now."""
        counts = _counts(master)
        found = {
            "reset_time": date(self._reset_ms),
            **_present(master),
            **{name: count - self._counted.get(name, 0) for name, count in counts.items()},
            # Of the original's rounds of balancing, of which there are none here.
            "server_balance_normal": Since(Histogram()).row(),
            "server_balance_reset": Since(Histogram()).row(),
        }
        now_ms = self._wall_ms()
        if refresh and abs(now_ms - self._reset_ms) >= web_statistics.SNAPSHOT_S * 1000:
            self._reset_ms, self._counted = now_ms, counts
        return found


def _present(master: MasterService) -> dict[str, int]:
    groups, brokers = master.group_room, master.broker_room
    return {
        "csm_online_group_cnt": len(groups.groups),
        "csm_client_bal_group_cnt": len(groups.client_balance_groups()),
        "consumer_online_cnt": sum(len(group.members) for group in groups.groups.values()),
        "producer_online_cnt": len(master.producer_room.by_id),
        "broker_configured_cnt": len(master.catalogue.brokers),
        "broker_online_cnt": sum(run.online for run in brokers.runs.values()),
        "broker_abnormal_cnt": len(brokers.faults.abnormal),
        "broker_forbidden_cnt": len(brokers.faults.forbidden),
    }


def _counts(master: MasterService) -> dict[str, int]:
    counted = master.group_room.counters
    return {
        "csm_group_timeout_cnt": counted.group_timeouts,
        "client_balance_timeout_cnt": counted.client_balance_timeouts,
        "consumer_timeout_cnt": counted.timeouts,
        "consumer_con_event_cnt": counted.connect_events,
        "consumer_discon_event_cnt": counted.disconnect_events,
        "producer_timeout_cnt": master.producer_room.timeouts,
        "broker_timeout_cnt": master.broker_room.timeouts,
    }


def methods(statistics: MasterStatistics) -> tuple[Method[MasterService], ...]:
    """Return the methods that show these statistics, and enable and disable them."""

    async def info(master: MasterService, args: Args) -> Reply:
        refresh = args["needRefresh"]
        metrics = {"serviceStatus": statistics.service(master, refresh=refresh), "webAPI": statistics.web.view()}
        if refresh:
            statistics.web.snapshot()
        node = {"probeTime": date(wall_ms()), "nodeName": master.address.host, "nodeRole": "Master"}
        return rows([{**node, "metrics": metrics, "count": len(metrics)}])

    async def enable(_: MasterService, args: Args) -> Reply:
        if args["statsType"] in _WEB:
            statistics.web.open()
        return success()

    async def disable(_: MasterService, args: Args) -> Reply:
        if args["statsType"] in _WEB:
            statistics.web.close()
        return success()

    async def disable_all(_: MasterService, __: Args) -> Reply:
        statistics.web.close()
        return success()

    return (
        Method(
            "admin_get_metrics_info",
            "Counters of the Master and of this page since the last snapshot; `needRefresh` takes one.",
            False,
            (_REFRESH,),
            info,
        ),
        Method(
            "admin_enable_stats",
            "Resume counting in statistics that were disabled; those of the service always count.",
            True,
            (_KINDS, _BY),
            enable,
        ),
        Method(
            "admin_disable_stats",
            "Disable the statistics of this page; those of the service always count.",
            True,
            (_KINDS, _BY),
            disable,
        ),
        Method("admin_disable_all_stats", "Disable the statistics of this page.", True, (_BY,), disable_all),
    )
