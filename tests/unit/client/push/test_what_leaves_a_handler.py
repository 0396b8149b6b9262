"""Whatever leaves a push consumer's handler is seen, and what was handled before it does not come again."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

import pytest

from pytubemq import Batch, HandlerFailed, Message, Start, connect, sync
from pytubemq.errors import TubeError
from pytubemq.testing.mock_broker import MockBroker
from tests.support.events import event_of
from tests.support.waiting import until

if TYPE_CHECKING:
    from pytubemq.client.options import OnError

pytestmark = pytest.mark.anyio

DEMO = {"demo": 1}
FIRST = Start.EARLIEST


class Odd(BaseException):
    """What no `except Exception` sees."""


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_cancelled_error_out_of_a_handler_is_a_failure_like_others(workers: int) -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        tries = 0

        async def handler(batch: Batch) -> None:
            nonlocal tries
            tries += 1
            if tries < 4:
                raise asyncio.CancelledError

        async with tube.push_consumer("g", "demo", handler=handler, workers=workers, start=FIRST) as push:
            failed: HandlerFailed = await event_of(tube, HandlerFailed)
            assert (failed.then, type(failed.reason)) == ("retry", asyncio.CancelledError)
            await mock.until(lambda: mock.confirmed("g", "demo") == 1)
            assert push.stats.failed == 3


async def test_with_stop_a_cancelled_error_is_raised_as_one_that_cancels_nobody() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")

        async def handler(batch: Batch) -> None:
            raise asyncio.CancelledError

        async with tube.push_consumer("g", "demo", handler=handler, on_error="stop", start=FIRST) as push:
            with pytest.raises(TubeError, match="though nobody had cancelled it"):
                await push.wait(timeout_s=30)


async def test_a_handler_that_cancels_its_own_task_ends_the_consumer_aloud() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")

        async def handler(batch: Batch) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

        async with tube.push_consumer("g", "demo", handler=handler, start=FIRST) as push:
            with pytest.raises(TubeError, match="a worker of this consumer was cancelled"):
                await push.wait(timeout_s=30)


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("error", [SystemExit(3), Odd("odd"), StopIteration("no more")])
async def test_what_is_no_exception_ends_the_consumer_and_is_raised(error: BaseException, plain: bool) -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        on_error: OnError = "stop" if isinstance(error, Exception) else "skip"

        def handler(batch: Batch) -> NoReturn:
            raise error

        async def coroutine(batch: Batch) -> NoReturn:
            raise error

        async with tube.push_consumer(
            "g", "demo", handler=handler if plain else coroutine, on_error=on_error, start=FIRST
        ) as push:
            with pytest.raises((SystemExit, Odd, RuntimeError)) as raised:
                await push.wait(timeout_s=30)
            assert error in (raised.value, raised.value.__cause__)
        assert mock.confirmed("g", "demo") == 0


async def test_what_comes_before_a_message_that_fails_is_handled_once() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"bad", b"c")
        seen: list[bytes] = []

        async def handler(message: Message) -> None:
            seen.append(message.body)
            if message.body == b"bad" and seen.count(b"bad") < 4:
                raise ValueError("not yet")

        async with tube.push_consumer("g", "demo", handler=handler, by_message=True, start=FIRST) as push:
            await until(lambda: push.stats.failed)
            await mock.until(lambda: mock.confirmed("g", "demo") == 2)
            await mock.until(lambda: mock.confirmed("g", "demo") == 4)
        assert push.stats.handled == 4
        assert seen == [b"a", b"b", b"bad", b"bad", b"bad", b"bad", b"c"]


async def test_with_stop_what_was_handled_before_is_confirmed() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"bad")

        def handler(message: Message) -> None:
            if message.body == b"bad":
                raise LookupError("this one")

        async with tube.push_consumer(
            "g", "demo", handler=handler, by_message=True, on_error="stop", start=FIRST
        ) as push:
            with pytest.raises(LookupError):
                await push.wait(timeout_s=30)
        assert mock.confirmed("g", "demo") == 2


@pytest.mark.parametrize("plain", [True, False])
async def test_closing_confirms_what_was_handled_of_a_batch(plain: bool) -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"c")
        third, go_on, never = threading.Event(), threading.Event(), asyncio.Event()

        def handler(message: Message) -> None:
            if message.body == b"c":
                third.set()
                go_on.wait(60)

        async def coroutine(message: Message) -> None:
            if message.body == b"c":
                third.set()
                await never.wait()

        async with tube.push_consumer(
            "g",
            "demo",
            handler=handler if plain else coroutine,
            by_message=True,
            start=FIRST,
            close_timeout_s=0.05,
        ):
            await until(third.is_set)
        go_on.set()
        assert mock.confirmed("g", "demo") == 2


async def test_a_plain_handler_takes_one_hand_over_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", *[b"%d" % number for number in range(50)])
        seen: list[bytes] = []
        calls = 0
        loop = asyncio.get_running_loop()
        to_thread = loop.run_in_executor

        def counted(*args: object) -> object:
            nonlocal calls
            calls += 1
            return to_thread(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(loop, "run_in_executor", counted)

        def handler(message: Message) -> None:
            seen.append(message.body)

        async with tube.push_consumer("g", "demo", handler=handler, by_message=True, start=FIRST):
            await mock.until(lambda: mock.confirmed("g", "demo") == 50)
        assert seen == [b"%d" % number for number in range(50)]
        assert calls == 1


@pytest.mark.parametrize("plain", [True, False])
def test_leaving_the_program_in_a_handler_reaches_who_waits_and_other_clients_go_on(
    threaded: MockBroker, plain: bool
) -> None:
    threaded.store("demo", b"a")

    def handler(batch: sync.Batch) -> None:
        sys.exit(3)

    async def coroutine(batch: Batch) -> None:
        sys.exit(3)

    with sync.connect(threaded.masters) as tube:
        with tube.push_consumer("g", "demo", handler=handler if plain else coroutine, start=FIRST) as push:
            with pytest.raises(SystemExit) as raised:
                push.wait(timeout_s=30)
            assert raised.value.code == 3
        assert tube.topics() == ["demo"]
