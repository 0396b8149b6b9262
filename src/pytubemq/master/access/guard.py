"""The check before each of the Master's methods: who calls, whose client it is, and whether that is permitted.

The invariants: where authentication is enforced, no method is served to a caller without an identity and a permission,
and none is served that has no row in `RPC_PERMISSIONS`; where it is permissive, everything is served, and what would be
refused is logged.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.master.access.authenticator import Unidentified
from pytubemq.model.names import escaped
from pytubemq.net.server.peer_warnings import PeerWarnings
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.security.permissions import CLUSTER_NAME, Operation, ResourceKind, is_allowed
from pytubemq.security.refusals import RefusalReason, Refusals
from pytubemq.security.rpc_permissions import RPC_PERMISSIONS, Need, Subject
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.master.access.accounts import Accounts
    from pytubemq.master.access.authenticator import Authenticator
    from pytubemq.master.access.sessions import ClientKey, Sessions
    from pytubemq.net.clock import Clock
    from pytubemq.net.server.call import Call
    from pytubemq.security.client_token import ClientIdentity

logger = logging.getLogger(__name__)

_KINDS: Final = {"PRODUCER": "producer", "CONSUMER": "consumer", "GET": "consumer", "BROKER": "broker"}
_REGISTRATIONS: Final = frozenset(
    {
        Method.PRODUCER_REGISTER_P2M,
        Method.CONSUMER_REGISTER_C2M,
        Method.CONSUMER_REGISTER_C2M_V2,
        Method.BROKER_REGISTER_B2M,
    }
)


@dataclass(frozen=True, slots=True)
class Caller:
    """An identified caller; `registers` is true if its request registers a client."""

    key: ClientKey
    identity: ClientIdentity
    registers: bool


class Guard(Protocol):
    """The check before a method."""

    refusals: Refusals
    """The refusals, also those that permissive access only counts."""

    def check(self, method: Method, call: Call, request: Any) -> Caller | None:
        """Return who calls, or refuse a request that is not permitted; None if nobody asks who it is.

        Raises:
            Refused: the caller is not identified (415) or lacks a permission (401, for consumers 450).
        """
        ...

    def sees_topic(self, key: ClientKey, topic: str) -> bool:
        """True if a topic may be named to a registered client that has not asked for it."""
        ...


class OpenGuard:
    """The guard of a cluster without authentication: everything is permitted."""

    def __init__(self) -> None:
        self.refusals = Refusals()

    def check(self, method: Method, call: Call, request: Any) -> Caller | None:
        """Permit the request."""
        return None

    def sees_topic(self, key: ClientKey, topic: str) -> bool:
        """Return True."""
        return True


class AccessGuard:
    """The guard of a cluster with authentication."""

    def __init__(
        self,
        authenticator: Authenticator,
        accounts: Accounts,
        sessions: Sessions,
        clock: Clock,
        *,
        mode: AuthenticationMode,
    ) -> None:
        self._authenticator = authenticator
        self._accounts = accounts
        self._sessions = sessions
        self._clock = clock
        self._enforced = mode is AuthenticationMode.ENFORCED
        self.refusals = Refusals()
        self._warnings = PeerWarnings(logger, "access")

    def check(self, method: Method, call: Call, request: Any) -> Caller | None:
        """Return who calls; refuse what is not permitted, or log that it would be. Raises Refused."""
        key = client_key_of(method, request)
        try:
            identity = self._authenticator.identify(request.auth_info, key[1])
            self._sessions.check_owner(key, identity)
            self._check_permissions(method, request, identity)
        except Refused as refused:
            self.refusals.record(_kind_of(refused), enforced=self._enforced)
            self._log(method, call, key, refused)
            if self._enforced:
                raise
            return None
        return Caller(key, identity, registers=method in _REGISTRATIONS)

    def sees_topic(self, key: ClientKey, topic: str) -> bool:
        """True if a topic may be named to a client: its user may `describe` it, or everything is served."""
        if not self._enforced:
            return True
        identity = self._sessions.get(key)
        if identity is None or not self._accounts.is_current(identity):
            return False
        return is_allowed(self._accounts.permissions(identity.user), Operation.DESCRIBE, ResourceKind.TOPIC, topic)

    def _check_permissions(self, method: Method, request: Any, identity: ClientIdentity) -> None:
        granted = self._accounts.permissions(identity.user)
        for need in RPC_PERMISSIONS[method]:
            operation, kind = need.operation, need.kind
            if operation is None or kind is None:
                continue
            for name in _names(need, request):
                if not is_allowed(granted, operation, kind, name):
                    raise Refused(
                        Code.UNAUTHORIZED if key_kind(method) != "consumer" else Code.CONSUME_GROUP_FORBIDDEN,
                        f"user {identity.user} lacks the permission {operation} on "
                        f"{'the cluster' if kind is ResourceKind.CLUSTER else f'{kind} {name}'}; an administrator "
                        f"grants it with `pytubemq permission grant {identity.user} {operation} {kind}"
                        f"{'' if kind is ResourceKind.CLUSTER else f' {name}'}`",
                    )

    def _log(self, method: Method, call: Call, key: ClientKey, refused: Refused) -> None:
        reason = getattr(refused, "reason", refused.refusal.text)
        verdict = "refused" if self._enforced else "would be refused"
        self._warnings.warning(
            escaped(f"{method.name} of {key[0]} {key[1][:200]} from {call.peer} {verdict}: {reason}"),
            self._clock.now_s(),
        )


def _kind_of(refused: Refused) -> RefusalReason:
    """Return the reason to count a refusal under."""
    if isinstance(refused, Unidentified):
        return refused.kind
    is_owned = refused.refusal.code == Code.CERTIFICATE_FAILURE
    return RefusalReason.OTHERS_CLIENT if is_owned else RefusalReason.PERMISSION


def key_kind(method: Method) -> str:
    """Return the kind of client that calls a method."""
    return _KINDS[method.name.partition("_")[0]]


def client_key_of(method: Method, request: Any) -> ClientKey:
    """Return the client that a request is about; a Broker's is its number, which its client id begins with."""
    kind = key_kind(method)
    if kind == "broker":
        text = request.broker_id if hasattr(request, "broker_id") else request.client_id.partition(":")[0]
        number = text.strip()
        return kind, number.lstrip("0") or number[-1:]  # zeros before a number make no other Broker
    return kind, request.client_id.strip()


def _names(need: Need, request: Any) -> Iterable[str]:
    if need.subject is Subject.THE_CLUSTER:
        return (CLUSTER_NAME,)
    if need.subject is Subject.ITS_GROUP:
        return (request.group_name.strip(),)
    return tuple(topic for text in getattr(request, "topic_list", ()) if (topic := text.strip()))
