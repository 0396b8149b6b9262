"""Which client a broken connection was carrying."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.master.peers import Peers
from pytubemq.wire.extensions import Capability

if TYPE_CHECKING:
    from collections.abc import Hashable


class Line:
    def __init__(self, capabilities: Capability = Capability.HEARTBEAT_WAIT) -> None:
        self.capabilities = capabilities


def test_only_the_latest_connection_of_a_client_counts() -> None:
    lost: list[Hashable] = []
    peers, old, new = Peers(lost.append), Line(), Line()
    assert peers.seen("a", old)
    assert not peers.seen("a", old)
    assert peers.seen("a", new)
    peers.lost(old)
    assert lost == []
    peers.lost(new)
    peers.lost(new)
    assert lost == ["a"]


def test_one_connection_carries_many() -> None:
    lost: list[Hashable] = []
    peers, line = Peers(lost.append), Line()
    for name in "abc":
        peers.seen(name, line)
    peers.forget("b")
    peers.forget("nobody")
    peers.lost(line)
    assert sorted(map(str, lost)) == ["a", "c"]


def test_a_java_client_keeps_its_registration() -> None:
    lost: list[Hashable] = []
    peers, line = Peers(lost.append), Line(Capability(0))
    peers.seen("java", line)
    peers.lost(line)
    assert lost == []
    assert peers.seen("java", Line())


def test_another_clients_connection_is_told_to_who_wants_to_know() -> None:
    lost: list[Hashable] = []
    foreign: list[Hashable] = []
    peers, line = Peers(lost.append, on_foreign_lost=foreign.append), Line(Capability(0))
    peers.seen("java", line)
    peers.lost(line)
    assert (lost, foreign) == ([], ["java"])
