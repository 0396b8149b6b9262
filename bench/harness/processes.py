"""Child processes of a run: bounded in time, ended with the run whatever happens.

The invariant: none outlives the block or the call that started it, and none outlives this process (where `setpriv` is
there for it).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.proc import DIE_WITH_US

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
CLIENT_MARGIN_S = 90.0
"""What a client may take beyond its measuring: to start, to be given partitions, to leave."""
MAX_SHOWN_CHARS = 800


class RunError(Exception):
    """A process failed, or did not end in time; the text is the end of what it said."""


async def run(
    command: Sequence[str], *, within_s: float, cwd: Path = ROOT, more: Mapping[str, str] | None = None
) -> str:
    """Run a program to its end, with `more` in its environment; return its standard output.

    Raises:
        RunError: it failed, or took longer than `within_s`; then it was killed.
    """
    async with started(command, cwd=cwd, more=more) as process:
        try:
            async with asyncio.timeout(within_s):
                out, err = await process.communicate()
        except TimeoutError:
            raise RunError(f"{_name(command)} did not end within {within_s:g} s") from None
        if process.returncode:
            said = (err or out).decode("utf-8", "replace").strip()
            raise RunError(f"{_name(command)} ended with {process.returncode}: {said[-MAX_SHOWN_CHARS:]}")
        return out.decode("utf-8", "replace")


@contextlib.asynccontextmanager
async def started(
    command: Sequence[str], *, cwd: Path = ROOT, more: Mapping[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program with pipes to it; killed on leaving when it still runs."""
    process = await asyncio.create_subprocess_exec(
        *DIE_WITH_US, *command, cwd=cwd, stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={**os.environ, **(more or {})},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def client(command: Sequence[str], spec: dict[str, Any], *, within_s: float | None = None) -> dict[str, Any]:
    """Run a client program with its JSON argument; the object that it prints last.

    Raises:
        RunError: it failed, printed no object, or did not end in time.
    """
    limit_s = within_s or spec.get("warm_s", 0) + spec.get("measure_s", 0) + CLIENT_MARGIN_S
    said = await run([*command, json.dumps(spec)], within_s=limit_s)
    lines = said.strip().splitlines()
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError):
        raise RunError(f"{_name(command)} printed no result: {said[-MAX_SHOWN_CHARS:]!r}") from None
    assert isinstance(found, dict)
    return found


def ours(name: str) -> list[str]:
    """The command of one of our client programs: of this checkout, with the Python that runs this."""
    return [sys.executable, "-m", f"bench.clients.{name}"]


def rss_mib(pid: int, *, peak: bool = False) -> float:
    """Resident memory of a process now, or the most it had."""
    key = "VmHWM:" if peak else "VmRSS:"
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    raise RunError(f"process {pid} tells no {key[:-1]}")


def _name(command: Sequence[str]) -> str:
    return " ".join(Path(part).name for part in command[:3] if not part.startswith("{"))
