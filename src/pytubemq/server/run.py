"""Runs a node until it is told to stop.

The invariant: SIGINT, SIGTERM, or the end of standard input (when a parent process asked for that) lead to one clean,
bounded stop; a second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from pytubemq.errors import ExitCode
from pytubemq.server.compose import Endpoints, Node
from pytubemq.server.files import raise_file_limit

logger = logging.getLogger(__name__)

T = TypeVar("T")

OnReady = Callable[[Node, Endpoints], Awaitable[None]]


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, on uvloop where the extra [speed] is installed."""
    _collect_less_often()
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with _terminated_as_interrupted(), asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends what runs as Ctrl-C does: a member leaves its group, what was sent is counted."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not this thread's
        return
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def _collect_less_often() -> None:
    """Let the cycle collector run for what a server really leaves behind.

    Messages in flight are plain values without cycles, freed by their counts; at the default of 700 allocations the
    collector walks them again and again, for a seventh of the Broker's time under load.
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def run_node(node: Node, *, on_ready: OnReady, until_ready: bool = False, stop_on_eof: bool = False) -> int:
    """Run to the end of the process's life; returns its exit code.

    Args:
        node: what to run.
        on_ready: called once when every role serves.
        until_ready: stop as soon as it does.
        stop_on_eof: stop when standard input ends, so that a child does not outlive its parent.
    """
    raise_file_limit()
    clean = run_loop(_serve(node, on_ready=on_ready, until_ready=until_ready, stop_on_eof=stop_on_eof))
    if clean:
        return ExitCode.DONE
    # A thread that hangs on a dead disk would keep the interpreter from ending.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(ExitCode.FAILED)


async def _serve(node: Node, *, on_ready: OnReady, until_ready: bool, stop_on_eof: bool) -> bool:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _on_signal, stop)
    transport = await _watch_stdin(stop) if stop_on_eof else None
    try:
        starting = asyncio.ensure_future(node.start())
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            return True
        endpoints = starting.result()
        await on_ready(node, endpoints)
        if not until_ready:
            await stopping
        else:
            stopping.cancel()
        return await node.close()
    except BaseException:
        await node.close()
        raise
    finally:
        if transport is not None:
            transport.close()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _on_signal(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(ExitCode.INTERRUPTED)
    stop.set()


class _UntilEof(asyncio.Protocol):
    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop.set()


async def _watch_stdin(stop: asyncio.Event) -> asyncio.ReadTransport:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: _UntilEof(stop), sys.stdin)
    return transport
