"""What is not the protocol reaches the ports of a running cluster: one line in the log, and nobody else notices."""

from __future__ import annotations

import random
import signal
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ExitCode
from pytubemq.model.ids import Address

from .conftest import stop

if TYPE_CHECKING:
    from .conftest import CommandLine

pytestmark = pytest.mark.scenario

TOKEN = 0xFF7FF4FE
NOISE = {
    "noise": random.Random(3).randbytes(64 * 1024),
    "a wrong token": struct.pack(">IIII", 0x12345678, 1, 1, 8) + b"12345678",
    "a negative length": struct.pack(">IIIi", TOKEN, 1, 1, -1),
    "a length of 2 GiB": struct.pack(">IIIi", TOKEN, 1, 1, 2**31 - 1),
    "too many blocks": struct.pack(">IIi", TOKEN, 1, 2**31 - 1),
    "a web request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


def throw(address: Address, data: bytes) -> None:
    """Send it and wait until the other side has closed the connection."""
    with socket.create_connection((address.host, address.port), timeout=60) as peer:
        try:
            peer.sendall(data)
            while peer.recv(65_536):
                pass
        except ConnectionError:
            pass


def test_noise_on_both_ports(tube: CommandLine) -> None:
    process, ready = tube.dev()
    follower = tube.start("consume", "demo", "--tail", "--from", "earliest")
    assert follower.stdout is not None
    assert tube("produce", "demo", "before").returncode == ExitCode.DONE
    assert follower.stdout.readline() == b"before\n"
    for role in ("master", "broker"):
        for data in NOISE.values():
            throw(Address.parse(ready[role]), data)
    # whoever was connected still is, and others still can
    assert tube("produce", "demo", "after").returncode == ExitCode.DONE
    assert follower.stdout.readline() == b"after\n"
    follower.send_signal(signal.SIGINT)
    assert follower.wait(timeout=60) == ExitCode.INTERRUPTED
    code, said = stop(process)
    assert code == ExitCode.DONE
    lines = [line for line in said.splitlines() if " WARNING " in line or " ERROR " in line]
    assert len(lines) == 2 * len(NOISE), said
    assert "Traceback" not in said
