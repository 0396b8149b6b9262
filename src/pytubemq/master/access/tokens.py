"""Tokens in the Master's responses: the visit token that Brokers ask for, and a client's own.

The invariant: a client gets a token of its own only while it is registered by a user that was identified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytubemq.security.access_rules import MASTER
from pytubemq.security.token_keys import visit_tokens
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
from pytubemq.wire.protocol.messages.master import MasterAuthorizedInfo, MasterBrokerAuthorizedInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.master.access.authenticator import Authenticator
    from pytubemq.master.access.sessions import ClientKey, Sessions
    from pytubemq.net.clock import Clock
    from pytubemq.net.server.call import Connection


class Tokens(Protocol):
    """The tokens of a Master."""

    shares_visit_token: Callable[[], bool]
    """Returns True while a Broker is registered that knows no visit token but the one of all clients."""

    def of_client(self, key: ClientKey, *, shows_visit_token_alone: bool = False) -> MasterAuthorizedInfo:
        """Return the tokens in a response to a producer or a consumer.

        Args:
            key: the client.
            shows_visit_token_alone: True for a Java consumer, which shows a Broker no token of its own.
        """
        ...

    def of_brokers(self) -> MasterBrokerAuthorizedInfo:
        """Return the visit tokens that Brokers accept."""
        ...

    def of_deprecated(self) -> MasterAuthorizedInfo:
        """Return the fresh visit token as early versions of the original sent it to Brokers."""
        ...

    def of_master(self, client_id: str) -> AuthorizedInfo | None:
        """Return the tokens with which the Master itself, under this id, asks its Brokers; None if it needs none."""
        ...


def _always() -> bool:
    return True


class OpenTokens:
    """The tokens of a cluster without authentication: one visit token for as long as the Master runs."""

    def __init__(self, visit_token: int) -> None:
        self.shares_visit_token: Callable[[], bool] = _always
        self._client = MasterAuthorizedInfo(visit_authorized_token=visit_token)
        self._brokers = MasterBrokerAuthorizedInfo(visit_authorized_token=f"{visit_token},{visit_token}")

    def of_client(self, key: ClientKey, *, shows_visit_token_alone: bool = False) -> MasterAuthorizedInfo:
        """Return the visit token."""
        return self._client

    def of_brokers(self) -> MasterBrokerAuthorizedInfo:
        """Return the visit token as the valid and the fresh one."""
        return self._brokers

    def of_deprecated(self) -> MasterAuthorizedInfo:
        """Return the visit token."""
        return self._client

    def of_master(self, client_id: str) -> AuthorizedInfo | None:
        """Return None."""
        return None


class AccessTokens:
    """The tokens of a cluster with authentication."""

    def __init__(self, authenticator: Authenticator, sessions: Sessions, root: bytes, clock: Clock) -> None:
        self._authenticator = authenticator
        self._sessions = sessions
        self._root = root
        self._clock = clock
        self.shares_visit_token: Callable[[], bool] = _always

    def of_client(self, key: ClientKey, *, shows_visit_token_alone: bool = False) -> MasterAuthorizedInfo:
        """Return the valid visit token, and a token of the client's own if its user was identified."""
        valid, _ = visit_tokens(self._root, now_s=self._clock.wall_ms() / 1000)
        identity = self._sessions.get(key)
        own = None if identity is None else self._authenticator.issue(identity, key[1])
        if shows_visit_token_alone and identity is not None and not self.shares_visit_token():
            valid = self._authenticator.issue_visit_token(identity, key[1])
        return MasterAuthorizedInfo(visit_authorized_token=valid, auth_authorized_token=own)

    def of_brokers(self) -> MasterBrokerAuthorizedInfo:
        """Return the valid and the fresh visit token."""
        valid, fresh = visit_tokens(self._root, now_s=self._clock.wall_ms() / 1000)
        return MasterBrokerAuthorizedInfo(visit_authorized_token=f"{valid},{fresh}")

    def of_deprecated(self) -> MasterAuthorizedInfo:
        """Return the fresh visit token."""
        _, fresh = visit_tokens(self._root, now_s=self._clock.wall_ms() / 1000)
        return MasterAuthorizedInfo(visit_authorized_token=fresh)

    def of_master(self, client_id: str) -> AuthorizedInfo | None:
        """Return the valid visit token, and a token of the Master's own."""
        valid, _ = visit_tokens(self._root, now_s=self._clock.wall_ms() / 1000)
        own = self._authenticator.issue(MASTER, client_id)
        return AuthorizedInfo(visit_authorized_token=valid, auth_authorized_token=own)


def consumer_tokens(tokens: Tokens, client_id: str, connection: Connection) -> MasterAuthorizedInfo:
    """Return the tokens for a consumer, in the form that its kind of client shows to Brokers."""
    java = Capability.ACCESS not in connection.capabilities
    return tokens.of_client(("consumer", client_id), shows_visit_token_alone=java)
