"""Our side: a Master and a Broker, each a process of this checkout with its defaults, started as an operator would.

The invariant: both end with the block.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from bench.harness.processes import RunError
from pytubemq.cli.api import Api
from pytubemq.errors import TubeError
from pytubemq.server.processes import ServerProcess
from pytubemq.server.sources import load_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

START_TIMEOUT_S = 60.0
API_TIMEOUT_S = 60.0
ANY_PORT = "127.0.0.1:0"


class Ours:
    """One Master, one Broker.

    Args:
        home: a directory of its own.
        settings: over the defaults, by dotted name.
        broker: False leaves out the Broker, for measures that start their own.
    """

    def __init__(self, home: Path, settings: Mapping[str, object] | None = None, *, broker: bool = True) -> None:
        base: dict[str, object] = {"log.level": "warning", "data": str(home / "master")}
        base |= dict.fromkeys(("master.listen", "broker.listen", "http.listen", "broker.http_listen"), ANY_PORT)
        self._base = base | dict(settings or {})
        self._home = home
        self._with_broker = broker
        self.master_process = ServerProcess("master", load_settings(None, environ={}, flags=self._base))
        self.broker_process: ServerProcess | None = None
        self.master = ""
        self.http = ""

    async def __aenter__(self) -> Ours:
        try:
            where = await self.master_process.start(timeout_s=START_TIMEOUT_S)
            assert where.master is not None
            assert where.http is not None
            self.master, self.http = where.master, where.http
            if self._with_broker:
                flags = self._base | {"data": str(self._home / "broker"), "broker.masters": [self.master]}
                self.broker_process = ServerProcess("broker", load_settings(None, environ={}, flags=flags))
                await self.broker_process.start(timeout_s=START_TIMEOUT_S)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End both."""
        if self.broker_process is not None:
            await self.broker_process.kill()
        await self.master_process.kill()

    @property
    def broker(self) -> ServerProcess:
        """The Broker's process."""
        assert self.broker_process is not None
        return self.broker_process

    @property
    def broker_pid(self) -> int:
        """Its number.

        Raises:
            RunError: it has ended.
        """
        pid = self.broker.pid
        if pid is None:
            raise RunError(f"the Broker has ended; its log is {self.broker.log_path}")
        return pid

    @property
    def broker_address(self) -> str:
        """`host:port` for the protocol."""
        address = self.broker.endpoints.broker
        assert address is not None
        return address

    @property
    def pids(self) -> dict[str, int]:
        """Whose processor time is of interest."""
        return {"broker": self.broker_pid}

    async def create(self, names: Sequence[str], *, partitions: int = 10, within_s: float = 300.0) -> None:
        """Create topics; they can be used when this returns."""
        async with asyncio.timeout(within_s):
            for name in names:
                await self._call("post", "topics", body={"name": name, "partitions": partitions})

    async def create_at_once(self, names: Sequence[str], *, partitions: int = 10) -> None:
        """Create topics with one call; they can be used when this returns."""
        topics = [{"name": name, "partitions": partitions} for name in names]
        await self._call("post", "topics:batch", body={"topics": topics})

    async def delete(self, names: Sequence[str]) -> None:
        """Delete topics with their messages."""
        for name in names:
            await self._call("delete", "topics", name)

    async def kill_broker(self) -> None:
        """SIGKILL."""
        await self.broker.kill()

    async def start_broker(self, *, timeout_s: float = START_TIMEOUT_S) -> float:
        """Start it again on its data; returns the time (`time.monotonic`) at which that was begun."""
        begun_s = time.monotonic()
        await self.broker.start(timeout_s=timeout_s)
        return begun_s

    async def _call(self, verb: str, *path: str, **more: Any) -> Any:
        try:
            return await asyncio.to_thread(getattr(Api(self.http, timeout_s=API_TIMEOUT_S), verb), *path, **more)
        except TubeError as error:
            raise RunError(f"{verb} {'/'.join(path)} at {self.http}: {error}") from error
