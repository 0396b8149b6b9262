"""Calls to the leading Master.

The invariant: one call goes to each Master at most once, beginning with the one that responded last; the caller gets
the result of the last one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from pytubemq.errors import (
    ConfigError,
    ConnectionLostError,
    RemoteError,
    RequestTimeoutError,
    StandbyError,
    TlsError,
    TransportError,
    TubeError,
    UnreachableError,
)
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.model.ids import DEFAULT_MASTER_PORT
from pytubemq.net.client.request_signer import RequestSigner
from pytubemq.wire.rpc.methods import Service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.model.ids import Address
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.net.client.pool import ConnectionPool

logger = logging.getLogger(__name__)

T = TypeVar("T")

NO_MASTER = f"No service {int(Service.MASTER)} found"
"""The error of a server that is not a Master, for a Master's service; ours and the original's are alike."""
_PORT = f"port {DEFAULT_MASTER_PORT} unless it was set otherwise"
_AWAY_HINT = (
    "check the address; for a cluster on this machine run  pytubemq dev  (with --secure it is reached over TLS only, "
    "at the tls:// address that it prints)"
)


def parse_masters(text: str) -> tuple[Address, ...]:
    """Return the Masters in a cluster's address (`ClusterAddress.parse`)."""
    return ClusterAddress.parse(text).masters


class MasterClient:
    """Requests to the leading Master, with fail-over."""

    def __init__(self, masters: Sequence[Address], pool: ConnectionPool, signer: RequestSigner | None = None) -> None:
        """Requests are signed by `signer`; without one they are sent as they are."""
        if not masters:
            raise ConfigError(
                "no Master address given", hint="write host:port[,host:port...], for example 127.0.0.1:8715"
            )
        self._masters = list(masters)
        self._pool = pool
        self._signer = signer or RequestSigner()
        self._current = 0

    @property
    def current(self) -> Address:
        """The Master that is tried first."""
        return self._masters[self._current]

    def peek(self) -> RpcConnection | None:
        """Return the live connection to the current Master, if there is one."""
        return self._pool.peek(self.current)

    async def connect(self) -> RpcConnection:
        """Return a connection to the first reachable Master; only its responses show if it leads.

        Raises:
            UnreachableError: none could be reached; names each with its reason.
        """
        failures: list[tuple[Address, TubeError]] = []
        for _ in self._masters:
            try:
                return await self._pool.get(self.current)
            except TransportError as error:
                failures.append((self.current, error))
                self._current = (self._current + 1) % len(self._masters)
        raise _failure(failures) from failures[-1][1]

    async def request(self, message: object, response_type: type[T], method: int, *, timeout_s: float) -> T:
        """Send a request to the Masters in turn until one responds.

        Raises:
            UnreachableError: none could be reached; names each with its reason.
            TransportError, StandbyError, RemoteError: the last one's error, when at least one was reached.
        """
        failures: list[tuple[Address, TubeError]] = []
        for _ in self._masters:
            address = self.current
            connection: RpcConnection | None = None
            try:
                connection = await self._pool.get(address)
                return await connection.request(
                    self._signer.signed(message), response_type, method, Service.MASTER, timeout_s=timeout_s
                )
            except ConnectionLostError as error:
                if connection is not None and not connection.knows_capabilities:
                    error.hint = _other_port(address)
                failures.append((address, error))
                self._current = (self._current + 1) % len(self._masters)
            except RequestTimeoutError as error:
                if (
                    connection is not None and not connection.knows_capabilities
                ):  # an HTTP server waits for the end of a line
                    error.hint = f"it may be overloaded or gone; or {_other_port(address)}"
                failures.append((address, error))
                self._current = (self._current + 1) % len(self._masters)
            except (TransportError, StandbyError) as error:
                failures.append((address, error))
                self._current = (self._current + 1) % len(self._masters)
            except RemoteError as error:
                if error.retriable or error.at_work:
                    failures.append((address, error))
                    self._current = (self._current + 1) % len(self._masters)
                    continue
                if NO_MASTER not in error.message:
                    raise
                raise RemoteError(
                    f"{address} is not a Master (it is probably a Broker)",
                    exception_name=error.exception_name,
                    hint=f"give the Master's address, {_PORT}",
                ) from error
        raise _failure(failures) from failures[-1][1]


def _other_port(address: Address) -> str:
    return f"is {address} the port of a Master ({_PORT}), and not that of TLS (write tls://) or of the JSON API?"


def _failure(failures: Sequence[tuple[Address, TubeError]]) -> TubeError:
    last = failures[-1][1]
    if not all(isinstance(error, UnreachableError) for _, error in failures):
        return last
    reasons = "; ".join(error.message for _, error in failures)
    if refused := [error for _, error in failures if isinstance(error, TlsError)]:
        return TlsError(f"no Master can be reached: {reasons}", hint=refused[-1].hint)
    return UnreachableError(
        f"no Master can be reached: {reasons}",
        hint=_AWAY_HINT,
    )
