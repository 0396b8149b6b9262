"""Consumers that sign only when they are asked to, as the Java client does.

A Java consumer registers without a signature and signs the heartbeat that follows a response with `requireAuth`. The
invariants: until then it is no member and gets neither a partition nor a token; what waits is bounded in number, bytes
and time, and one host cannot take all places; who signs over one connection does not sign what came over another.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.master.responses import OK
from pytubemq.wire.protocol.messages.master import (
    HeartResponseM2C,
    HeartResponseM2CV2,
    OpsTaskInfo,
    RegisterResponseM2C,
    RegisterResponseM2CV2,
)

if TYPE_CHECKING:
    from pytubemq.net.clock import Clock
    from pytubemq.net.server.call import Connection
    from pytubemq.wire.protocol.messages.master import MasterCertificateInfo

WAIT_S: Final = 60.0
"""The time in which the signed heartbeat must come; a Java client sends one every 13 s."""
MAX_WAITING: Final = 1_000
MAX_WAITING_BYTES: Final = 8 << 20
_CONTEXT: Final = "signed late"
_Key = tuple[int, str]
"""Identity of the connection, and the client's id."""


class Caller(Protocol):
    """The connection that a registration came over."""

    @property
    def peer(self) -> str:
        """Host and port."""
        ...

    @property
    def closed(self) -> bool:
        """True if it is over."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """A registration that waits for its signature, which counts over the same connection only."""

    request: Any
    size_bytes: int
    until_s: float
    connection: Caller
    """Held, so that no later connection is taken for it."""

    @property
    def host(self) -> str:
        """The host that it came from."""
        return host_of(self.connection)


class LateSigners:
    """Registrations that wait for a signed heartbeat, the oldest first.

    When all places are taken, those whose connection is over go, then the oldest of the host that has most, if that has
    clearly more than the newcomer's.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: OrderedDict[_Key, Waiting] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, request: Any, size_bytes: int, connection: Caller) -> None:
        """Let a registration wait.

        Raises:
            Refused: too many wait.
        """
        key = (id(connection), request.client_id)
        self._remove(key)
        self._drop_overdue()
        while len(self._waiting) >= MAX_WAITING or self._bytes + size_bytes > MAX_WAITING_BYTES:
            if size_bytes > MAX_WAITING_BYTES or not self._make_room(host_of(connection)):
                raise Refused(
                    Code.CERTIFICATE_FAILURE,
                    "too many consumers wait to authenticate; sign the registration, or try again",
                )
        self._waiting[key] = Waiting(request, size_bytes, self._clock.now_s() + WAIT_S, connection)
        self._bytes += size_bytes

    def is_waiting(self, connection: Caller, client_id: str) -> bool:
        """True if a registration that a consumer sent over this connection waits for its signature."""
        self._drop_overdue()
        return (id(connection), client_id) in self._waiting

    def take(self, connection: Caller, client_id: str, certificate: MasterCertificateInfo | None = None) -> Any:
        """Remove a registration and return it, with this certificate; None if there is none."""
        waiting = self._remove((id(connection), client_id))
        return None if waiting is None else replace(waiting.request, auth_info=certificate)

    def _make_room(self, newcomer: str) -> bool:
        """Remove what may go for a newcomer of this host; return False if nothing may."""
        closed = [key for key, waiting in self._waiting.items() if waiting.connection.closed]
        for key in closed:
            self._remove(key)
        if closed:
            return True
        counts = Counter(waiting.host for waiting in self._waiting.values())
        most = max(counts, key=counts.__getitem__)
        if counts[most] < 2 * (counts[newcomer] + 1):
            return False
        self._remove(next(key for key, waiting in self._waiting.items() if waiting.host == most))
        return True

    def _remove(self, key: _Key) -> Waiting | None:
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            self._bytes -= waiting.size_bytes
        return waiting

    def record_signed(self, connection: Connection, client_id: str) -> None:
        """Record that a consumer has signed a request whose response has no token."""
        signed = connection.context.setdefault(_CONTEXT, {})
        if len(signed) >= MAX_WAITING:
            signed.clear()
        signed[client_id] = self._clock.now_s() + WAIT_S

    def take_signed(self, connection: Connection, client_id: str) -> bool:
        """True if a consumer has signed such a request over this connection a moment ago; true once."""
        until_s = connection.context.get(_CONTEXT, {}).pop(client_id, 0.0)
        return bool(self._clock.now_s() < until_s)

    def _drop_overdue(self) -> None:
        now_s = self._clock.now_s()
        while self._waiting and next(iter(self._waiting.values())).until_s <= now_s:
            self._remove(next(iter(self._waiting)))


def host_of(connection: Caller) -> str:
    """Return the host of a connection's peer."""
    return connection.peer.rpartition(":")[0]


def shows_token_alone(certificate: MasterCertificateInfo | None) -> bool:
    """True if a client knows of authentication and shows its token, blank before it has one, instead of a signature."""
    return certificate is not None and certificate.auth_info is None


def is_unsigned(certificate: MasterCertificateInfo | None) -> bool:
    """True if a client knows of authentication and shows neither a signature nor a token yet."""
    return (
        certificate is not None and shows_token_alone(certificate) and not (certificate.authorized_token or "").strip()
    )


def asked_to_sign(request: Any) -> Any:
    """Return the response that asks a consumer for a signature, and gives it nothing."""
    match type(request).__name__:
        case "RegisterRequestC2M":
            return RegisterResponseM2C(success=True, err_code=Code.SUCCESS, err_msg=OK, not_allocated=True)
        case "RegisterRequestC2MV2":
            return RegisterResponseM2CV2(
                err_code=Code.SUCCESS, err_msg=OK, ops_task_info=OpsTaskInfo(require_auth=True)
            )
        case "HeartRequestC2M":
            return HeartResponseM2C(
                success=True, err_code=Code.SUCCESS, err_msg=OK, not_allocated=True, require_auth=True
            )
    return HeartResponseM2CV2(err_code=Code.SUCCESS, err_msg=OK, ops_task_info=OpsTaskInfo(require_auth=True))
