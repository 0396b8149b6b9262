"""A TCP proxy that can be cut: while it is, bytes stand still in both directions, or in one, and nobody is told."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

CHUNK_BYTES = 256 * 1024


class Proxy:
    """Hands on what comes to `port` to the target."""

    def __init__(self, target: str, *, port: int = 0) -> None:
        self._host, _, target_port = target.rpartition(":")
        self._target_port = int(target_port)
        self._wanted_port = port
        self._asked, self._answered = _Way(), _Way()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.refused = 0
        """Connections that came while nobody listened at the target."""

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._wanted_port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self.break_off()

    @property
    def is_cut(self) -> bool:
        """Whether nothing passes."""
        return not self._asked.open.is_set()

    @property
    def holds_answers(self) -> bool:
        """Whether the target has answered something that nobody gets."""
        return self._answered.held_bytes > 0

    def cut_after(self, size_bytes: int) -> None:
        """Cut once so many more bytes have come from the target."""
        self._answered.at_end(size_bytes, self.cut)

    def hold_answers_after(self, size_bytes: int) -> None:
        """Once so many more bytes have come for the target, let no answer pass any more; what is asked still does."""
        self._asked.at_end(size_bytes, self._answered.open.clear)

    def cut(self) -> None:
        """Let nothing pass any more."""
        self._asked.open.clear()
        self._answered.open.clear()

    def mend(self) -> None:
        """Let everything pass again, also what has been waiting."""
        self._asked.open.set()
        self._answered.open.set()

    async def break_off(self) -> None:
        """Close all connections; what was held is lost."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        ends = [writer]
        try:
            await self._asked.open.wait()
            try:
                there, back = await asyncio.open_connection(self._host, self._target_port)
            except OSError:
                self.refused += 1  # the target is down: who called finds the connection closed
                return
            ends.append(back)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._asked.hand_on(reader, back))
                both.create_task(self._answered.hand_on(there, writer))
        except asyncio.CancelledError:
            pass  # broken off: nobody waits for more than the end of it
        finally:
            for end in ends:
                end.transport.abort()
            self._tasks.discard(task)


class _Way:
    """One direction, of all connections together."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.held_bytes = 0
        self._left_bytes: int | None = None
        self._end = self.open.clear

    def at_end(self, size_bytes: int, end: Callable[[], None]) -> None:
        """Call `end` once so many more bytes have come, before the last of them pass."""
        self._left_bytes, self._end = size_bytes, end

    async def hand_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """All that comes, until its end."""
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                self._count(len(data))
                self.held_bytes += len(data)
                try:
                    await self.open.wait()
                finally:
                    self.held_bytes -= len(data)
                sink.write(data)
                await sink.drain()
        sink.close()

    def _count(self, size_bytes: int) -> None:
        if self._left_bytes is not None:
            self._left_bytes -= size_bytes
            if self._left_bytes <= 0:
                self._left_bytes = None
                self._end()
