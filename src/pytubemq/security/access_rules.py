"""Users, permissions and keys as a Broker has them from its Master, to check callers on its own.

The invariant: what is not in the rules is not permitted; rules are replaced as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytubemq.errors import FormatError
from pytubemq.security.client_token import ClientIdentity, read_token
from pytubemq.security.permissions import Operation, Permission, ResourceKind, is_allowed, parse_permission
from pytubemq.security.visit_token import find_visitor, hint_of, user_hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytubemq.security.token_keys import ClientKey

MASTER: Final = ClientIdentity("", 0)
"""The Master itself, which may do everything at its Brokers; no user has a blank name."""


@dataclass(frozen=True, slots=True)
class UserRules:
    """One user: the epoch of its secret, and its permissions."""

    epoch: int
    permissions: tuple[Permission, ...] = ()


@dataclass(frozen=True, slots=True)
class AccessRules:
    """All rules of one version; 0 is none yet."""

    version: int = 0
    enforced: bool = False
    keys: Sequence[ClientKey] = field(default=(), repr=False)
    users: Mapping[str, UserRules] = field(default_factory=dict)
    _by_hint: dict[int, list[ClientIdentity]] = field(init=False, repr=False, compare=False, default_factory=dict)
    """The users by the `user_hint` in their clients' visit tokens."""

    def __post_init__(self) -> None:
        for name, user in self.users.items():
            self._by_hint.setdefault(user_hint(name), []).append(ClientIdentity(name, user.epoch))

    def identify(self, token: str | None, client_id: str, *, now_s: float) -> ClientIdentity | None:
        """Return the user of a client token; None if the token is invalid now."""
        identity = read_token(self.keys, (token or "").strip(), client_id, now_s=now_s)
        return identity if identity is not None and self.is_current(identity) else None

    def is_current(self, identity: ClientIdentity) -> bool:
        """True if a user exists, is enabled and has not got another secret since."""
        if identity == MASTER:
            return True
        user = self.users.get(identity.user)
        return user is not None and user.epoch == identity.epoch

    def identify_visitor(self, visit_token: int, client_id: str, *, now_s: float) -> ClientIdentity | None:
        """Return the user of a client's own visit token; None if it is invalid now, or the one of all clients."""
        hint = hint_of(visit_token)
        candidates = () if hint is None else self._by_hint.get(hint, ())
        return find_visitor(self.keys, visit_token, client_id, candidates, now_s=now_s)

    def is_allowed(self, identity: ClientIdentity, operation: Operation, kind: ResourceKind, name: str) -> bool:
        """True if a user may do something; the Master may do everything."""
        if identity == MASTER:
            return True
        user = self.users.get(identity.user)
        return user is not None and is_allowed(user.permissions, operation, kind, name)


def read_permissions(texts: Iterable[str]) -> tuple[Permission, ...]:
    """Return the permissions written as `operation kind pattern`; those of a later version are left out."""
    found: list[Permission] = []
    for text in texts:
        operation, _, rest = text.partition(" ")
        kind, _, pattern = rest.partition(" ")
        try:
            found.append(parse_permission(operation, kind, pattern))
        except FormatError:
            continue  # less is permitted, never more
    return tuple(found)
