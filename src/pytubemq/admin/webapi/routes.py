"""The pages of the original's that the Master serves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.routing import Route

from pytubemq.admin.index_page import MASTER_LINKS, index_route
from pytubemq.admin.webapi.dispatch import WebApi
from pytubemq.admin.webapi.methods_page import or_methods
from pytubemq.admin.webapi.table import master_table
from pytubemq.admin.webapi.text import TextQueries

if TYPE_CHECKING:
    from pytubemq.admin.webapi.authorization import Access
    from pytubemq.master.service import MasterService

TITLE = "pytubemq Master"


def master_routes(master: MasterService, access: Access) -> list[Route]:
    """Return the routes `/webapi.htm` and `/master.htm`, and `/`, which links to them and to the JSON API."""
    table = master_table()
    api = WebApi(table, master, access, wall_ms=lambda: time.time_ns() // 1_000_000)
    answer = or_methods(TITLE, "/webapi.htm", table, api.answer, insecure=access.insecure)
    return [
        index_route(TITLE, MASTER_LINKS, insecure=access.insecure),
        Route("/webapi.htm", answer, methods=["GET", "POST"]),
        Route("/master.htm", TextQueries(master).answer, methods=["GET", "POST"]),
    ]
