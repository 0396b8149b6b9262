"""What every producer, consumer and reader of one `Tube` shares: connections, the Master, the Brokers' addresses.

The invariants: one connection per peer, whoever uses it; an answer with another code than 200 is an error here, so
that nobody above can forget to look; every call has an end.
"""

from __future__ import annotations

import asyncio
import ipaddress
import random
import time
from typing import TYPE_CHECKING, Protocol, TypeVar

from pytubemq.client.events import Connected, Event, EventQueue, Lost
from pytubemq.client.look import Known
from pytubemq.client.process import check_generation, generation, new_client_id
from pytubemq.core.retry import Backoff
from pytubemq.errors import ClosedError, Code, RefusedError, TransportError, UnavailableError, refused
from pytubemq.model.ids import UNDEFINED, Address
from pytubemq.net.masters import MasterClient
from pytubemq.net.pool import ConnectionPool
from pytubemq.net.probe import probed
from pytubemq.wire.messages.broker import AuthorizedInfo
from pytubemq.wire.methods import Method, Service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.options import ConnectOptions
    from pytubemq.model.ids import BrokerInfo
    from pytubemq.net.connection import RpcConnection
    from pytubemq.wire.extensions import Capability
    from pytubemq.wire.messages.master import MasterAuthorizedInfo

RECONNECT = Backoff(first_s=0.05, most_s=1.0)


class Answer(Protocol):
    """What every business answer has."""

    @property
    def err_code(self) -> int: ...
    @property
    def err_msg(self) -> str | None: ...


A = TypeVar("A", bound=Answer)


def check(answer: A, *, hint: str | None = None) -> A:
    """The answer, if it says 200.

    Raises:
        RefusedError: the class that belongs to its code.
    """
    if answer.err_code != Code.SUCCESS:
        raise refused(answer.err_code, answer.err_msg or "", hint=hint)
    return answer


class Cluster:
    """The way to a cluster's Masters and Brokers."""

    def __init__(self, masters: Sequence[Address], options: ConnectOptions) -> None:
        self.options = options
        self.pool = ConnectionPool()
        self.masters = MasterClient(masters, self.pool)
        self.events = EventQueue()
        self.rng = random.random
        self.host = "127.0.0.1"
        self.sent_addr = 0
        self.brokers: dict[int, Address] = {}
        """Where each Broker was last known to be; one that the Master no longer names keeps its last address."""
        self.visit_token = UNDEFINED
        """What shows a Broker that the Master knows us; the Master renews it with its answers."""
        if options.known is not None:
            self.learn(options.known)
        self.closed = False
        self.made_in = generation()
        """In which process, as `check_generation` wants it."""

    async def open(self) -> None:
        """Reach a Master; not yet where another process has told what is to be known.

        Raises:
            UnreachableError: none answers, and `first_connect` is "fail".
        """
        if self.options.known is not None:
            return
        attempt = 0
        while True:
            try:
                connection = await self._any_master()
                break
            except TransportError as error:
                if self.options.first_connect == "fail":
                    raise
                attempt += 1
                if attempt == 1:
                    self.events.put(Lost(self.options.client_name, error))
                await asyncio.sleep(RECONNECT.delay_s(attempt, self.rng))
        self.host = connection.local_host
        self.sent_addr = ipv4_as_int(self.host)

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        self.closed = True
        await self.pool.close()
        self.events.close()

    def check_usable(self) -> None:
        """Refuse use after close and in a forked child."""
        check_generation(self.made_in)
        if self.closed:
            raise ClosedError("the connection is closed", hint="connect again")

    def client_id(self, *, group: str | None = None, kind: str | None = None) -> str:
        """A new one."""
        return new_client_id(self.host, group=group, kind=kind, name=self.options.client_name)

    def emit(self, event: Event) -> None:
        """Tell whoever listens."""
        self.events.put(event)

    # --- the Master -----------------------------------------------------------------------------------------

    def master_has(self, capability: Capability) -> bool:
        """Whether the Master that is asked next has shown a capability."""
        connection = self.masters.peek()
        return connection is not None and capability in connection.capabilities

    def learn_token(self, told: MasterAuthorizedInfo | None) -> None:
        """Take the visit token that an answer of the Master brings."""
        if told is not None and told.visit_authorized_token > 0:
            self.visit_token = told.visit_authorized_token

    @property
    def known(self) -> Known:
        """What another process can begin with."""
        brokers = tuple((broker, address.host, address.port) for broker, address in sorted(self.brokers.items()))
        return Known(brokers, self.visit_token)

    def learn(self, known: Known) -> None:
        """Take what another process knows, which is newer than what this one does."""
        self.visit_token = known.visit_token
        self.brokers.update({broker: Address(host, port) for broker, host, port in known.brokers})

    @property
    def auth_info(self) -> AuthorizedInfo:
        """What every request to a Broker carries."""
        return AuthorizedInfo(visit_authorized_token=self.visit_token)

    async def ask_master(self, message: object, response_type: type[A], method: Method, *, wait_s: float = 0.0) -> A:
        """Ask the leading Master; `wait_s` is how long it may hold the answer on purpose."""
        answer = await self.masters.request(
            message, response_type, method, timeout_s=self.options.request_timeout_s + wait_s
        )
        return check(answer)

    # --- the Brokers ----------------------------------------------------------------------------------------

    def learn_brokers(self, brokers: Sequence[BrokerInfo]) -> None:
        """Take the addresses that the Master or an event names."""
        for broker in brokers:
            self.brokers[broker.broker_id] = broker.address

    def address_of(self, broker_id: int) -> Address:
        """Where a Broker is.

        Raises:
            UnavailableError: no Master has named it yet.
        """
        address = self.brokers.get(broker_id)
        if address is None:
            raise UnavailableError(
                f"Broker {broker_id} is not known to the Master",
                hint="it is not running, or has not registered yet",
                code=Code.SERVICE_UNAVAILABLE,
            )
        return address

    async def ask_broker(
        self,
        connection: RpcConnection,
        message: object,
        response_type: type[A],
        method: Method,
        *,
        service: Service = Service.BROKER_READ,
        timeout_s: float | None = None,
    ) -> A:
        """Ask a Broker; the business code is checked."""
        answer = await connection.request(
            message, response_type, method, service, timeout_s=timeout_s or self.options.request_timeout_s
        )
        return check(answer)

    async def probed(self, address: Address, *, client_id: str) -> RpcConnection:
        """A connection whose capabilities are known."""
        return await probed(
            self.pool,
            address,
            client_id=client_id,
            timeout_s=self.options.request_timeout_s,
            auth_info=self.auth_info,
        )

    async def _any_master(self) -> RpcConnection:
        connection = await self.masters.connect()
        self.events.put(Connected(self.options.client_name, connection.peer))
        return connection


def now_s() -> float:
    """Monotonic seconds, the event loop's clock."""
    return time.monotonic()


def ipv4_as_int(host: str) -> int:
    """The four octets as a signed 32-bit number, as `sentAddr` wants them; loopback for anything else."""
    try:
        packed = ipaddress.IPv4Address(host).packed
    except ValueError:
        packed = bytes((127, 0, 0, 1))
    return int.from_bytes(packed, "big", signed=True)


def is_refusal(error: BaseException, *codes: int) -> bool:
    """Whether `error` is an answer with one of these codes."""
    return isinstance(error, RefusedError) and error.code in codes
