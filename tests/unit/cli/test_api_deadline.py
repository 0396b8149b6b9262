"""A server that sends a little now and then does not hold the command line."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from pytubemq.cli.api import Api
from pytubemq.errors import RequestTimeoutError

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextlib.contextmanager
def trickling(first: bytes, drop: bytes) -> Iterator[str]:
    """The URL of a server that sends `first` and then `drop` again and again, until its client goes."""
    listening = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve() -> None:
        accepted, _ = listening.accept()
        with accepted, contextlib.suppress(OSError):
            accepted.recv(65_536)
            accepted.sendall(first)
            while not ended.wait(0.02):
                accepted.sendall(drop)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        ended.set()
        thread.join()
        listening.close()


@pytest.mark.parametrize(
    ("first", "drop"),
    [
        (b"HTTP/1.1 200 ", b"O"),
        (HEAD, b"X: y\r\n"),
        (HEAD + b"Content-Length: 1000000\r\n\r\n", b"["),
        (HEAD + b"Connection: close\r\n\r\n", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n[\r\n"),
    ],
    ids=["status", "headers", "length", "until it closes", "chunks"],
)
def test_a_response_that_trickles_ends_in_time(first: bytes, drop: bytes) -> None:
    with trickling(first, drop) as url, pytest.raises(RequestTimeoutError, match=r"no response from .* within 0.3 s"):
        Api(url, timeout_s=0.3).rows("topics")
