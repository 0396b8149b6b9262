"""The HTTP application of a Broker.

The invariant: it answers on every path, as the original's does, and does nothing but the methods of its table; only
`/metrics` and `/health` are for monitors.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from pytubemq.admin.broker_api.table import BrokerTable
from pytubemq.admin.figures import health_route, metrics_route
from pytubemq.admin.guard import HostGuard
from pytubemq.admin.webapi.dispatch import WebApi

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.admin.webapi.access import Access
    from pytubemq.broker.service import BrokerService


def create_broker_app(broker: BrokerService, access: Access, *, hosts: Iterable[str] = ()) -> Starlette:
    """The administration of `broker`; `hosts` are the names under which it may be called beside loopback addresses."""
    api = WebApi(BrokerTable(), broker, access, wall_ms=lambda: time.time_ns() // 1_000_000)
    return Starlette(
        routes=[
            metrics_route(broker.facts),
            health_route(broker.health),
            Route("/{path:path}", api.answer, methods=["GET", "POST"]),
        ],
        middleware=[Middleware(HostGuard, hosts=tuple(hosts))],
    )
