"""Visit tokens of one client each, for consumers that send a Broker no other token.

A Java consumer's registration at a Broker carries a visit token alone: it signs only after a Broker has asked it to in
the response to a heartbeat, and sends none before it has registered. So its visit token identifies its user.

The invariants: a token is valid for one user, one client id and a limited time; none is made from another.

The number has 63 bits: 12 that narrow down its user, and 51 of an HMAC-SHA256 over user, epoch and client id.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from pytubemq.security.client_token import TOKEN_LIFE_S, ClientIdentity
from pytubemq.security.token_keys import CLIENT_KEY_PERIOD_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytubemq.security.token_keys import ClientKey

_MAC_BITS: Final = 51
_HINT_BITS: Final = 12
_MOST: Final = (1 << (_MAC_BITS + _HINT_BITS)) - 1


def issue_visit_token(key: ClientKey, identity: ClientIdentity, client_id: str) -> int:
    """Return the visit token of one client, a positive number of at most 63 bits."""
    return max(1, user_hint(identity.user) << _MAC_BITS | _mac(key, identity, client_id))


def hint_of(token: int) -> int | None:
    """Return the `user_hint` of a visit token's user; None if it is no such token."""
    return token >> _MAC_BITS if 0 < token <= _MOST else None


def user_hint(user: str) -> int:
    """Return the number by which a Broker finds the few users that a token may be of."""
    return int.from_bytes(hashlib.sha256(user.encode()).digest()[:8], "big") & ((1 << _HINT_BITS) - 1)


def find_visitor(
    keys: Sequence[ClientKey], token: int, client_id: str, candidates: Iterable[ClientIdentity], *, now_s: float
) -> ClientIdentity | None:
    """Return the candidate that a visit token identifies; None if it is forged, another client's, or too old."""
    oldest = (now_s - TOKEN_LIFE_S) // CLIENT_KEY_PERIOD_S
    shown = _bytes(token)
    current = [key for key in keys if key.period >= oldest]
    found = [
        identity
        for identity in candidates
        for key in current
        if hmac.compare_digest(shown, _bytes(issue_visit_token(key, identity, client_id)))
    ]
    return found[0] if found else None


def _mac(key: ClientKey, identity: ClientIdentity, client_id: str) -> int:
    # A client token's text begins with its version, and none of the parts but the last contains a blank.
    user = base64.urlsafe_b64encode(identity.user.encode()).decode()
    digest = hmac.new(key.value, f"visit {identity.epoch} {user} {client_id}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - _MAC_BITS)


def _bytes(token: int) -> bytes:
    return b"%d" % token
