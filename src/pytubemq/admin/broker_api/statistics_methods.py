"""Methods about statistics, for the original's tools; monitors should use `/metrics`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from pytubemq.admin.broker_api.queries import TOPICS
from pytubemq.admin.broker_api.statistics import Part, Statistics
from pytubemq.admin.webapi.envelope import Reply, date, rows, success
from pytubemq.admin.webapi.kinds import USER, Bool, Choice
from pytubemq.admin.webapi.method import Method
from pytubemq.admin.webapi.params import Args, Param

if TYPE_CHECKING:
    from pytubemq.broker.service import BrokerService

_REFRESH: Final = Param("needRefresh", Bool(), default=False)
_KINDS: Final = Param(
    "statsType", Choice({"all": tuple(Part), **{part.value: (part,) for part in Part}}), required=True
)
_BY: Final = Param("modifyUser", USER)
"""The original's tools give none."""


def wall_ms() -> int:
    """Return the current time in ms since 1970."""
    return time.time_ns() // 1_000_000


def methods(statistics: Statistics) -> tuple[Method[BrokerService], ...]:
    """Return the methods that show these statistics, and enable and disable them."""

    async def info(broker: BrokerService, args: Args) -> Reply:
        metrics = statistics.metrics(broker.facts(), refresh=args["needRefresh"])
        node = {"probeTime": date(wall_ms()), "nodeName": broker.address.host, "nodeRole": "Broker"}
        return rows([{**node, "metrics": metrics, "count": len(metrics)}])

    async def stores(broker: BrokerService, args: Args) -> Reply:
        found = statistics.stores(broker.inspect.partitions(args["topicName"]), refresh=args["needRefresh"])
        if not args["topicName"]:
            statistics.forget_all_but(found)
        return rows(
            {"topicName": topic, "details": found.get(topic, [])} for topic in args["topicName"] or sorted(found)
        )

    async def enable(broker: BrokerService, args: Args) -> Reply:
        for part in args["statsType"]:
            statistics.open(part, broker.facts())
        return success()

    async def disable(broker: BrokerService, args: Args) -> Reply:
        for part in args["statsType"]:
            statistics.close(part, broker.facts())
        return success()

    async def disable_all(broker: BrokerService, _: Args) -> Reply:
        for part in Part:
            statistics.close(part, broker.facts())
        return success()

    return (
        Method(
            "admin_get_metrics_info",
            "Counters and times of the Broker and of this page since the last snapshot; `needRefresh` takes one.",
            False,
            (_REFRESH,),
            info,
        ),
        Method(
            "admin_get_msgstore_stats",
            "What each store received, between the last two snapshots and since; `needRefresh` takes one.",
            False,
            (TOPICS, _REFRESH),
            stores,
        ),
        Method(
            "admin_enable_stats",
            "Resume counting in statistics that were disabled. Named topics make no difference.",
            True,
            (_KINDS, TOPICS, _BY),
            enable,
        ),
        Method(
            "admin_disable_stats",
            "Disable statistics. Named topics make no difference.",
            True,
            (_KINDS, TOPICS, _BY),
            disable,
        ),
        Method("admin_disable_all_stats", "Disable all statistics.", True, (_BY,), disable_all),
    )
