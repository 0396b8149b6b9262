"""Which client a broken connection was carrying."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.master.client_connections import ClientConnections
from pytubemq.wire.protocol.extensions import Capability

if TYPE_CHECKING:
    from collections.abc import Hashable


class Line:
    def __init__(self, capabilities: Capability = Capability.HEARTBEAT_WAIT) -> None:
        self.capabilities = capabilities


def test_only_the_latest_connection_of_a_client_counts() -> None:
    lost: list[Hashable] = []
    connections, old, new = ClientConnections(lost.append), Line(), Line()
    assert connections.record_use("a", old)
    assert not connections.record_use("a", old)
    assert connections.record_use("a", new)
    connections.close(old)
    assert lost == []
    connections.close(new)
    connections.close(new)
    assert lost == ["a"]


def test_one_connection_carries_many() -> None:
    lost: list[Hashable] = []
    connections, line = ClientConnections(lost.append), Line()
    for name in "abc":
        connections.record_use(name, line)
    connections.forget("b")
    connections.forget("nobody")
    connections.close(line)
    assert sorted(map(str, lost)) == ["a", "c"]


def test_a_java_client_keeps_its_registration() -> None:
    lost: list[Hashable] = []
    connections, line = ClientConnections(lost.append), Line(Capability(0))
    connections.record_use("java", line)
    connections.close(line)
    assert lost == []
    assert connections.record_use("java", Line())


def test_another_clients_connection_is_told_to_who_wants_to_know() -> None:
    lost: list[Hashable] = []
    foreign: list[Hashable] = []
    connections, line = ClientConnections(lost.append, on_foreign_lost=foreign.append), Line(Capability(0))
    connections.record_use("java", line)
    connections.close(line)
    assert (lost, foreign) == ([], ["java"])
