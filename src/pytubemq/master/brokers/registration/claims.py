"""The claim of an address to a Broker's id, and when another address takes it over.

The invariant: a live Broker keeps its id, unless a newcomer has the better claim to the topics that the records place
there. Without authentication a newcomer can lie about its topics; only the machine it connects from tells it apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.core.refusal import Refused
from pytubemq.core.request_fields import check_client_id
from pytubemq.errors import Code, FormatError
from pytubemq.model.ids import Address, BrokerInfo
from pytubemq.model.limits import BROKER_TAKE_BACK_S, FOREIGN_CONNECTION_GRACE_S, MAX_VERSION_CHARS
from pytubemq.model.names import check_broker_host, check_port, shown

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytubemq.master.brokers.broker_run import BrokerRun

_FORM = "brokerId:host:port[:version]"


_MAX_ID_DIGITS: Final = 10
"""The longest Broker id in digits, since Python refuses to read a number of thousands of digits."""


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """A Broker as its registration names it."""

    info: BrokerInfo
    tls_port: int
    version: str

    @property
    def broker_id(self) -> int:
        """The Broker's id."""
        return self.info.broker_id

    @property
    def address(self) -> Address:
        """The address that the registration names."""
        return self.info.address

    @classmethod
    def parse(cls, client_id: str, tls_port: int) -> BrokerIdentity:
        """Read a Broker's client id.

        Raises:
            Refused: 400, it is not a Broker's client id, or some client could not connect to its address.
        """
        text = check_client_id(client_id, in_lists=True)
        head, _, rest = text.partition(":")
        host, bracket, rest = rest[1:].partition("]:") if rest.startswith("[") else rest.partition(":")
        port, _, version = rest.partition(":")
        if not (bracket and _is_number(head) and _is_number(port)):
            raise Refused(Code.BAD_REQUEST, f"clientId {text[:200]!r} of a Broker must be {_FORM}")
        if len(version) > MAX_VERSION_CHARS:
            raise Refused(
                Code.BAD_REQUEST,
                f"the version of broker {head} has {len(version)} characters, {MAX_VERSION_CHARS} are allowed",
            )
        try:
            info = BrokerInfo(int(head), Address(host, int(port))).check()
            _check_no_dot_at_end(check_broker_host(host))
            check_port(tls_port, what="TLS port")
        except FormatError as error:
            raise Refused(
                Code.BAD_REQUEST, f"clientId {text[:200]!r} of a Broker: {error.message}; {error.hint}"
            ) from error
        return cls(info, tls_port, version)


def _check_no_dot_at_end(host: str) -> None:
    """`localhost.` would be another Broker than `localhost`, at the same place."""
    if host.endswith("."):
        raise FormatError(f"the host {host} ends with a dot", hint="leave the dot out")


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of one address to a Broker's id, since this Master started."""

    address: Address
    since_s: float
    before: Address | None
    """The address in the record before this one."""
    missing: frozenset[str]
    """Topics that the records placed there when it first registered, and that it did not report then."""
    brings: bool = False
    """True if it registered with a topic that the records place there."""

    def renewed(self, address: Address, placed: Collection[str], topics: Collection[str], now_s: float) -> Claim:
        """Return the claim after a registration of `address` with these topics."""
        missing = frozenset(placed).difference(topics)
        if address == self.address:
            missing |= self.missing.intersection(placed)
            brings = self.brings or not missing.issuperset(placed)
            return Claim(address, self.since_s, self.before, missing, brings)
        before = None if address == self.before else self.address  # who came back has nobody to give way to
        return Claim(address, now_s, before, missing, not missing.issuperset(placed))

    def gives_way(self, run: BrokerRun, address: Address, topics: Collection[str], now_s: float) -> bool:
        """True if the registered Broker has no topic of its own and the newcomer has the better claim.

        The newcomer has it if it returns to the record's previous address in time, or reports topics that the
        registered Broker did not have. A Java Broker does not report its topics when it registers, so it only gives way
        to a returning address.
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
    """Refuse another connection that registers a live Broker, unless it comes from the same machine or from the host
    that the address names.

    Raises:
        Refused: 400, the Broker is alive elsewhere.
    """
    if source not in (run.source, run.address.host):
        raise Refused(
            Code.BAD_REQUEST,
            f"broker {run.broker_id} is registered from {run.source} and alive, and this comes from {source}; "
            "give this one another id, or stop the other",
        )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10


def parse_broker_id(text: str) -> int:
    """Return the id that a request names. Raises Refused: 400, it is none."""
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_ID_DIGITS:
        raise Refused(Code.BAD_REQUEST, f"brokerId {shown(text)} is not the number of a Broker")
    return int(text)
