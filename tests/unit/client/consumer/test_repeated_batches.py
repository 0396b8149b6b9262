"""A Broker that accepts confirms and sends the same messages again: fetched less and less often, logged and counted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq import Partition, Start, Throttled, connect
from pytubemq.client.consumer import fetch_throttle
from pytubemq.client.consumer.fetch_throttle import RepeatedStarts
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.rpc.methods import Method
from tests.support.events import kept_events

if TYPE_CHECKING:
    from pytubemq.client.consumer.consumer import Consumer
    from pytubemq.client.received.batch import Batch
    from pytubemq.net.server.call import Call

pytestmark = pytest.mark.anyio

P0 = Partition(1, "demo", 0)
GROUP = "g"


class Pauses:
    """A backoff without pauses that notes for which repeat it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def delay_s(self, attempt: int, _rng: Any) -> float:
        """Return nothing to wait for."""
        self.asked.append(attempt)
        return 0.0


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    assert fetch_throttle.REPEATED.delay_s(1, lambda: 0.0) == 0.1
    assert fetch_throttle.REPEATED.delay_s(1000, lambda: 0.0) == 5.0
    noted = Pauses()
    monkeypatch.setattr(fetch_throttle, "REPEATED", noted)
    return noted


def keep_position(mock: MockBroker) -> None:
    """Let the Broker accept each confirm, and stay where it is."""

    def accept(call: Call, request: Any) -> Any:
        partition = mock.partitions["demo", 0]
        before = partition.confirmed[GROUP]
        response = mock.work(call, request)
        partition.confirmed[GROUP] = before
        return response

    mock.respond_fn(Method.CONSUMER_COMMIT_C2B, accept)


async def taken(consumer: Consumer) -> Batch:
    batch = await consumer.next_batch()
    assert batch is not None
    return batch


async def confirm_next(consumer: Consumer) -> bytes:
    batch = await taken(consumer)
    await batch.confirm()
    return batch.messages[0].body


@pytest.mark.parametrize("capabilities", [OURS, Capability(0)])
async def test_messages_that_come_again_though_confirmed_are_fetched_with_growing_pauses_and_counted(
    capabilities: Capability, pauses: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with MockBroker(topics={"demo": 1}, capabilities=capabilities) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        keep_position(mock)
        async with tube.consumer(GROUP, "demo", start=Start.EARLIEST) as consumer:
            for _ in range(6):
                assert await confirm_next(consumer) == b"a"
            assert pauses.asked == [1, 2, 3, 4, 5]
            assert consumer.stats.repeated == 5
            throttled = [event for event in kept_events(tube) if isinstance(event, Throttled)]
            assert [event.partition for event in throttled] == [P0], "once a minute"
            lines = [line for line in caplog.messages if "sends its messages again" in line]
            assert len(lines) == 1, "once a minute"
            assert lines[0].startswith(
                "1:demo:0: the Broker accepted a confirm and sends its messages again, from offset 0"
            )
            mock.respond_fn(Method.CONSUMER_COMMIT_C2B, None)
            await confirm_next(consumer)
            repeats = consumer.stats.repeated
            for body in (b"b", b"c"):
                mock.store("demo", body)
                assert await confirm_next(consumer) == body
            assert consumer.stats.repeated == repeats, "a position that moves ends it"


async def test_batches_that_are_rejected_or_sought_back_to_are_no_repeats(pauses: Pauses) -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b")
        async with tube.consumer(GROUP, "demo", start=Start.EARLIEST) as consumer:
            consumer.batches(max_messages=1)
            for _ in range(3):
                await (await taken(consumer)).reject()
            for _ in range(3):
                assert await confirm_next(consumer) == b"a"
                assert await confirm_next(consumer) == b"b"
                await consumer.seek(P0, 0)
            assert (pauses.asked, consumer.stats.repeated) == ([], 0)


def test_what_counts_as_a_repeat() -> None:
    starts = RepeatedStarts()
    assert not starts.record_fetch(28), "nothing was confirmed"
    for start in (28, 56, 84):
        starts.record_confirm(start, start + 28)
        assert not starts.record_fetch(start + 28)
    assert starts.record_fetch(28), "the group was moved back"
    assert not starts.record_fetch(28), "rejected, so it comes again"
    starts.record_confirm(28, 56)
    assert (starts.record_fetch(56), starts.in_row) == (False, 1), "it reads what it has read before, without a pause"
    starts.record_confirm(56, 84)
    assert (starts.record_fetch(28), starts.in_row) == (True, 2), "moved back again before it was further than before"
    starts.record_confirm(28, 112)
    assert (starts.record_fetch(112), starts.in_row) == (False, 0), "further than ever"
    starts.record_confirm(112, 112)
    assert not starts.record_fetch(112), "a confirm of none of its messages"
    starts.record_confirm(None, None)
    assert not starts.record_fetch(None), "a Broker that reports no offsets"
