"""A Master's groups without a Master around them, and members to put into them."""

from __future__ import annotations

from pytubemq.core.balance.consistency import GroupKind, Mismatch, Terms
from pytubemq.master.access.broker_access import NoChecks
from pytubemq.master.access.tokens import OpenTokens
from pytubemq.master.brokers.brokers import Brokers
from pytubemq.master.catalogue.catalogue import Catalogue
from pytubemq.master.client_admission import ClientAdmission
from pytubemq.master.groups.group import MemberInfo
from pytubemq.master.groups.groups import Groups
from pytubemq.master.settings import MasterSettings
from pytubemq.wire.protocol.extensions import Capability

JAVA = Capability(0)
OURS = Capability.HEARTBEAT_WAIT


class StandingClock:
    """Time passes when it is told to."""

    def __init__(self) -> None:
        self.time_s = 1000.0

    def now_s(self) -> float:
        return self.time_s

    def wall_ms(self) -> int:
        return int(self.time_s * 1000)


class Line:
    def __init__(self, capabilities: Capability) -> None:
        self.capabilities = capabilities


class Room:
    """Groups of a Master without Brokers."""

    def __init__(self) -> None:
        self.clock = StandingClock()
        settings = MasterSettings(client_timeout_s=30, lost_connection_grace_s=3)
        catalogue = Catalogue(self.clock)
        brokers = Brokers(catalogue, settings, self.clock, OpenTokens(1), NoChecks(), lambda topics: None)
        admission = ClientAdmission(max_clients=10, max_bytes=10_000)
        self.groups = Groups(catalogue, brokers, settings, self.clock, lambda: None, admission)

    def join(self, name: str, line: Line, node_id: int = -2, source_count: int = 0) -> Mismatch | None:
        kind = GroupKind.CLIENT_BALANCE if source_count else GroupKind.SERVER_BALANCE
        terms = Terms(frozenset({"demo"}), kind=kind, total_count=source_count)
        info = MemberInfo("h", "p", 1, node_id)
        mismatch = self.groups.join("g", name, terms, info, holds=frozenset(), allocated=False)
        if mismatch is None:
            self.groups.record_use(self.groups.groups["g"], name, line)
        return mismatch

    def beat(self, name: str, line: Line, *, after_s: float) -> None:
        self.wait(after_s)
        group = self.groups.find("g", name)
        assert group is not None
        self.groups.record_use(group, name, line)

    def wait(self, wait_s: float) -> None:
        self.clock.time_s += wait_s
        self.groups.tick(self.clock.time_s)

    def has(self, name: str) -> bool:
        return self.groups.find("g", name) is not None
