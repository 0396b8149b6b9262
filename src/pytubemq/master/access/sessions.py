"""Which user registered which client.

The invariants: while a client is registered, only the user who registered it may use its id; there is at most one entry
for each registered client, since an entry goes when its client goes.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.security.client_token import bound_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.security.client_token import ClientIdentity

ClientKey = tuple[str, str]
"""The kind of a client (`producer`, `consumer` or `broker`) and its id."""
_CLIENTS: Final = ("producer", "consumer")
"""The kinds whose clients get tokens for Brokers."""


class Sessions:
    """The users of registered clients."""

    def __init__(self) -> None:
        self._identities: dict[ClientKey, ClientIdentity] = {}

    def __len__(self) -> int:
        return len(self._identities)

    def get(self, key: ClientKey) -> ClientIdentity | None:
        """Return who registered a client; None if nobody did."""
        return self._identities.get(key)

    def brokers_of(self, user: str) -> list[int]:
        """Return the numbers of the registered Brokers of a user."""
        return [
            int(client_id)
            for (kind, client_id), identity in self._identities.items()
            if kind == "broker" and identity.user == user
        ]

    def brokers_by_user(self) -> dict[str, list[int]]:
        """Return the numbers of all registered Brokers, by user."""
        found: dict[str, list[int]] = {}
        for (kind, client_id), identity in self._identities.items():
            if kind == "broker":
                found.setdefault(identity.user, []).append(int(client_id))
        return found

    def check_owner(self, key: ClientKey, identity: ClientIdentity) -> None:
        """Refuse the use of a client id that another user registered, with 415.

        So too an id for which the token would be good for another user's client: a token names no kind of client.
        """
        for taken in _named_by_token(key):
            owner = self._identities.get(taken)
            if owner is not None and owner.user != identity.user:
                raise Refused(
                    Code.CERTIFICATE_FAILURE,
                    f"the {taken[0]} id {taken[1]} is in use by another user; choose another one",
                )

    def record(self, key: ClientKey, identity: ClientIdentity) -> None:
        """Record that a client is registered."""
        self._identities[key] = identity

    @contextmanager
    def entered(self, key: ClientKey, identity: ClientIdentity) -> Iterator[None]:
        """Record that a client is registered, unless its registration fails inside."""
        before = self._identities.get(key)
        self._identities[key] = identity
        try:
            yield
        except BaseException:
            if before is None:
                self._identities.pop(key, None)
            else:
                self._identities[key] = before
            raise

    def forget(self, key: ClientKey) -> None:
        """Forget a client that is gone."""
        self._identities.pop(key, None)


def _named_by_token(key: ClientKey) -> tuple[ClientKey, ...]:
    """Return the client itself, and those that could be shown a Broker by the token that it gets."""
    kind, client_id = key
    if kind not in _CLIENTS:
        return (key,)
    return key, *((one, named) for named in {client_id, bound_id(client_id)} for one in _CLIENTS)
