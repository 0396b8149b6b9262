"""A Master with peers and its HTTP, asked as its users ask: over a socket."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from pytubemq.admin.app import create_app
from pytubemq.admin.serving.http import HttpServer
from pytubemq.admin.webapi.authorization import Access
from pytubemq.admin.webapi.routes import master_routes
from pytubemq.model.ids import Address
from pytubemq.model.records import DeployRecord, TopicProps, TopicRecord
from tests.scenario.master.town import Town, town

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOKEN = "token-of-the-tests-in-full"
USER = {"createUser": "me", "modifyUser": "me"}


@dataclass
class House:
    """`ask` is a query, `change` a modifying call; both hand back the answer's object."""

    town: Town
    client: httpx.AsyncClient

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        answer = await self.client.get("/webapi.htm", params={"method": method, **params})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def rows(self, method: str, **params: Any) -> list[Any]:
        """What a query finds."""
        found = await self.ask(method, **params)
        assert found["result"], found
        assert found["count"] == len(found["data"])
        return list(found["data"])

    async def change(self, method: str, **params: Any) -> dict[str, Any]:
        form = {"method": method, "confModAuthToken": TOKEN, **USER, **params}
        answer = await self.client.post("/webapi.htm", data=form)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def codes(self, method: str, **params: Any) -> list[int]:
        """The codes of a change's outcomes."""
        found = await self.change(method, **params)
        assert found["result"], found
        assert all(item["success"] == (item["errCode"] in (200, 201)) for item in found["data"])
        return [item["errCode"] for item in found["data"]]

    async def page(self, kind: str, **params: Any) -> str:
        """The answer to a text query."""
        answer = await self.client.get("/master.htm", params={"type": kind, **params})
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        return answer.text

    async def text(self, kind: str, **params: Any) -> list[str]:
        """The lines of the answer to a text query."""
        return (await self.page(kind, **params)).splitlines()

    async def topics(self, *names: str, broker_id: int = 1, partitions: int = 2, auth: bool = False) -> None:
        """Topics with a place on a Broker that has registered."""
        await self.town.master.catalogue.apply(
            [
                *(TopicRecord(name, enable_auth_control=auth) for name in names),
                *(DeployRecord(name, broker_id, props=TopicProps(num_partitions=partitions)) for name in names),
            ]
        )


@asynccontextmanager
async def house(*, access: Access | None = None, **settings: Any) -> AsyncIterator[House]:
    """A Master whose changes need the token."""
    async with town(**settings) as made:
        pages = master_routes(made.master, access or Access(TOKEN))
        server = HttpServer(create_app(made.master, pages=pages), Address("127.0.0.1", 0))
        address = await server.start()
        try:
            async with httpx.AsyncClient(base_url=f"http://{address}", timeout=20) as client:
                yield House(made, client)
        finally:
            await server.close()
