"""The connections, the Master and the Brokers' addresses that all clients of one `Tube` share.

The invariants: one connection per peer, whoever uses it; a response with another code than 200 is an error here, so
that no caller can forget to check it; every call ends.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import random
import time
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pytubemq.client.client_credentials import find_credentials
from pytubemq.client.partition_state import Known
from pytubemq.client.session.client_authentication import ClientAuthentication
from pytubemq.client.session.event_log import EventLog
from pytubemq.client.session.events import Connected, Event, Lost
from pytubemq.client.session.process import check_fork, current_fork, new_client_id
from pytubemq.core.retry import Backoff
from pytubemq.errors import ClosedError, Code, RefusedError, TlsError, TransportError, UnavailableError, refused
from pytubemq.model.ids import DEFAULT_BROKER_PORT, DEFAULT_BROKER_TLS_PORT, Address
from pytubemq.net.client.masters import MasterClient
from pytubemq.net.client.pool import ConnectionPool
from pytubemq.net.client.probe import probed
from pytubemq.net.client.request_signer import RequestSigner
from pytubemq.security.client_token import DERIVED, TOKEN_LIFE_S
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.text.broker_strings import parse_broker_info

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.options import ConnectOptions
    from pytubemq.model.ids import BrokerInfo
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.wire.protocol.extensions import Capability
    from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
    from pytubemq.wire.protocol.messages.master import MasterAuthorizedInfo

RECONNECT = Backoff(first_s=0.05, most_s=1.0)
OLD_TOKEN: Final = (
    "this process has a client token instead of the secret, which ends when the user gets another secret and, unless "
    f"it is renewed, after {TOKEN_LIFE_S // 3_600} hours: start the job or the task again"
)
"""The hint of a refusal for a process that was given a token."""


class StatusResponse(Protocol):
    """The code and the text of every response."""

    @property
    def err_code(self) -> int: ...
    @property
    def err_msg(self) -> str | None: ...


A = TypeVar("A", bound=StatusResponse)


def check(response: A, *, hint: str | None = None) -> A:
    """Return the response if its code is 200.

    Raises:
        RefusedError: the class that belongs to its code.
    """
    if response.err_code != Code.SUCCESS:
        raise refused(response.err_code, response.err_msg or "", hint=hint)
    return response


class Cluster:
    """The connections to a cluster's Masters and Brokers."""

    def __init__(self, options: ConnectOptions) -> None:
        self.options = options
        self.pool = ConnectionPool(tls=options.tls)
        self._shared = shared_client(options)
        signer = (
            RequestSigner(find_credentials(options.credentials, options.user, os.environ))
            if self._shared is None
            else RequestSigner(token=self._shared.client_token)
        )
        self.masters = MasterClient(options.masters, self.pool, signer)
        self.events = EventLog()
        self.rng = random.random
        self.host = "127.0.0.1"
        self.sent_addr = 0
        self.brokers: dict[int, Address] = {}
        """The last known address of each Broker, also of one that the Master no longer names."""
        self.authentication = ClientAuthentication(signer)
        if options.known is not None:
            self.learn(options.known)
        self.closed = False
        self.made_in = current_fork()
        """The process it was made in, for `check_fork`."""

    async def open(self) -> None:
        """Connect to a Master; not yet if another process has passed on which Brokers there are.

        Raises:
            UnreachableError: none answers, and `first_connect` is "fail".
            TlsError: one refuses TLS as we have it, which waiting would not change.
        """
        if self.options.known is not None and self.options.known.brokers:
            return
        attempt = 0
        while True:
            try:
                connection = await self._any_master()
                break
            except TransportError as error:
                if self.options.first_connect == "fail" or isinstance(error, TlsError):
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

    @property
    def is_inherited(self) -> bool:
        """True in a forked child: the connections are its parent's, and closing is not for the child."""
        return self.made_in != current_fork()

    def check_usable(self) -> None:
        """Refuse use after close and in a forked child."""
        check_fork(self.made_in)
        if self.closed:
            raise ClosedError("the connection is closed", hint="connect again")

    def client_id(self, *, group: str | None = None, kind: str | None = None) -> str:
        """Return a new client id; with another client's token one for which that token is valid."""
        own = new_client_id(self.host, group=group, kind=kind, name=self.options.client_name)
        return own if self._shared is None else f"{own}{DERIVED}{self._shared.client_id}"

    def emit(self, event: Event) -> None:
        """Emit an event to the user."""
        self.events.put(event)

    # --- the Master -----------------------------------------------------------------------------------------

    def master_has(self, capability: Capability) -> bool:
        """True if the current Master has shown a capability."""
        connection = self.masters.peek()
        return connection is not None and capability in connection.capabilities

    @property
    def visit_token(self) -> int:
        """The token that shows a Broker that the Master knows this client; the Master renews it with its responses."""
        return self.authentication.visit_token

    def learn_token(self, info: MasterAuthorizedInfo | None, client_id: str) -> None:
        """Store the tokens of a Master's response to a client."""
        self.authentication.learn(info, client_id)

    def known(self, client_id: str = "") -> Known:
        """Return the state that another process can begin with, and with which it can act as this client."""
        brokers = tuple((broker, address.host, address.port) for broker, address in sorted(self.brokers.items()))
        return Known(brokers, self.visit_token, client_id, self.authentication.token_of(client_id))

    def learn(self, known: Known) -> None:
        """Take over the state of another process, which is newer; its tokens unless the Master has renewed them."""
        shares = self._shared is not None and self._shared.client_id == known.client_id
        if not shares or self.authentication.take_token(known.client_token):
            self.authentication.set_visit_token(known.visit_token)
        self.brokers.update({broker: Address(host, port) for broker, host, port in known.brokers})

    def auth_info_of(self, client_id: str) -> AuthorizedInfo:
        """Return the tokens that a client's requests to Brokers carry."""
        return self.authentication.auth_info_of(client_id)

    async def call_master(self, message: object, response_type: type[A], method: Method, *, wait_s: float = 0.0) -> A:
        """Send a request to the leading Master; `wait_s` is how long it may hold the response on purpose."""
        response = await self.masters.request(
            message, response_type, method, timeout_s=self.options.request_timeout_s + wait_s
        )
        try:
            return check(response)
        except RefusedError as error:
            if self._shared is not None and error.code == Code.CERTIFICATE_FAILURE:
                error.hint = OLD_TOKEN
            raise

    # --- the Brokers ----------------------------------------------------------------------------------------

    def parse_broker(self, text: str) -> BrokerInfo:
        """Parse an entry of a Master's list of Brokers, where a blank port is the default one of our connections.

        Raises:
            FormatError: it is malformed.
        """
        return parse_broker_info(
            text, default_port=DEFAULT_BROKER_PORT if self.options.tls is None else DEFAULT_BROKER_TLS_PORT
        )

    def learn_brokers(self, brokers: Sequence[BrokerInfo]) -> None:
        """Store the addresses that the Master or an event reports."""
        for broker in brokers:
            self.brokers[broker.broker_id] = broker.address

    def address_of(self, broker_id: int) -> Address:
        """Return the address of a Broker.

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

    async def call_broker(
        self,
        connection: RpcConnection,
        message: object,
        response_type: type[A],
        method: Method,
        *,
        service: Service = Service.BROKER_READ,
        timeout_s: float | None = None,
    ) -> A:
        """Send a request to a Broker and check the code of its response."""
        response = await connection.request(
            message, response_type, method, service, timeout_s=timeout_s or self.options.request_timeout_s
        )
        return check(response)

    async def get_probed(self, address: Address, *, client_id: str) -> RpcConnection:
        """Return a connection whose capabilities are known."""
        return await probed(
            self.pool,
            address,
            client_id=client_id,
            timeout_s=self.options.request_timeout_s,
            auth_info=self.auth_info_of(client_id),
        )

    async def _any_master(self) -> RpcConnection:
        connection = await self.masters.connect()
        self.events.put(Connected(self.options.client_name, connection.peer))
        return connection


def shared_client(options: ConnectOptions) -> Known | None:
    """Return the other process's client whose token replaces the secret; None without one, or with credentials."""
    known = options.known
    return known if known is not None and known.client_token and options.credentials is None else None


def now_s() -> float:
    """Return monotonic seconds, the event loop's clock."""
    return time.monotonic()


def ipv4_as_int(host: str) -> int:
    """Return the four octets as a signed 32-bit number, as in `sentAddr`; loopback for anything else."""
    try:
        packed = ipaddress.IPv4Address(host).packed
    except ValueError:
        packed = bytes((127, 0, 0, 1))
    return int.from_bytes(packed, "big", signed=True)


def is_refusal(error: BaseException, *codes: int) -> bool:
    """True if `error` is a refusal with one of these codes."""
    return isinstance(error, RefusedError) and error.code in codes
