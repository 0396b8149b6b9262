"""A TCP proxy that can be cut: while it is, bytes stand still in both directions and nobody is told."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

CHUNK_BYTES = 256 * 1024


class Proxy:
    """Hands on what comes to `port` to the target."""

    def __init__(self, target: str, *, port: int = 0) -> None:
        self._host, _, target_port = target.rpartition(":")
        self._target_port = int(target_port)
        self._wanted_port = port
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._left_bytes: int | None = None

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
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def is_cut(self) -> bool:
        """Whether nothing passes."""
        return not self._open.is_set()

    def cut_after(self, size_bytes: int) -> None:
        """Cut once so many more bytes have come from the target."""
        self._left_bytes = size_bytes

    def cut(self) -> None:
        """Let nothing pass any more."""
        self._open.clear()

    def mend(self) -> None:
        """Let everything pass again, also what has been waiting."""
        self._open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        ends = [writer]
        try:
            await self._open.wait()
            there, back = await asyncio.open_connection(self._host, self._target_port)
            ends.append(back)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._hand_on(reader, back, counted=False))
                both.create_task(self._hand_on(there, writer, counted=True))
        except OSError:
            pass  # the target is down: who called finds the connection closed
        finally:
            for end in ends:
                end.transport.abort()
            self._tasks.discard(task)

    async def _hand_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                if counted:
                    self._count(len(data))
                await self._open.wait()
                sink.write(data)
                await sink.drain()
        sink.close()

    def _count(self, size_bytes: int) -> None:
        if self._left_bytes is not None:
            self._left_bytes -= size_bytes
            if self._left_bytes <= 0:
                self._left_bytes = None
                self.cut()
