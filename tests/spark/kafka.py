"""A Kafka node for tests that are not asynchronous: the one of the benchmarks, on a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from bench.peers.kafka import Kafka

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path
    from types import TracebackType

TIMEOUT_S = 300.0


class KafkaNode:
    """A node with its data in `home`, which it makes; ends with the block."""

    def __init__(self, home: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kafka", daemon=True)
        self._node = Kafka(home)

    @property
    def servers(self) -> str:
        """As clients take it."""
        return self._node.server

    def __enter__(self) -> KafkaNode:
        self._thread.start()
        self._wait(self._node.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wait(self._node.kill())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _wait(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(TIMEOUT_S)
