"""The pages of the original's that the Master serves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.routing import Route

from pytubemq.admin.access.gate import Gate
from pytubemq.admin.access.method_permissions import TEXT_PERMISSIONS, WEBAPI_PERMISSIONS
from pytubemq.admin.index_page import MASTER_LINKS, index_route
from pytubemq.admin.webapi.call_gate import CallGate
from pytubemq.admin.webapi.dispatch import WebApi
from pytubemq.admin.webapi.methods_page import or_methods
from pytubemq.admin.webapi.table import master_table
from pytubemq.admin.webapi.text import TextQueries

if TYPE_CHECKING:
    from pytubemq.admin.webapi.authorization import Access
    from pytubemq.master.access.http.http_access import HttpAccess
    from pytubemq.master.service import MasterService

TITLE = "pytubemq Master"


def master_routes(master: MasterService, access: Access, http: HttpAccess | None = None) -> list[Route]:
    """Return the routes `/webapi.htm` and `/master.htm`, and `/`, which links to them and to the JSON API.

    `http` identifies callers; None where nobody is asked who it is.
    """
    table, calls = master_table(), CallGate(Gate(access, http), WEBAPI_PERMISSIONS)
    queries = TextQueries(master, CallGate(Gate(access, http), TEXT_PERMISSIONS))
    api = WebApi(table, master, calls, wall_ms=lambda: time.time_ns() // 1_000_000)
    answer = or_methods(TITLE, "/webapi.htm", table, api.answer, exposure=access.exposure)
    return [
        index_route(TITLE, MASTER_LINKS, exposure=access.exposure),
        Route("/webapi.htm", answer, methods=["GET", "POST"]),
        Route("/master.htm", queries.answer, methods=["GET", "POST"]),
    ]
