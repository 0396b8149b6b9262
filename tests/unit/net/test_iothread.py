"""The loop on a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from pytubemq.errors import ClosedError, ForkedError
from pytubemq.net.iothread import IoThread


async def where() -> int:
    return threading.get_ident()


def test_coroutines_run_on_the_other_thread_and_bring_back_results_and_errors() -> None:
    thread = IoThread()
    assert thread.run(where()) != threading.get_ident()

    async def bad() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        thread.run(bad())
    thread.close()
    thread.close()
    with pytest.raises(ClosedError):
        thread.run(where())


def test_what_still_runs_is_cancelled_at_close() -> None:
    thread = IoThread()
    ended = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    started: list[asyncio.Task[None]] = []
    thread.call(lambda: started.append(asyncio.get_running_loop().create_task(forever())))
    thread.close()
    assert ended.wait(5)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused() -> None:
    thread = IoThread()
    child = os.fork()
    if child == 0:
        try:
            thread.run(where())
        except ForkedError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.close()
