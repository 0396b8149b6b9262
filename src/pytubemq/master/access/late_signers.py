"""Consumers that sign only when they are asked to, as the Java client does.

A Java consumer registers without a signature and signs the heartbeat that follows a response with `requireAuth`. The
invariants: until then it is no member and gets neither a partition nor a token; what waits is bounded in number, bytes
and time.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

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


@dataclass(frozen=True, slots=True)
class Waiting:
    """A registration that waits for its signature."""

    request: Any
    size_bytes: int
    until_s: float


class LateSigners:
    """Registrations that wait for a signed heartbeat, the oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, request: Any, size_bytes: int) -> None:
        """Let a registration wait.

        Raises:
            Refused: too many wait.
        """
        self.take(request.client_id)
        self._drop_overdue()
        if len(self._waiting) >= MAX_WAITING or self._bytes + size_bytes > MAX_WAITING_BYTES:
            raise Refused(
                Code.CERTIFICATE_FAILURE, "too many consumers wait to authenticate; sign the registration, or try again"
            )
        self._waiting[request.client_id] = Waiting(request, size_bytes, self._clock.now_s() + WAIT_S)
        self._bytes += size_bytes

    def is_waiting(self, client_id: str) -> bool:
        """True if a consumer's registration waits for its signature."""
        self._drop_overdue()
        return client_id in self._waiting

    def take(self, client_id: str, certificate: MasterCertificateInfo | None = None) -> Any:
        """Remove a registration and return it, with this certificate; None if there is none."""
        waiting = self._waiting.pop(client_id, None)
        if waiting is None:
            return None
        self._bytes -= waiting.size_bytes
        return replace(waiting.request, auth_info=certificate)

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
            _, waiting = self._waiting.popitem(last=False)
            self._bytes -= waiting.size_bytes


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
