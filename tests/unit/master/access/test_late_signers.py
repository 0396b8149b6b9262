"""Registrations that wait for their signatures: whose they are, and who makes room when there are too many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from pytubemq.core.refusal import Refused
from pytubemq.master.access import late_signers
from pytubemq.master.access.late_signers import LateSigners
from pytubemq.wire.protocol.messages.master import MasterCertificateInfo, RegisterRequestC2M

if TYPE_CHECKING:
    from pytubemq.net.clock import Clock


@dataclass(eq=False)
class Caller:
    peer: str
    closed: bool = False


class Stopped:
    def now_s(self) -> float:
        return 1.0


def request(client_id: str, group: str = "g") -> RegisterRequestC2M:
    return RegisterRequestC2M(client_id=client_id, group_name=group, host_name="h", session_key="k", session_time=1)


@pytest.fixture
def late() -> LateSigners:
    return LateSigners(cast("Clock", Stopped()))


def test_a_stranger_can_neither_replace_nor_take_what_waits(late: LateSigners) -> None:
    honest, stranger = Caller("10.0.0.1:1"), Caller("10.0.0.2:1")
    late.put(request("c"), 10, honest)
    late.put(request("c", "another"), 10, stranger)
    assert late.take(Caller("10.0.0.1:2"), "c") is None
    assert late.take(stranger, "c").group_name == "another"
    assert late.is_waiting(honest, "c")
    assert not late.is_waiting(stranger, "c")
    taken = late.take(honest, "c", MasterCertificateInfo())
    assert (taken.group_name, taken.auth_info) == ("g", MasterCertificateInfo())
    assert len(late) == 0


def test_a_host_that_takes_all_places_makes_room_for_others(late: LateSigners, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_signers, "MAX_WAITING", 6)
    stranger = Caller("10.0.0.2:1")
    for number in range(6):
        late.put(request(f"s{number}"), 10, stranger)
    with pytest.raises(Refused, match="too many consumers wait to authenticate"):
        late.put(request("s6"), 10, Caller("10.0.0.2:9"))
    honest = [Caller(f"10.0.0.1:{port}") for port in (1, 2)]
    for each in honest:
        late.put(request("c"), 10, each)
        assert late.is_waiting(each, "c")
    assert not late.is_waiting(stranger, "s0")
    assert late.is_waiting(stranger, "s5")
    with pytest.raises(Refused):  # four against three is no clear difference
        late.put(request("c"), 10, Caller("10.0.0.1:3"))
    honest[0].closed = True
    late.put(request("c"), 10, Caller("10.0.0.1:3"))
    assert len(late) == 6


def test_what_waits_is_bounded_in_bytes(late: LateSigners) -> None:
    stranger, honest = Caller("10.0.0.2:1"), Caller("10.0.0.1:1")
    for number in range(8):
        late.put(request(f"s{number}"), 1 << 20, stranger)
    with pytest.raises(Refused):
        late.put(request("s8"), 1 << 20, stranger)
    with pytest.raises(Refused):
        late.put(request("c"), (8 << 20) + 1, honest)
    assert len(late) == 8
    late.put(request("c"), 1 << 20, honest)
    assert len(late) == 8
