"""Which port a server gets."""

from __future__ import annotations

import socket

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Address
from pytubemq.net.server import listening
from pytubemq.net.server.listening import ANY_PORTS, address_of, bind, open_port

ANY = Address("127.0.0.1", 0)


def test_any_port_is_none_that_callers_are_given() -> None:
    with bind(ANY, name="test") as bound:
        assert address_of(bound).port in ANY_PORTS


def test_no_two_servers_get_one_port_before_either_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with bind(ANY, name="test") as free:
        port = address_of(free).port
    monkeypatch.setattr(listening, "ANY_PORTS", range(port, port + 2))
    with bind(ANY, name="first") as first, bind(ANY, name="second") as second:
        assert address_of(first) != address_of(second)
        open_port(first, name="first")
        open_port(second, name="second")


def test_a_server_gets_a_port_though_all_of_its_own_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with bind(ANY, name="first") as first:
        monkeypatch.setattr(listening, "ANY_PORTS", range(address_of(first).port, address_of(first).port + 1))
        with bind(ANY, name="second") as second:
            assert address_of(second).port not in (0, address_of(first).port)


def test_it_can_be_bound_again_while_a_connection_of_before_ends() -> None:
    with bind(ANY, name="before") as before:
        before.setblocking(True)
        open_port(before, name="before")
        address = address_of(before)
        with socket.create_connection((address.host, address.port)) as client:
            accepted, _ = before.accept()
            accepted.close()  # this side ends first, so the operating system keeps its end for a minute
            assert client.recv(1) == b""
    with bind(address, name="after") as after:
        open_port(after, name="after")


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0"):
        bind(Address("192.0.2.1", 0), name="test")
