"""Who speaks for a Broker: the hold that an address has on a Broker's id, and when another takes it.

The invariant: a Broker that is heard of keeps its id, unless the newcomer has the better claim to the topics that the
records place there. Without authentication a newcomer can lie about all of it; then it is told apart by the machine it
speaks from alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.errors import Code, FormatError
from pytubemq.master.answers import RefusalError, check_client_id
from pytubemq.model.ids import Address, BrokerInfo
from pytubemq.model.limits import BROKER_TAKE_BACK_S, FOREIGN_CONNECTION_GRACE_S
from pytubemq.model.names import check_port

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytubemq.master.broker_run import BrokerRun

_FORM = "brokerId:host:port[:version]"


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """A Broker as its registration names it."""

    info: BrokerInfo
    tls_port: int
    version: str

    @property
    def broker_id(self) -> int:
        """Its id."""
        return self.info.broker_id

    @property
    def address(self) -> Address:
        """Where it says that it is."""
        return self.info.address

    @classmethod
    def parse(cls, client_id: str, tls_port: int) -> BrokerIdentity:
        """Read a Broker's client id, an IPv6 host in brackets or not.

        Raises:
            RefusalError: 400, it is none, or no peer could connect to it.
        """
        text = check_client_id(client_id)
        head, _, rest = text.partition(":")
        host, bracket, rest = rest[1:].partition("]:") if rest.startswith("[") else rest.partition(":")
        port, _, version = rest.partition(":")
        if not (bracket and _is_number(head) and _is_number(port)):
            raise RefusalError(Code.BAD_REQUEST, f"clientId {text[:200]!r} of a Broker must be {_FORM}")
        try:
            info = BrokerInfo(int(head), Address(host, int(port))).check()
            check_port(tls_port, what="TLS port")
        except FormatError as error:
            raise RefusalError(
                Code.BAD_REQUEST, f"clientId {text[:200]!r} of a Broker: {error.message}; {error.hint}"
            ) from error
        return cls(info, tls_port, version)


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known of the hold of an address on a Broker's id, since this Master started."""

    address: Address
    since_s: float
    before: Address | None
    """Where the record had the Broker before it was moved to this address."""
    missing: frozenset[str]
    """Topics that the records placed there when it first registered, and that it did not have then."""
    brings: bool = False
    """It registered with a topic that the records place there."""

    def renewed(self, address: Address, placed: Collection[str], topics: Collection[str], now_s: float) -> Claim:
        """Return the claim of whoever registers now with these topics."""
        missing = frozenset(placed).difference(topics)
        if address == self.address:
            missing |= self.missing.intersection(placed)
            brings = self.brings or not missing.issuperset(placed)
            return Claim(address, self.since_s, self.before, missing, brings)
        before = None if address == self.before else self.address  # who came back has nobody to give way to
        return Claim(address, now_s, before, missing, not missing.issuperset(placed))

    def gives_way(self, run: BrokerRun, address: Address, topics: Collection[str], now_s: float) -> bool:
        """True if the Broker that is registered has no topic of its own and the newcomer has the better claim.

        That is one which comes back to where the record had it a while ago, or which has topics that the present one
        did not have. A Broker of the original does not say when it registers what it has, so that it only gives way to
        the former.
        """
        if self.brings or any(topic not in self.missing for topic in run.topics):
            return False
        if address == self.before and now_s < self.since_s + BROKER_TAKE_BACK_S:
            return True
        return run.holds_heartbeats and not self.missing.isdisjoint(topics)


def is_heard(run: BrokerRun | None, now_s: float) -> bool:
    """True if a Broker's connection is open and was used a moment ago."""
    return run is not None and not run.lost and now_s < run.heard_s + FOREIGN_CONNECTION_GRACE_S


def check_source(run: BrokerRun, source: str) -> None:
    """Refuse who registers a Broker that is heard of over another connection, unless it comes from the same machine, or
    from the one that the address names.

    Raises:
        RefusalError: 400.
    """
    if source not in (run.source, run.address.host):
        raise RefusalError(
            Code.BAD_REQUEST,
            f"broker {run.broker_id} is registered from {run.source} and heard of, and this comes from {source}; "
            "give this one another id, or stop the other",
        )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10
