"""The pages of the original's that the Master serves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.routing import Route

from pytubemq.admin.webapi.dispatch import WebApi
from pytubemq.admin.webapi.table import master_table
from pytubemq.admin.webapi.text import TextQueries

if TYPE_CHECKING:
    from pytubemq.admin.webapi.access import Access
    from pytubemq.master.service import MasterService


def master_routes(master: MasterService, access: Access) -> list[Route]:
    """`/webapi.htm` and `/master.htm` of a Master."""
    api = WebApi(master_table(), master, access, wall_ms=lambda: time.time_ns() // 1_000_000)
    return [
        Route("/webapi.htm", api.answer, methods=["GET", "POST"]),
        Route("/master.htm", TextQueries(master).answer, methods=["GET", "POST"]),
    ]
