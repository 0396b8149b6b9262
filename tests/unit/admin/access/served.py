"""A Master's HTTP in this process, with users of every kind."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx

from pytubemq.admin.app import create_app
from pytubemq.admin.webapi.routes import master_routes
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.security.secret import Secret
from tests.support.http_callers import master, own_access, with_users

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.admin.webapi.authorization import Access
    from pytubemq.master.service import MasterService

PASSWORD = "four random words here"
PAGE = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8080"}


@asynccontextmanager
async def served(
    mode: AuthenticationMode = AuthenticationMode.ENFORCED,
    access: Access | None = None,
    scheme: str = "http",
    *,
    with_passwords: tuple[str, ...] = ("admin", "producer"),
) -> AsyncIterator[tuple[MasterService, httpx.AsyncClient, dict[str, str]]]:
    """A Master, a client without credentials, and the tokens of its users, some of which have a password."""
    async with master(mode) as made:
        tokens = await with_users(made)
        for name in with_passwords:
            await made.registry.users.alter(name, password=Secret(PASSWORD), by=made.change_by("test"))
        own = access or own_access()
        pages = master_routes(made, own, made.http_access)
        app = create_app(made, pages=pages, access=own, http=made.http_access)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=f"{scheme}://127.0.0.1:8080"
        ) as client:
            yield made, client, tokens


async def sign_in(client: httpx.AsyncClient, user: str = "admin", password: str = PASSWORD) -> httpx.Response:
    return await client.post("/api/v1/session", json={"user": user, "password": password})
