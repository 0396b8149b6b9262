"""Handlers are called with nothing while their consumer is paused, and never with what was taken away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq import Batch, Message, Partition, PushConsumer, Start, connect
from pytubemq.client.consumer import consumer_base as base_module
from pytubemq.testing.mock_broker import MockBroker
from tests.support.waiting import until

if TYPE_CHECKING:
    from pytubemq import Tube

pytestmark = pytest.mark.anyio

P0, P1 = (Partition(1, "demo", number) for number in range(2))
TAKEN, GIVEN = 2, 1
"""What the Master says of a partition."""


class Recorder:
    """A handler that remembers, and can be made to wait."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.called, self.go_on = asyncio.Event(), asyncio.Event()
        self.go_on.set()

    async def batch(self, batch: Batch) -> None:
        """Take a batch."""
        for message in batch:
            await self.message(message)

    async def message(self, message: Message) -> None:
        """Take a message."""
        self.seen.append(message.body)
        self.called.set()
        await self.go_on.wait()

    def hold(self) -> None:
        """Return from the next call only after `go_on` is set."""
        self.go_on.clear()


def by_message(tube: Tube, recorder: Recorder) -> PushConsumer:
    """A consumer that takes its time to close."""
    return tube.push_consumer(
        "g", "demo", handler=recorder.message, by_message=True, start=Start.EARLIEST, close_timeout_s=600.0
    )


def tell(mock: MockBroker, what: int, partition: Partition) -> None:
    """Have the Master take a partition away or give it."""
    (client_id,) = mock.consumers
    mock.push_event(client_id, what, [partition])


@pytest.mark.parametrize("workers", [1, 3])
async def test_what_is_taken_away_during_a_pause_is_not_handled(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_module, "RELEASE_WAIT_S", 3600.0)  # nobody has it in hand, so nobody waits
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        recorder = Recorder()
        async with tube.push_consumer(
            "g", "demo", handler=recorder.batch, workers=workers, start=Start.EARLIEST, max_wait_s=0.01
        ) as push:
            await until(lambda: push.assignment)
            push.pause()
            mock.store("demo", b"a")
            await until(lambda: push.stats.consumer.fetched)
            tell(mock, TAKEN, P0)
            await until(lambda: not push.assignment)
            push.resume()
            tell(mock, GIVEN, P0)
            await mock.until(lambda: mock.confirmed("g", "demo") == 1)
        assert recorder.seen == [b"a"]


async def test_after_a_seek_during_a_pause_the_handler_begins_there() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        recorder = Recorder()
        async with tube.push_consumer(
            "g", "demo", handler=recorder.batch, start=Start.EARLIEST, max_messages=1, max_wait_s=0.01
        ) as push:
            await until(lambda: push.assignment)
            push.pause()
            mock.store("demo", b"a", b"b")
            await until(lambda: push.stats.consumer.fetched)
            assert await push.seek(P0, 28) == 28
            push.resume()
            await mock.until(lambda: mock.confirmed("g", "demo") == 2)
        assert recorder.seen == [b"b"]


async def test_the_rest_of_a_batch_that_is_taken_away_is_not_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_module, "RELEASE_WAIT_S", 0.05)
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        recorder = Recorder()
        recorder.hold()
        async with by_message(tube, recorder) as push:
            await recorder.called.wait()
            tell(mock, TAKEN, P0)
            await until(lambda: not push.assignment)
            recorder.go_on.set()
            await until(lambda: not push.stats.running)
            tell(mock, GIVEN, P0)
            await mock.until(lambda: mock.confirmed("g", "demo") == 2)
        assert recorder.seen == [b"a", b"a", b"b"]


async def test_a_pause_holds_between_two_messages_of_a_batch() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        recorder = Recorder()
        recorder.hold()
        async with by_message(tube, recorder) as push:
            await recorder.called.wait()
            push.pause()
            recorder.go_on.set()
            assert not await push.wait(timeout_s=0.05)
            assert recorder.seen == [b"a"]
            push.resume()
            await mock.until(lambda: mock.confirmed("g", "demo") == 2)
        assert recorder.seen == [b"a", b"b"]


async def test_closing_does_not_wait_for_what_is_paused() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        recorder = Recorder()
        recorder.hold()
        async with asyncio.timeout(60), by_message(tube, recorder) as push:
            await recorder.called.wait()
            push.pause()
            recorder.go_on.set()
        assert recorder.seen == [b"a"]
        assert mock.confirmed("g", "demo") == 1


async def test_after_a_stop_the_rest_of_other_batches_is_not_handled() -> None:
    async with MockBroker(topics={"demo": 2}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", partition_id=0)
        recorder = Recorder()
        recorder.hold()

        async def handler(message: Message) -> None:
            if message.partition == P1:
                raise LookupError("this one")
            await recorder.message(message)

        async with tube.push_consumer(
            "g", "demo", handler=handler, by_message=True, workers=2, on_error="stop", start=Start.EARLIEST
        ) as push:
            await recorder.called.wait()
            mock.store("demo", b"bad", partition_id=1)
            with pytest.raises(LookupError):
                await push.wait(timeout_s=30)
            recorder.go_on.set()
            await until(lambda: not push.stats.running)
        assert recorder.seen == [b"a"]
        assert mock.confirmed("g", "demo") == 1
