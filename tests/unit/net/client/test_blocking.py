"""A connection without an event loop: its answers, and every way in which there is none."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import (
    ConnectionLostError,
    EnvelopeError,
    FrameError,
    RemoteError,
    RequestTimeoutError,
    UnreachableError,
)
from pytubemq.model.ids import Address
from pytubemq.model.limits import MAX_FRAME_BYTES, MAX_REQUEST_BYTES
from pytubemq.net.client import blocking
from pytubemq.net.client.blocking import BlockingConnection
from pytubemq.net.iothread import IoThread
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.framing.frame import Frame, encode_frame
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.extension import ReadRangeRequestC2B, ReadRangeResponseB2C
from pytubemq.wire.rpc.envelope import decode_response, encode_exception, encode_response, usual_body_at
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.serialization.message_bytes import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WAIT_S = 5.0


@contextmanager
def peer(serve: Callable[[socket.socket], None]) -> Iterator[BlockingConnection]:
    """A connection to one who does `serve`, without the heartbeat that goes first."""
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs,))
    thread.start()
    connection = BlockingConnection(ours, Address("127.0.0.1", 1))
    try:
        yield connection
    finally:
        connection.close()
        thread.join(WAIT_S)
        theirs.close()


def ask(connection: BlockingConnection, times: int = 1) -> None:
    for _ in range(times):
        connection.send(Method.READ_RANGE_C2B, Service.BROKER_READ, b"question", timeout_s=WAIT_S)


def answer(serial: int, body: bytes, *, block_bytes: int | None = None) -> bytes:
    return b"".join(encode_response(serial, method=101, body=(body,), capabilities=None, block_bytes=block_bytes))


@pytest.mark.parametrize("block_bytes", [None, 100])
@pytest.mark.parametrize("size", [0, 1, 99, 5_000_000])
def test_answers_come_in_turn_whatever_their_blocks(size: int, block_bytes: int | None) -> None:
    if size > 1_000_000 and block_bytes is not None:
        block_bytes = 8192
    bodies = [bytes([n]) * size for n in range(3)]

    def serve(theirs: socket.socket) -> None:
        for serial, body in enumerate(bodies, 1):
            theirs.sendall(answer(serial, body, block_bytes=block_bytes))

    with peer(serve) as connection:
        ask(connection, times=3)
        assert [bytes(connection.receive(timeout_s=WAIT_S)) for _ in bodies] == bodies


@given(st.binary(max_size=400), st.none() | st.just(int(OURS)))
def test_a_usual_answer_is_found_as_it_would_be_decoded(body: bytes, capabilities: int | None) -> None:
    content = b"".join(encode_response(1, method=101, body=(body,), capabilities=capabilities, block_bytes=None))[16:]
    whole = decode_response(Frame(1, content))
    at = usual_body_at(content[:128], len(content))
    assert at is not None
    assert content[at:] == whole.body == body
    assert usual_body_at(content[:128], len(content) + 1) is None


@given(st.binary(max_size=200), st.integers(0, 1000))
def test_no_bytes_make_the_search_for_a_body_fail(head: bytes, size: int) -> None:
    at = usual_body_at(head, size)
    assert at is None or at <= size


def test_a_peer_that_fails_at_a_request_can_be_asked_again() -> None:
    def serve(theirs: socket.socket) -> None:
        theirs.sendall(b"".join(encode_exception(1, exception_name="java.lang.X", text="no", fatal=False)))
        theirs.sendall(answer(2, b"yes"))

    with peer(serve) as connection:
        ask(connection, times=2)
        with pytest.raises(RemoteError, match="no"):
            connection.receive(timeout_s=WAIT_S)
        assert bytes(connection.receive(timeout_s=WAIT_S)) == b"yes"


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", FrameError),
        (answer(7, b"of another"), FrameError),
        (bytes.fromhex("ff7ff4fe000000010000000f7fffffff"), FrameError),
        (b"".join(encode_frame(1, [b"\xff\xff no envelope"], block_bytes=None)), EnvelopeError),
        (answer(1, b"cut off")[:-3], ConnectionLostError),
        (b"", ConnectionLostError),
    ],
)
def test_what_is_no_answer_ends_the_connection(sent: bytes, error: type[Exception]) -> None:
    def serve(theirs: socket.socket) -> None:
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)

    with peer(serve) as connection:
        ask(connection)
        with pytest.raises(error):
            connection.receive(timeout_s=WAIT_S)


def test_a_frame_larger_than_any_is_refused_before_room_is_made() -> None:
    head = bytes.fromhex("ff7ff4fe0000000100000001") + (MAX_FRAME_BYTES + 1).to_bytes(4, "big")
    with peer(lambda theirs: theirs.sendall(head)) as connection:
        ask(connection)
        with pytest.raises(FrameError):
            connection.receive(timeout_s=WAIT_S)
        assert connection.closed


def test_a_peer_that_says_nothing_is_waited_for_so_long() -> None:
    with peer(lambda theirs: None) as connection:
        ask(connection)
        with pytest.raises(RequestTimeoutError):
            connection.receive(timeout_s=0.01)
        assert connection.closed


def test_an_answer_that_never_becomes_whole_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "FRAME_TIMEOUT_S", 0.01)
    with peer(lambda theirs: theirs.sendall(answer(1, b"slow")[:-1])) as connection:
        ask(connection)
        with pytest.raises(RequestTimeoutError):
            connection.receive(timeout_s=WAIT_S)


def test_nobody_there_is_told() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", unused.getsockname()[1])
        with pytest.raises(UnreachableError):
            BlockingConnection.connect(address, client_id="c", auth_info=None, request_timeout_s=WAIT_S)


def test_it_learns_what_a_broker_can_do_and_reads_from_it() -> None:
    io = IoThread()
    mock = MockBroker(topics={"demo": 1})
    io.run(mock.start())
    try:
        mock.store("demo", b"one")
        connection = BlockingConnection.connect(
            mock.info.address, client_id="c", auth_info=None, request_timeout_s=WAIT_S
        )
        assert Capability.READ_RANGE in connection.capabilities
        request = ReadRangeRequestC2B(client_id="c", topic_name="demo", partition_id=0, offset=0, end_offset=28)
        connection.send(Method.READ_RANGE_C2B, Service.BROKER_READ, encode(request), timeout_s=WAIT_S)
        found = decode(ReadRangeResponseB2C, bytes(connection.receive(timeout_s=WAIT_S)))
        assert [message.pay_load_data for message in found.messages] == [b"one"]
        connection.close()
        connection.close()
    finally:
        io.run(mock.stop())
        io.close()


def test_an_answer_larger_than_its_call_may_have_is_refused() -> None:
    """The bound follows from what was asked: here a heartbeat, whose answers are short."""
    head = bytes.fromhex("ff7ff4fe0000000100000001") + (MAX_REQUEST_BYTES + 1).to_bytes(4, "big")
    with peer(lambda theirs: theirs.sendall(head)) as connection:
        connection.send(Method.CONSUMER_HEARTBEAT_C2B, Service.BROKER_READ, b"", timeout_s=WAIT_S)
        with pytest.raises(FrameError):
            connection.receive(timeout_s=WAIT_S)
        assert connection.closed
