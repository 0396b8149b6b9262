"""`PushConsumer` without `await`: the handler runs in threads."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING

from pytubemq.client.received.batch import Batch as AsyncBatch
from pytubemq.client.sync.consumer import Batch

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

    from pytubemq.client.options import Handler
    from pytubemq.client.push import push_consumer as engine
    from pytubemq.client.push.push_consumer import PushStats
    from pytubemq.model.ids import Partition
    from pytubemq.net.iothread import IoThread


class PushConsumer:
    """Calls a handler with the batches of a group. Made by `Tube.push_consumer`; use it with `with`."""

    def __init__(self, io: IoThread, push: engine.PushConsumer) -> None:
        self._io = io
        self._push = push

    def __repr__(self) -> str:
        return f"sync.{self._push!r}"

    def __enter__(self) -> PushConsumer:
        """Register, and begin to call the handler."""
        self._io.run(self._push.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._io.closed:
            self._io.run(self._push.__aexit__(kind, error, trace))

    def wait(self, *, timeout_s: float | None = None) -> bool:
        """Wait until it is closed (True) or `timeout_s` is over (False); as `pytubemq.PushConsumer.wait`."""
        return self._io.run(self._push.wait(timeout_s=timeout_s))

    def close(self) -> None:
        """Take no more, wait for running handlers, bounded in time, then leave the group. Idempotent."""
        if not self._io.closed:
            self._io.run(self._push.close())

    def pause(self) -> None:
        """Call the handler with nothing more until `resume`."""
        self._io.call(self._push.pause)

    def resume(self) -> None:
        """Go on after `pause`."""
        self._io.call(self._push.resume)

    @property
    def assignment(self) -> tuple[Partition, ...]:
        """The partitions of this consumer, sorted."""
        return self._io.call(lambda: self._push.assignment)

    def lag(self) -> dict[Partition, int | None]:
        """Return the unconfirmed messages of each partition; None while unknown."""
        return self._io.call(self._push.lag)

    def seek(self, partition: Partition | str, offset: int | datetime) -> int | None:
        """Read an assigned partition from another offset or time on; as `pytubemq.Consumer.seek`."""
        return self._io.run(self._push.seek(partition, offset))

    @property
    def stats(self) -> PushStats:
        """The counters so far."""
        return self._push.stats


def for_threads(io: IoThread, handler: Handler) -> Handler:
    """Wrap a handler: a plain one gets the batch in its form without `await`; a coroutine function runs on the client's
    thread."""
    if not callable(handler) or inspect.iscoroutinefunction(handler):
        return handler

    @functools.wraps(handler, updated=())
    def handle(what: object) -> object:
        return handler(Batch(io, what) if isinstance(what, AsyncBatch) else what)

    return handle
