"""The Masters' and Brokers' administration over HTTP, as the Java system has it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import httpx

from .processes import TOKEN

if TYPE_CHECKING:
    from .processes import JavaMaster

USER = "interop"
START_TIMEOUT_S = 100.0
"""Under the limit of a test, so that this error is the one to be read."""


class WebApiError(Exception):
    """A call was refused, or one of its items was."""


class WebApi:
    """Calls of `webapi.htm` at one Master; the same for both systems."""

    def __init__(self, base: str) -> None:
        self.base = base

    async def query(self, method: str, **parameters: object) -> list[dict[str, Any]]:
        """The rows of a query."""
        return list((await self._call(method, parameters)).get("data", []))

    async def modify(self, method: str, **parameters: object) -> list[dict[str, Any]]:
        """Change something; every item must have been done."""
        given = {"confModAuthToken": TOKEN, "createUser": USER, "modifyUser": USER, **parameters}
        rows = list((await self._call(method, given)).get("data", []))
        bad = [row for row in rows if row.get("success") is False]
        if bad:
            raise WebApiError(f"{method} at {self.base}: {bad}")
        return rows

    async def _call(self, method: str, parameters: dict[str, object]) -> dict[str, Any]:
        found = await http_get(f"{self.base}/webapi.htm", {"method": method, **parameters})
        if not found.get("result"):
            raise WebApiError(f"{method} at {self.base}: {found.get('errCode')} {found.get('errMsg')}")
        return found


async def http_get(url: str, parameters: dict[str, object]) -> dict[str, Any]:
    """The JSON that a GET answers with."""
    async with httpx.AsyncClient(trust_env=False, timeout=30, follow_redirects=True) as client:
        answer = await client.get(url, params={key: _text(value) for key, value in parameters.items()})
        answer.raise_for_status()
        found = answer.json()
        assert isinstance(found, dict)
        return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def until_answers(master: JavaMaster) -> None:
    """Wait until a Master that was started answers and takes changes."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    api = WebApi(master.web)
    while True:
        try:
            await api.query("admin_query_master_group_info")
            return
        except (httpx.HTTPError, WebApiError) as error:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the Java Master at {api.base} does not answer\n{master.last_words()}") from error
        await asyncio.sleep(0.2)  # a process that starts tells nothing by itself
