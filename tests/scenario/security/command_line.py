"""The command line in processes of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.server.compose import Node


class Ran(NamedTuple):
    """A command that has ended: its exit code, its output and its errors."""

    code: int
    out: str
    err: str


async def command(*arguments: str, environ: Mapping[str, str] | None = None, given: str = "") -> Ran:
    """Run a command, with these variables and this standard input."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytubemq", *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environ or {})},
    )  # fmt: skip
    out, err = await process.communicate(given.encode())
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())


class HttpCommands:
    """Commands against a Master's HTTP, with a bearer token or the server's own unless a call names another."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def __call__(
        self, made: Node, *arguments: str, token: str | None = None, given: str = "", query: str = ""
    ) -> Ran:
        """Run a command; `query` goes behind the address."""
        assert made.endpoints.http is not None
        environ = {"PYTUBEMQ_TOKEN": self._token if token is None else token}
        return await command(*arguments, "--http", made.endpoints.http + query, environ=environ, given=given)

    async def as_json(self, made: Node, *arguments: str, token: str | None = None) -> Any:
        """Run a command that must succeed; return what it prints."""
        found = await self(made, *arguments, "-o", "json", token=token)
        assert found.code == 0, found.err
        return json.loads(found.out)
