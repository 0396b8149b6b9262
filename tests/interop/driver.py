"""The Java driver from outside: commands go in, answers and events come out.

The invariant: every command ends, with its answer, its error, or the news that the process is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import msgspec

from tests.support.proc import DIE_WITH_US

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .fetch import Java

MAX_LINE_BYTES = 256 << 20
MAX_CODES = 5
COMMAND_TIMEOUT_S = 600.0


class DriverError(Exception):
    """The official client raised, or its process is gone."""


class Driver:
    """One JVM with official clients in it."""

    def __init__(self, java: Java, log: Path, *, heap: str = "512m") -> None:
        self.java = java
        self._log = log
        self._heap = heap
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._on_batch: dict[str, Callable[[str, list[Any]], None]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self.first_s: dict[str, float] = {}
        """Per consumer how long its first message took, in seconds, from the call of `completeSubscribe`."""
        self.codes: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=MAX_CODES))
        """Per client the codes that it was refused with last."""

    async def start(self) -> Driver:
        """Start the process and wait until it listens."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *DIE_WITH_US, self.java.command, f"-Xmx{self._heap}", "-XX:TieredStopAtLevel=1",
                f"-Dlog4j.configurationFile={self.java.log_config}",
                "-cp", self.java.driver_path, "Driver",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log, limit=MAX_LINE_BYTES,
            )  # fmt: skip
        assert self._process.stdout is not None
        if b"ready" not in await self._process.stdout.readline():
            raise DriverError(f"the driver did not start, see {self._log}")
        self._reading = asyncio.create_task(self._read())
        return self

    async def call(self, client: str, op: str, *, within_s: float = COMMAND_TIMEOUT_S, **more: Any) -> Any:
        """Have a command done; returns its result.

        Raises:
            DriverError: the client raised; the text is the Java exception's.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        if self._process.returncode is not None:
            raise DriverError("the process has ended")
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        line = msgspec.json.encode({"id": number, "op": op, "client": client, **more})
        self._process.stdin.write(line + b"\n")
        async with asyncio.timeout(within_s):
            return await answer

    def on_batch(self, client: str, handle: Callable[[str, list[Any]], None]) -> None:
        """Who gets the batches of a consumer: partition key, and set, number, digest of each message."""
        self._on_batch[client] = handle

    async def kill(self) -> None:
        """End the process without any goodbye."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._reading is not None:
            await self._reading

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        decoder = msgspec.json.Decoder()
        while line := await self._process.stdout.readline():
            found = decoder.decode(line)
            if "id" in found:
                self._answer(found)
            elif found["event"] == "batch":
                handle = self._on_batch.get(found["client"])
                if handle is not None:
                    handle(found["partition"], found["messages"])
            elif found["event"] == "first":
                self.first_s[found["client"]] = found["ms"] / 1000
            elif found["event"] == "code":
                self.codes[found["client"]].append(f"{found['code']} {found['text']}")
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(DriverError("the process has ended"))

    def _answer(self, found: dict[str, Any]) -> None:
        answer = self._waiting.pop(found["id"])
        if answer.done():
            return
        if "error" in found:
            answer.set_exception(DriverError(found["error"]))
        else:
            answer.set_result(found["result"])
