"""`tls.plain = false`: the ports without TLS are reserved and closed, and the cluster works over the others."""

from __future__ import annotations

import gc
import socket
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.server.compose import ROLES, Node
from pytubemq.server.sources import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.certificates import Authority

pytestmark = pytest.mark.anyio
ANY = "127.0.0.1:0"


def settings_of(directory: Path, secure: dict[str, object], **more: object) -> dict[str, object]:
    base: dict[str, object] = {"data": str(directory), "log.level": "warning", "tls.plain": "false"}
    base |= dict.fromkeys(("master.listen", "broker.listen", "http.listen"), ANY)
    return {**base, "broker.http_listen": "", "master.tls_port": 0, "broker.tls_port": 0, **secure, **more}


def is_reserved_and_closed(address: pytubemq.Address) -> bool:
    """True if nobody listens there, and nobody else can bind the port."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.host, address.port), timeout=10).close()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((address.host, address.port))
    return True


async def test_master_and_broker_reach_each_other_and_clients_reach_them(
    tmp_path: Path, authority: Authority, secure: dict[str, object]
) -> None:
    master = Node(load_settings(None, environ={}, flags=settings_of(tmp_path / "m", secure)), ROLES["master"])
    try:
        where = await master.start()
        assert master.master is not None
        assert where.master is None
        assert where.master_tls is not None
        flags = settings_of(tmp_path / "b", secure) | {"broker.masters": [where.master_tls]}
        broker = Node(load_settings(None, environ={}, flags=flags), ROLES["broker"])
        try:
            at = await broker.start()
            assert broker.broker is not None
            assert at.broker is None
            assert at.broker_tls is not None
            for address in (master.master.address, broker.broker.address):
                assert is_reserved_and_closed(address)
            await master.master.create_topic("orders", 2)
            tls = authority.options(authority.issue("client", "client.example"))
            async with pytubemq.connect(where.master_tls, tls=tls) as tube, tube.producer("orders") as producer:
                await producer.send(b"x")
            detail = await master.master.topic("orders")
            assert sum(part.max_offset or 0 for part in detail.partition_list) > 0, (
                "the Master asks its Broker over TLS"
            )
        finally:
            await broker.close()
    finally:
        await master.close()
    del master, broker
    gc.collect()  # a socket that was not closed would fail the test


async def test_clients_are_sent_to_tls_ports_alone(
    tmp_path: Path, authority: Authority, secure: dict[str, object]
) -> None:
    node = Node(load_settings(None, environ={}, flags=settings_of(tmp_path, secure)), ROLES["all"])
    try:
        where = await node.start()
        assert node.master is not None
        await node.master.create_topic("orders", 1)
        tls = authority.options(authority.issue("client", "client.example"))
        async with pytubemq.connect(str(where.master_tls), tls=tls) as tube, tube.producer("orders") as producer:
            await producer.send(b"x")
            assert tube._cluster is not None
            assert {str(address) for address in tube._cluster.pool._open} <= {
                str(where.master_tls),
                str(where.broker_tls),
            }
    finally:
        await node.close()
