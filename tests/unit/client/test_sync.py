"""The sync facade: the same client, driven from a thread without a loop."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from pytubemq import sync
from pytubemq.client.sync.submit_future import SubmitFuture, UnaskedFailures
from pytubemq.errors import (
    BadRequestError,
    BufferFullError,
    ClosedError,
    ForkedError,
    MessageError,
    NotFoundError,
    StaleBatchError,
    SubmitError,
    UnreachableError,
)
from pytubemq.net.iothread import IoThread
from pytubemq.testing.mock_broker import SILENCE, MockBroker
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def io() -> Iterator[IoThread]:
    """Where the mock cluster lives."""
    thread = IoThread(name="mock")
    yield thread
    thread.close()


@pytest.fixture
def mock(io: IoThread) -> Iterator[MockBroker]:
    """A cluster with the topic `demo` of two partitions."""

    async def start() -> MockBroker:
        made = MockBroker(topics={"demo": 2})
        await made.start()
        return made

    made = io.run(start())
    yield made
    io.run(made.stop())


def test_send_submit_and_flush(mock: MockBroker) -> None:
    with sync.connect(mock.masters) as tube, tube.producer("demo") as producer:
        assert producer.send(b"first", partition=0).offset == 0
        futures = [producer.submit(b"%d" % n, partition=0) for n in range(500)]
        producer.flush()
        assert [future.result().offset for future in futures] == [28 * (n + 1) for n in range(500)]
        assert producer.stats.delivered == 501
        assert len(producer.partitions) == 2
    assert mock.bodies("demo", 0) == [b"first", *(b"%d" % n for n in range(500))]
    with pytest.raises(ClosedError):
        producer.submit(b"x")
    producer.close()
    tube.close()


def test_leaving_the_block_delivers_what_was_submitted(mock: MockBroker) -> None:
    with sync.connect(mock.masters) as tube, tube.producer("demo") as producer:
        futures = [producer.submit(b"x") for _ in range(100)]
    assert all(future.result().message_id for future in futures)


def test_many_threads_share_a_producer(mock: MockBroker) -> None:
    with sync.connect(mock.masters) as tube, tube.producer("demo") as producer:

        def work(name: int) -> None:
            for n in range(100):
                producer.submit(b"%d:%d" % (name, n), partition=0)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
    bodies = mock.bodies("demo", 0)
    assert len(bodies) == 400
    for name in range(4):
        mine = [body for body in bodies if body.startswith(b"%d:" % name)]
        assert mine == [b"%d:%d" % (name, n) for n in range(100)]


def test_a_wrong_key_is_refused_at_the_call(mock: MockBroker) -> None:
    with sync.connect(mock.masters) as tube, tube.producer("demo") as producer:
        with pytest.raises(MessageError, match="a key is text or bytes"):
            producer.submit(b"x", key=5)  # type: ignore[arg-type]
        assert repr(producer) == "sync.Producer('demo', 2 partitions)"


def test_errors_are_the_same(mock: MockBroker) -> None:
    with sync.connect(mock.masters) as tube:
        with pytest.raises(NotFoundError, match="nope"), tube.producer("nope"):
            pass
        with (  # noqa: PT012
            pytest.raises(SubmitError, match="3 submitted messages were not delivered"),
            tube.producer("demo", max_buffer_messages=3, close_timeout_s=0.05) as producer,
        ):
            with pytest.raises(MessageError, match="empty"):
                producer.submit(b"")
            mock.fail_next(Method.SEND_MESSAGE_P2B, code=400, text="no")
            with pytest.raises(BadRequestError, match="no"):
                producer.submit(b"x").result()
            mock.respond_fn(Method.SEND_PACKS_P2B, lambda _call, _request: SILENCE)
            futures = [producer.submit(b"x") for _ in range(3)]
            with pytest.raises(BufferFullError):
                producer.submit(b"x")
        for future in futures:
            with pytest.raises(ClosedError):
                future.result()


def test_a_failed_submit_that_nobody_asks_for_is_raised_by_flush_once(
    mock: MockBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with sync.connect(mock.masters) as tube, tube.producer("demo") as producer:
        mock.fail_next(Method.SEND_MESSAGE_P2B, code=400, text="no")
        producer.submit(b"x")
        with pytest.raises(SubmitError, match="a submitted message was not delivered: ") as raised:
            producer.flush()
        assert (raised.value.messages, raised.value.code) == (1, 400)
        assert isinstance(raised.value.__cause__, BadRequestError)
        assert "producer of demo: 1 submitted messages were not delivered" in caplog.text
        producer.flush()


def test_a_failed_submit_whose_future_was_asked_is_not_raised_again(mock: MockBroker) -> None:
    with sync.connect(mock.masters) as tube, tube.producer("demo") as producer:
        mock.fail_next(Method.SEND_MESSAGE_P2B, code=400, text="no")
        assert isinstance(producer.submit(b"x").exception(), BadRequestError)
        producer.flush()


def test_leaving_the_block_raises_a_failed_submit_and_masks_no_other_error(mock: MockBroker) -> None:
    with sync.connect(mock.masters) as tube:
        for error, expected in ((None, SubmitError), (KeyError("mine"), KeyError)):
            with pytest.raises(expected), tube.producer("demo") as producer:  # noqa: PT012
                mock.fail_next(Method.SEND_MESSAGE_P2B, code=400, text="no")
                producer.submit(b"x")
                if error is not None:
                    raise error


def test_of_very_many_failed_submits_the_number_is_kept() -> None:
    failures = UnaskedFailures("demo")
    futures = [SubmitFuture() for _ in range(3000)]
    for number, future in enumerate(futures):
        failures.record(future, 2, BadRequestError(f"no {number}"))
    futures[-1].is_asked = True
    with pytest.raises(SubmitError, match="no 0") as raised:
        failures.raise_any()
    assert raised.value.messages == 5998
    failures.raise_any()


def test_batches_are_a_plain_iterator(mock: MockBroker, io: IoThread) -> None:
    io.call(lambda: mock.store("demo", b"a", b"b"))
    with sync.connect(mock.masters) as tube:
        with tube.consumer("g", "demo", start=sync.Start.EARLIEST) as consumer:
            bodies = []
            for batch in consumer.batches(max_messages=1, max_wait_s=0.05, idle_timeout_s=0.3):
                assert len(batch) == len(batch.messages) == 1
                bodies += [message.body for message in batch]
                batch.confirm()
                with pytest.raises(StaleBatchError):
                    batch.reject()
            assert bodies == [b"a", b"b"]
            assert len(consumer.assignment) == 2
            assert set(consumer.lag().values()) == {0}
            assert consumer.stats.confirmed == 2
        assert mock.confirmed("g", "demo") == 2


def test_next_batch_alone(mock: MockBroker, io: IoThread) -> None:
    io.call(lambda: mock.store("demo", b"a", partition_id=0))
    with (
        sync.connect(mock.masters) as tube,
        tube.consumer("g", "demo", start=sync.Start.EARLIEST) as consumer,
    ):
        batch = consumer.next_batch(timeout_s=10)
        assert batch is not None
        assert [message.body for message in batch] == [b"a"]
        batch.confirm()
        assert consumer.next_batch(timeout_s=0.01) is None


def test_reader_partitions_offsets_and_events(mock: MockBroker, io: IoThread) -> None:
    io.call(lambda: mock.store("demo", b"a", b"b", b"c"))
    with sync.connect(mock.masters) as tube:
        first, second = tube.partitions("demo")
        assert tube.offsets([first, second]) == {first: (0, 84), second: (0, 0)}
        with tube.reader(first, end=sync.Start.LATEST) as reader:
            assert [message.body for batch in reader.batches(max_messages=2) for message in batch] == [b"a", b"b", b"c"]
            assert (reader.partition, reader.position, reader.end) == (first, 84, 84)
        assert tube.brokers == [mock.info]
        assert next(tube.events()) is not None


def test_an_unreachable_master_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with pytest.raises(UnreachableError, match="no Master can be reached"), sync.connect("127.0.0.1:1"):
        pass
    assert threading.active_count() == before


def test_use_outside_the_block_is_refused() -> None:
    tube = sync.connect("127.0.0.1:1")
    with pytest.raises(ClosedError, match=r"with sync.connect"):
        tube.partitions("demo")
    tube.close()


def test_what_was_not_entered_says_how_to_enter_it_here(mock: MockBroker) -> None:
    with sync.connect(mock.masters) as tube:
        consumer, reader, producer = tube.consumer("g", "demo"), tube.reader("1:demo:0"), tube.producer("demo")
        for use in (consumer.next_batch, lambda: next(iter(reader.batches())), lambda: producer.send(b"x")):
            with pytest.raises(ClosedError, match="use it inside `with`"):
                use()


def test_ctrl_c_ends_a_wait(mock: MockBroker) -> None:
    with sync.connect(mock.masters) as tube, tube.consumer("g", "demo") as consumer:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            next(consumer.batches())
        timer.join()
        assert len(consumer.assignment) == 2


def test_heartbeats_go_on_while_the_caller_is_busy(mock: MockBroker) -> None:
    with sync.connect(mock.masters) as tube, tube.consumer("g", "demo") as consumer:
        next(consumer.batches(max_wait_s=0.05, idle_timeout_s=0.01), None)
        before = len(mock.received(Method.CONSUMER_HEARTBEAT_C2M))
        mock_event = threading.Event()
        consumer._io.post(lambda: mock_event.set())
        assert mock_event.wait(5)
        deadline = time.monotonic() + 30
        while len(mock.received(Method.CONSUMER_HEARTBEAT_C2M)) == before and time.monotonic() < deadline:
            sum(range(10_000))  # a caller that computes and does not come back to the client
        assert len(mock.received(Method.CONSUMER_HEARTBEAT_C2M)) > before


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_is_refused(mock: MockBroker) -> None:
    with sync.connect(mock.masters) as tube, tube.producer("demo") as producer, tube.consumer("g", "demo") as consumer:
        child = os.fork()
        if child == 0:
            outcome = 0
            for end in (producer, consumer, tube):
                try:
                    end.close()
                except BaseException:
                    outcome |= 4
            for use in (lambda: producer.submit(b"x"), lambda: producer.send(b"x"), lambda: tube.partitions("demo")):
                try:
                    use()
                    outcome |= 1
                except ForkedError:
                    pass
                except BaseException:
                    outcome |= 2
            os._exit(outcome)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert producer.send(b"the parent goes on")
