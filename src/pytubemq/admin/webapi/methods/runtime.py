"""Methods about what runs now: groups, consumers, this Master."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.admin.webapi.envelope import Reply, rows
from pytubemq.admin.webapi.method import Method

if TYPE_CHECKING:
    from pytubemq.admin.webapi.params import Args
    from pytubemq.master.service import MasterService


async def _server_version(master: MasterService, _: Args) -> Reply:
    return rows([{"version": master.version}])


METHODS: tuple[Method[MasterService], ...] = (
    Method("admin_query_server_version", "The version of this software.", False, (), _server_version),
)
