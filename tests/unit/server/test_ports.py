"""Taken ports: found, named, skipped."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Address
from pytubemq.net.free_ports import is_free, next_free
from pytubemq.server.dev_ports import free_ports, port_owner
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


def test_a_port_that_was_given_is_an_error_if_it_is_taken(taken: int) -> None:
    settings = load_settings(None, environ={}, flags={"http.listen": f"127.0.0.1:{taken}"})
    with pytest.raises(ConfigError, match=rf"^http\.listen: port {taken} of 127\.0\.0\.1:{taken} is in use by .*pid"):
        free_ports(settings, given=frozenset({"http.listen"}))


def test_a_default_makes_room_for_a_port_that_was_given() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        free = bound.getsockname()[1]
    same = f"127.0.0.1:{free}"
    settings = load_settings(None, environ={}, flags=dict.fromkeys(KEYS, same))
    found, notes = free_ports(settings, given=frozenset({"broker.http_listen"}))
    assert (found.broker.http_listen, len(notes)) == (same, 3)
    with pytest.raises(ConfigError, match="another address of this cluster"):
        free_ports(settings, given=frozenset({"broker.http_listen", "master.listen"}))


def test_any_port_stays_any_port() -> None:
    settings = load_settings(None, environ={}, flags=dict.fromkeys(KEYS, "127.0.0.1:0"))
    assert free_ports(settings) == (settings, ())
    without = load_settings(None, environ={}, flags={**dict.fromkeys(KEYS, "127.0.0.1:0"), "broker.http_listen": ""})
    assert free_ports(without) == (without, ())


def test_tls_ports_in_use_are_replaced_where_they_are_opened(taken: int) -> None:
    flags: dict[str, object] = {**dict.fromkeys(KEYS, "127.0.0.1:0"), "master.tls_port": taken, "broker.tls_port": 0}
    without = load_settings(None, environ={}, flags=flags)
    assert free_ports(without) == (without, ())
    settings = load_settings(None, environ={}, flags={**flags, "tls.cert": "server.pem"})
    found, notes = free_ports(settings)
    assert found.master.tls_port > taken
    assert len(notes) == 1
    assert f"port {taken} (master TLS)" in notes[0]
    with pytest.raises(ConfigError, match=f"master.tls_port: port {taken}"):
        free_ports(settings, given=frozenset({"master.tls_port"}))
