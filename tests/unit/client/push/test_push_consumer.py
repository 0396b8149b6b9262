"""Consumers that call a handler, against a scripted cluster."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest

from pytubemq import Batch, HandlerFailed, Message, Partition, Start, connect, sync
from pytubemq.errors import ConfigError, NotAllowedError
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.messages.master import HeartResponseM2C
from pytubemq.wire.rpc.methods import Method
from tests.support.events import event_of
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

DEMO = {"demo": 1}
FIRST = Start.EARLIEST


async def test_a_batch_is_confirmed_after_its_handler_has_returned() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        seen: list[bytes] = []
        before: list[int] = []

        async def handler(batch: Batch) -> None:
            before.append(mock.confirmed("g", "demo"))
            seen.extend(message.body for message in batch)

        async with tube.push_consumer(
            "g", "demo", handler=handler, start=FIRST, max_messages=1, close_timeout_s=600
        ) as push:
            await mock.until(lambda: mock.confirmed("g", "demo") == 2)
            assert seen == [b"a", b"b"]
            assert before == [0, 1]
            assert push.assignment == (Partition(1, "demo", 0),)
            await until(lambda: push.lag() == {Partition(1, "demo", 0): 0})
        assert push.stats.handled == 2
        assert push.stats.failed == push.stats.running == 0
        (register,) = mock.received(Method.CONSUMER_REGISTER_C2M)
        assert "-Push-" in register.client_id


async def test_a_plain_handler_runs_in_a_thread_and_the_loop_goes_on() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        here, go_on = threading.get_ident(), threading.Event()
        threads: list[int] = []

        def handler(batch: Batch) -> None:
            threads.append(threading.get_ident())
            assert go_on.wait(30)

        async with tube.push_consumer("g", "demo", handler=handler, start=FIRST) as push:
            await until(lambda: threads)
            assert threads[0] != here
            assert push.stats.running == 1
            go_on.set()
            await mock.until(lambda: mock.confirmed("g", "demo") == 1)


async def test_partitions_are_handled_at_once_and_each_in_order() -> None:
    async with MockBroker(topics={"demo": 3}) as mock, connect(mock.masters) as tube:
        for number in range(3):
            mock.store("demo", *[b"%d" % n for n in range(5)], partition_id=number)
        running: set[Partition] = set()
        most = 0
        seen: dict[Partition, list[bytes]] = {}

        async def handler(batch: Batch) -> None:
            nonlocal most
            assert batch.partition not in running
            running.add(batch.partition)
            most = max(most, len(running))
            await asyncio.sleep(0.005)  # so long that one too many would be seen
            seen.setdefault(batch.partition, []).extend(message.body for message in batch)
            running.discard(batch.partition)

        async with tube.push_consumer("g", "demo", handler=handler, workers=2, start=FIRST, max_messages=1):
            await mock.until(lambda: sum(mock.confirmed("g", "demo", number) for number in range(3)) == 15)
        assert most == 2
        assert list(seen.values()) == [[b"0", b"1", b"2", b"3", b"4"]] * 3


async def test_by_message_the_batch_is_confirmed_after_the_last() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"c")
        seen: list[tuple[bytes, int]] = []

        async def handler(message: Message) -> None:
            seen.append((message.body, mock.confirmed("g", "demo")))

        async with tube.push_consumer("g", "demo", handler=handler, by_message=True, start=FIRST):
            await mock.until(lambda: mock.confirmed("g", "demo") == 3)
        assert seen == [(b"a", 0), (b"b", 0), (b"c", 0)]


async def test_what_a_handler_fails_at_comes_again_and_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async with MockBroker(topics={"demo": 2}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"bad", partition_id=0)
        mock.store("demo", b"good", partition_id=1)
        tries = 0

        async def handler(batch: Batch) -> None:
            nonlocal tries
            if batch.messages[0].body == b"bad":
                tries += 1
                if tries < 4:
                    raise ValueError("not yet")

        async with tube.push_consumer("g", "demo", handler=handler, workers=1, start=FIRST) as push:
            failed: HandlerFailed = await event_of(tube, HandlerFailed)
            assert (failed.partition.partition_id, failed.messages, failed.then) == (0, 1, "retry")
            assert isinstance(failed.reason, ValueError)
            await mock.until(lambda: mock.confirmed("g", "demo", 0) == mock.confirmed("g", "demo", 1) == 1)
            assert push.stats.failed == 3
        assert tries == 4
        assert "which comes again" in caplog.text
        assert "ValueError: not yet" in caplog.text


async def test_skip_confirms_what_a_handler_fails_at() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"bad", b"good")
        seen: list[bytes] = []

        async def handler(message: Message) -> None:
            if message.body == b"bad":
                raise ValueError("never")
            seen.append(message.body)

        async with tube.push_consumer(
            "g", "demo", handler=handler, by_message=True, on_error="skip", start=FIRST
        ) as push:
            await mock.until(lambda: mock.confirmed("g", "demo") == 2)
            assert push.stats.failed == 1
        assert seen == [b"good"]

        async def always(batch: Batch) -> None:
            raise ValueError("never")

        async with tube.push_consumer("h", "demo", handler=always, on_error="skip", start=FIRST):
            await mock.until(lambda: mock.confirmed("h", "demo") == 2)


async def test_stop_ends_the_consumer_with_what_the_handler_raised(caplog: pytest.LogCaptureFixture) -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"bad")

        def handler(batch: Batch) -> None:
            raise LookupError("this one")

        async with tube.push_consumer("g", "demo", handler=handler, on_error="stop", start=FIRST) as push:
            with pytest.raises(LookupError, match="this one"):
                await push.wait(timeout_s=30)
        assert "which ends this consumer: LookupError('this one')" in caplog.text
        assert "Traceback" not in caplog.text, "it was raised"
        assert mock.confirmed("g", "demo") == 0
        with pytest.raises(LookupError):
            async with tube.push_consumer("g", "demo", handler=handler, on_error="stop", start=FIRST) as push:
                await mock.until(lambda: push.stats.failed)


async def test_after_a_stop_no_handler_is_called_any_more() -> None:
    async with MockBroker(topics={"demo": 2}) as mock, connect(mock.masters) as tube:
        for number in range(2):
            mock.store("demo", *[b"x"] * 5, partition_id=number)
        calls = 0

        async def handler(batch: Batch) -> None:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise LookupError("this one")

        async with tube.push_consumer(
            "g", "demo", handler=handler, workers=1, on_error="stop", start=FIRST, max_messages=1
        ) as push:
            with pytest.raises(LookupError):
                await push.wait(timeout_s=30)
            assert await push.wait(timeout_s=0.1), "it has ended, and its failure was raised"
        assert calls == 2
        assert sum(mock.confirmed("g", "demo", number) for number in range(2)) == 1


async def test_a_handler_may_close_its_consumer() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")

        async def handler(batch: Batch) -> None:
            await batch.confirm()
            await push.close()

        async with tube.push_consumer("g", "demo", handler=handler, start=FIRST, close_timeout_s=600) as push:
            assert await push.wait(timeout_s=30)
        assert mock.confirmed("g", "demo") == 1


async def test_a_failure_in_the_background_is_raised() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.push_consumer("g", "demo", handler=print) as push,
    ):
        assert not await push.wait(timeout_s=0.01)
        mock.respond_fn(
            Method.CONSUMER_HEARTBEAT_C2M,
            lambda _call, _request: HeartResponseM2C(success=False, err_code=450, err_msg="not this group"),
        )
        mock.drop_connections()
        with pytest.raises(NotAllowedError, match="not this group"):
            await push.wait(timeout_s=30)


async def test_closing_waits_for_running_handlers_and_takes_nothing_new() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        started, go_on = asyncio.Event(), asyncio.Event()
        seen: list[bytes] = []

        async def handler(batch: Batch) -> None:
            started.set()
            await go_on.wait()
            seen.extend(message.body for message in batch)

        async with tube.push_consumer("g", "demo", handler=handler, start=FIRST, max_messages=1) as push:
            await started.wait()
            closing = asyncio.create_task(push.close())
            await asyncio.sleep(0)
            go_on.set()
            await closing
            assert await push.wait()
        assert seen == [b"a"]
        assert mock.confirmed("g", "demo") == 1


async def test_a_handler_that_does_not_end_does_not_hold_up_closing_and_is_not_confirmed() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        started, never = asyncio.Event(), asyncio.Event()

        async def handler(batch: Batch) -> None:
            started.set()
            await never.wait()

        async with tube.push_consumer("g", "demo", handler=handler, start=FIRST, close_timeout_s=0.05):
            await started.wait()
        assert mock.confirmed("g", "demo") == 0


async def test_pause_and_resume() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        seen: list[bytes] = []

        async def handler(message: Message) -> None:
            seen.append(message.body)

        async with tube.push_consumer("g", "demo", handler=handler, by_message=True, start=FIRST) as push:
            push.pause()
            mock.store("demo", b"a")
            assert not await push.wait(timeout_s=0.1)
            assert not seen
            push.resume()
            await mock.until(lambda: mock.confirmed("g", "demo") == 1)
            assert await push.seek("1:demo:0", 0) == 0
            await mock.until(lambda: len(seen) == 2)


async def test_a_handler_may_settle_its_batch_itself() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        rejected = False

        async def handler(batch: Batch) -> None:
            nonlocal rejected
            if rejected:
                await batch.confirm()
            else:
                rejected = True
                await batch.reject()

        async with tube.push_consumer("g", "demo", handler=handler, start=FIRST):
            await mock.until(lambda: mock.confirmed("g", "demo") == 1)


class Callable:
    """An object that is called like a coroutine function."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    async def __call__(self, what: Any, more: int = 0) -> None:
        self.threads.append(threading.get_ident())


@pytest.mark.parametrize("wrapped", [False, True])
async def test_every_kind_of_coroutine_function_runs_on_the_loop(wrapped: bool) -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        handler = Callable()
        given = functools.partial(handler, more=1) if wrapped else handler
        async with tube.push_consumer("g", "demo", handler=given, start=FIRST):
            await mock.until(lambda: mock.confirmed("g", "demo") == 1)
        assert handler.threads == [threading.get_ident()]


@pytest.mark.parametrize(
    ("given", "named"),
    [({"workers": 0}, "workers"), ({"on_error": "ignore"}, "on_error"), ({"handler": 7}, "handler is 7")],
)
async def test_what_makes_no_sense_is_named(given: dict[str, Any], named: str) -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        with pytest.raises(ConfigError, match=named):
            tube.push_consumer("g", "demo", **{"handler": print, **given})


def test_without_await_the_handler_gets_batches_without_await(threaded: MockBroker) -> None:
    threaded.store("demo", b"a", b"b")
    seen: list[bytes] = []
    done = threading.Event()

    def handler(batch: sync.Batch) -> None:
        seen.extend(message.body for message in batch)
        batch.confirm()
        done.set()

    with (
        sync.connect(threaded.masters) as tube,
        tube.push_consumer("g", "demo", handler=handler, start=FIRST) as push,
    ):
        assert done.wait(30)
        assert not push.wait(timeout_s=0.01)
        assert push.assignment == (Partition(1, "demo", 0),)
        push.pause()
        push.resume()
    assert seen == [b"a", b"b"]
    assert threaded.confirmed("g", "demo") == 2
    assert push.stats.handled == 2


def test_without_await_a_failure_is_raised_too(threaded: MockBroker) -> None:
    threaded.store("demo", b"a")

    def handler(message: Message) -> None:
        raise LookupError(message.body.decode())

    with (
        sync.connect(threaded.masters) as tube,
        tube.push_consumer("g", "demo", handler=handler, by_message=True, on_error="stop", start=FIRST) as push,
        pytest.raises(LookupError, match="a"),
    ):
        push.wait(timeout_s=30)
