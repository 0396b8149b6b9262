"""The run of a node until it is stopped.

The invariant: SIGINT, SIGTERM, or the end of standard input (when a parent process asked for that) lead to one clean,
bounded stop; a second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, Protocol, TypeVar

import msgspec

from pytubemq.errors import ExitCode, TubeError
from pytubemq.model.limits import KIB, MIB
from pytubemq.server.files import mind_lack_of_handles, raise_file_limit

logger = logging.getLogger(__name__)

T = TypeVar("T")

OnReady = Callable[[], Awaitable[None]]
OnMessage = Callable[[Mapping[str, object]], None]

_MAX_WORD_BYTES: Final = 64 * KIB
"""The largest size of one line from the parent process."""


_SWITCH_S = 0.0005
"""The longest time that a thread waits for another one that computes. The journal's writer has little to compute
between its system calls, and all callers of a block wait for it: with the default of 5 ms it would pause longer than
the disk takes."""

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Names of options of glibc's `mallopt`."""
_LARGEST_FROM_HEAP_BYTES: Final = 32 * MIB
"""The largest value that glibc accepts for this."""
_KEPT_BYTES: Final = 64 * MIB


class Runnable(Protocol):
    """A node, or several in processes of their own."""

    async def start(self) -> object:
        """Start; ready when it returns."""
        ...

    async def close(self) -> bool:
        """Stop, within bounds; return False when something did not end in time."""
        ...

    async def until_failed(self) -> TubeError:
        """Wait until it can serve no more; return the reason."""
        ...


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run as `asyncio.run` does, on uvloop where the extra [speed] is installed."""
    _collect_less_often()
    sys.setswitchinterval(_SWITCH_S)
    keep_freed_memory()
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(_until_terminated(main))


async def _until_terminated(main: Coroutine[Any, Any, T]) -> T:
    """Let SIGTERM end a program as Ctrl-C does: a member leaves its group, sent messages are counted.

    It does not go by way of SIGINT, which is ignored where a shell started the program in the background.
    """
    if threading.current_thread() is not threading.main_thread():
        return await main  # this thread gets no signals
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    terminated = False

    def terminate() -> None:
        nonlocal terminated
        if terminated or task is None:
            raise KeyboardInterrupt  # the second one does not wait
        terminated = True
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        return await main
    except asyncio.CancelledError:
        if terminated:
            raise KeyboardInterrupt from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _collect_less_often() -> None:
    """Let the cycle collector run less often, as servers create few cycles.

    Messages in flight are plain values without cycles, freed by their counts; at the default of 700 allocations the
    collector walks them again and again, for a seventh of the Broker's time under load.
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def keep_freed_memory() -> bool:
    """Let frames, record batches and journal blocks reuse the memory of earlier ones.

    By default glibc returns buffers of a megabyte to the operating system as soon as they are freed, and the next one
    is filled with zeros again, page by page: that takes longer than to receive and check its content. At most
    `_KEPT_BYTES` stay with the process unused.

    Returns:
        True if the library accepted it.
    """
    if not sys.platform.startswith("linux"):
        return False
    with contextlib.suppress(OSError, AttributeError, TypeError):  # no such library, or no such function in it
        option = ctypes.CDLL(None).mallopt
        return bool(option(_MMAP_THRESHOLD, _LARGEST_FROM_HEAP_BYTES) and option(_TRIM_THRESHOLD, _KEPT_BYTES))
    return False


def run_node(
    node: Runnable,
    *,
    on_ready: OnReady,
    until_ready: bool = False,
    stop_on_eof: bool = False,
    on_message: OnMessage | None = None,
) -> int:
    """Run to the end of the process; return its exit code.

    Args:
            node: the node.
            on_ready: called once when every role serves.
            until_ready: stop as soon as it does.
            stop_on_eof: stop when standard input ends, so that a child does not outlive its parent.
            on_message: called with the parent's messages meanwhile, one JSON object a line.
    """
    raise_file_limit()
    parent = _Parent(on_message) if stop_on_eof else None
    clean = run_loop(_serve(node, on_ready=on_ready, until_ready=until_ready, parent=parent))
    if clean:
        return ExitCode.DONE
    # A thread that hangs on a dead disk would keep the interpreter from ending.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(ExitCode.FAILED)


async def _serve(node: Runnable, *, on_ready: OnReady, until_ready: bool, parent: _Parent | None) -> bool:
    loop = asyncio.get_running_loop()
    mind_lack_of_handles(loop)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _on_signal, stop)
    transport = None
    if parent is not None:
        parent.ended = stop.set
        transport, _ = await loop.connect_read_pipe(lambda: parent, sys.stdin)
    try:
        starting = asyncio.ensure_future(node.start())
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            return True
        starting.result()
        await on_ready()
        if not until_ready:
            failing = asyncio.ensure_future(node.until_failed())
            await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
            failing.cancel()
            if not stopping.done():
                raise await failing
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


class _Parent(asyncio.Protocol):
    """The process that started this one, at the other end of standard input."""

    def __init__(self, on_message: OnMessage | None) -> None:
        self.ended: Callable[[], None] = lambda: None
        self._on_message = on_message
        self._unread = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        if len(self._unread) > _MAX_WORD_BYTES:
            self._unread = b""
        for line in lines:
            try:
                word = msgspec.json.decode(line, type=dict[str, object])
            except msgspec.DecodeError:
                logger.warning("the parent process sent a line that is not a JSON object; it is skipped")
                continue
            if self._on_message is not None:
                self._on_message(word)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended()
