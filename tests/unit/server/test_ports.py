"""Taken ports: found, named, passed over."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from pytubemq.model.ids import Address
from pytubemq.net.ports import is_free, next_free
from pytubemq.server.dev import free_ports
from pytubemq.server.port_owner import port_owner
from pytubemq.server.sources import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_is_free(taken: int) -> None:
    assert not is_free(Address("127.0.0.1", taken))
    assert is_free(Address("127.0.0.1", 0))
    found = next_free(Address("127.0.0.1", taken))
    assert found.port > taken
    assert is_free(found)


def test_the_owner_is_named(taken: int) -> None:
    assert f"(pid {os.getpid()})" in str(port_owner(taken))


def test_nobody_owns_a_free_port() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert port_owner(bound.getsockname()[1]) is None


KEYS = ("master.listen", "broker.listen", "http.listen", "broker.http_listen")


def test_no_two_get_the_same_port(taken: int) -> None:
    same = f"127.0.0.1:{taken}"
    settings = load_settings(None, environ={}, flags=dict.fromkeys(KEYS, same))
    found, notes = free_ports(settings)
    chosen = {found.master.listen, found.broker.listen, found.http.listen, found.broker.http_listen}
    assert len(chosen) == 4
    assert same not in chosen
    assert len(notes) == 4
    assert all(f"port {taken}" in note and "using" in note for note in notes)


def test_any_port_stays_any_port() -> None:
    settings = load_settings(None, environ={}, flags=dict.fromkeys(KEYS, "127.0.0.1:0"))
    assert free_ports(settings) == (settings, ())
    without = load_settings(None, environ={}, flags={**dict.fromkeys(KEYS, "127.0.0.1:0"), "broker.http_listen": ""})
    assert free_ports(without) == (without, ())
