"""A party under test, from outside: its process started, asked and ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from typing import TYPE_CHECKING, Any

from tests.scenario.hostile.child import SOURCE
from tests.support.proc import DIE_WITH_US

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TIMEOUT_S = 30.0


class Party:
    """A running party; `said` is what it said of itself at its start."""

    def __init__(self, process: asyncio.subprocess.Process, errors: Path) -> None:
        self._process = process
        self._errors = errors
        self.said: dict[str, Any] = {}

    async def ask(self, line: str) -> dict[str, Any]:
        """Return its answer to one line.

        Raises:
            AssertionError: it is gone, with the end of its standard error.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(line.encode() + b"\n")
            await self._process.stdin.drain()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await self._process.stdout.readline()
        except TimeoutError:
            self._process.send_signal(signal.SIGUSR1)  # it writes where it is
            await asyncio.sleep(1)  # a signal handler has written by then, and tells nobody
            raise AssertionError(f"its loop stands still:\n{self._errors.read_text()[-4000:]}") from None
        if answer:
            found: dict[str, Any] = json.loads(answer)
            return found
        code = await self._process.wait()
        raise AssertionError(f"the process ended with {code}:\n{self._errors.read_text()[-4000:]}")

    async def report(self) -> dict[str, Any]:
        """Return its problems and figures so far."""
        return await self.ask("report")

    async def end(self) -> dict[str, Any]:
        """Stop it; return its last report."""
        return await self.ask("end")


@contextlib.asynccontextmanager
async def running(part: str, folder: Path, **given: Any) -> AsyncIterator[Party]:
    """A process of a part, with `folder` as the only place where it may write."""
    errors = _made(folder)
    with errors.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *DIE_WITH_US, sys.executable, "-B", "-m", "tests.scenario.hostile.child", part, str(folder),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log, cwd=SOURCE,
        )  # fmt: skip
    party = Party(process, errors)
    try:
        party.said = await party.ask(json.dumps(given))
        yield party
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()


def _made(folder: Path) -> Path:
    """Make the folder; return where standard error goes, beside it."""
    folder.mkdir()
    return folder.with_suffix(".err")
