"""The loop on a thread of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

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


@pytest.mark.parametrize("stubborn", [False, True])
def test_who_waits_while_another_thread_closes_is_told_so(stubborn: bool) -> None:
    thread = IoThread()
    waiting = threading.Event()

    async def forever() -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            if stubborn:
                await asyncio.Event().wait()

    with ThreadPoolExecutor() as others:
        asked = others.submit(lambda: thread.run(forever()))
        assert waiting.wait(30)
        thread.close()
        with pytest.raises(ClosedError, match="the connection is closed"):
            asked.result(timeout=30)


def test_nobody_waits_for_ever_who_asks_while_it_is_closed() -> None:
    async def nothing() -> int:
        return 7

    def ask(thread: IoThread, go: threading.Barrier) -> int | None:
        go.wait()
        try:
            return thread.run(nothing())
        except ClosedError:
            return None

    with ThreadPoolExecutor(2) as others:
        for _ in range(50):
            thread, go = IoThread(), threading.Barrier(3)
            asked = [others.submit(ask, thread, go) for _ in range(2)]
            go.wait()
            thread.close()
            assert all(each.result(timeout=30) in (7, None) for each in asked)


@pytest.mark.process
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


def test_what_would_end_a_program_reaches_its_caller_and_the_loop_goes_on() -> None:
    thread = IoThread()

    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        thread.run(leave())
    assert thread.run(where()) != threading.get_ident()
    thread.close()


def test_what_would_end_a_program_in_a_task_of_its_own_ends_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    thread = IoThread()

    async def leave() -> None:
        raise SystemExit(3)

    kept: list[asyncio.Task[None]] = []
    thread.call(lambda: kept.append(asyncio.get_running_loop().create_task(leave())))
    assert thread.run(where()) != threading.get_ident()
    assert isinstance(kept[0].exception(), SystemExit)
    assert "SystemExit(3)" in caplog.text
    thread.close()


class _Limit(Exception):
    """Raised by a signal handler, as a soft time limit is."""


def _interrupt(_number: int, _frame: object) -> None:
    raise _Limit


@pytest.mark.parametrize("stubborn", [False, True])
def test_whoever_is_interrupted_leaves_nothing_behind(stubborn: bool) -> None:
    thread = IoThread()
    ends: list[str] = []
    back = threading.Event()

    async def wait() -> str:
        os.kill(os.getpid(), signal.SIGUSR1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            if not stubborn:
                raise
        return "late"

    async def give_back(result: str) -> None:
        ends.append(result)
        back.set()

    before = signal.signal(signal.SIGUSR1, _interrupt)
    try:
        with pytest.raises(_Limit):
            thread.run(wait(), give_back=give_back)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ends[0] == "cancelled"
    if stubborn:
        assert back.wait(30)
    assert ends == (["cancelled", "late"] if stubborn else ["cancelled"])
    thread.close()
