"""The HTTP application of a Broker.

The invariant: it responds on every path, as the original's does, and does nothing but the methods of its table; only
`/metrics` and `/health` are for monitors, and a browser that names no method gets a page that lists them.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from pytubemq.admin.access.gate import Gate
from pytubemq.admin.access.guarded_routes import guard
from pytubemq.admin.access.method_permissions import BROKER_PERMISSIONS
from pytubemq.admin.access.route_permissions import BROKER_ROUTE_PERMISSIONS
from pytubemq.admin.broker_api.table import BrokerTable
from pytubemq.admin.figures import health_route, metrics_route
from pytubemq.admin.index_page import BROKER_LINKS, page_of, render
from pytubemq.admin.request_checks import HostCheck
from pytubemq.admin.webapi.call_gate import CallGate
from pytubemq.admin.webapi.dispatch import WebApi
from pytubemq.admin.webapi.methods_page import or_methods
from pytubemq.model.names import escaped
from pytubemq.net.server.peer_warnings import PeerWarnings
from pytubemq.security.authentication_mode import AuthenticationMode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request
    from starlette.responses import Response

    from pytubemq.admin.webapi.authorization import Access
    from pytubemq.broker.service import BrokerService
    from pytubemq.master.access.http.http_access import HttpIdentity

logger = logging.getLogger(__name__)


def create_broker_app(broker: BrokerService, access: Access, *, hosts: Iterable[str] = ()) -> Starlette:
    """Return the administration of `broker`; `hosts` are names by which it may be called beside loopback addresses."""
    table = BrokerTable()
    calls = CallGate(Gate(access, callers=BrokerCallers(broker)), BROKER_PERMISSIONS)
    api = WebApi(table, broker, calls, wall_ms=lambda: time.time_ns() // 1_000_000)
    title = f"pytubemq Broker {broker.settings.broker_id}"
    methods = or_methods(title, "/broker.htm", table, api.answer, exposure=access.exposure)
    index = render(title, BROKER_LINKS, exposure=access.exposure)

    async def answer(request: Request) -> Response:
        if request.url.path == "/" and request.method == "GET" and not request.scope["query_string"]:
            return page_of(index)
        return await methods(request)

    routes = [
        metrics_route(broker.facts),
        health_route(broker.health),
        Route("/{path:path}", answer, methods=["GET", "POST"]),
    ]
    return Starlette(
        routes=guard(routes, calls.gate, BROKER_ROUTE_PERMISSIONS, {}),
        middleware=[Middleware(HostCheck, hosts=tuple(hosts))],
    )


class BrokerCallers:
    """The callers of one Broker: whoever has the server's own token, and nobody else.

    A Broker has neither passwords nor tokens of users, so where access is enforced only its own token counts.
    """

    def __init__(self, broker: BrokerService) -> None:
        self._broker = broker
        self._warnings = PeerWarnings(logger, "http access")

    @property
    def mode(self) -> AuthenticationMode:
        """Enforced where the Master enforces access, else off."""
        return AuthenticationMode.ENFORCED if self._broker.enforces_access else AuthenticationMode.OFF

    def by_token(self, text: str) -> HttpIdentity | None:
        """Return None: no user's token is known here."""
        return None

    async def by_oidc_token(self, text: str, host: str) -> HttpIdentity | None:
        """Return None: no issuer is known here."""
        return None

    def by_session(self, token: str) -> HttpIdentity | None:
        """Return None: nobody signs in here."""
        return None

    def warn(self, text: str) -> None:
        """Log what was refused; the number of lines is bounded."""
        self._warnings.warning(escaped(text), time.monotonic())
