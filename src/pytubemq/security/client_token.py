"""Client tokens, which the Master issues to authenticated clients; the protocol's `authAuthorizedToken`.

The invariants: a token is valid for one user, one client and a limited time; with any character changed, or under
another client's id, it is invalid; it contains no secret.

A client may pass its token to processes that work for it: their client ids end in `~` and its id.

The form: `1.<period>.<issued, s>.<user's epoch>.<user, base64>.<HMAC-SHA256, base64>`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.security.token_keys import ClientKey

TOKEN_LIFE_S: Final = 7_200
"""The time for which a token is accepted. Heartbeats renew it; it outlasts an hour without a Master."""
MAX_TOKEN_CHARS: Final = 512
_CLOCK_SLACK_S: Final = 300
"""The most that the clock of a Broker may be behind the Master's."""
_VERSION: Final = "1"
DERIVED: Final = "~"
"""The separator, in a client id, before the id of the client whose token is used."""


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The user of a token, and the epoch of its secret when the token was issued."""

    user: str
    epoch: int


def issue_token(key: ClientKey, identity: ClientIdentity, client_id: str, *, now_s: float) -> str:
    """Return a token for this client."""
    head = f"{_VERSION}.{key.period}.{int(now_s)}.{identity.epoch}.{_text(identity.user.encode())}"
    return f"{head}.{_text(_mac(key, head, client_id))}"


def read_token(keys: Sequence[ClientKey], token: str, client_id: str, *, now_s: float) -> ClientIdentity | None:
    """Return the user of a token; None if it is malformed, forged, another client's, or too old.

    Which of these it was is not returned, as a peer could learn from it."""
    if len(token) > MAX_TOKEN_CHARS or not token.isascii():
        return None
    head, _, mac = token.rpartition(".")
    parts = head.split(".")
    if len(parts) != 5 or parts[0] != _VERSION:
        return None
    period, issued_s, epoch = (int(part) if part.isdecimal() and len(part) <= 18 else -1 for part in parts[1:4])
    key = next((key for key in keys if key.period == period), None)
    if key is None or not hmac.compare_digest(_text(_mac(key, head, client_id)), mac):
        return None
    if not -_CLOCK_SLACK_S <= now_s - issued_s <= TOKEN_LIFE_S:
        return None
    try:
        user = base64.urlsafe_b64decode(parts[4] + "=" * (-len(parts[4]) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return ClientIdentity(user, epoch)


def bound_id(client_id: str) -> str:
    """Return the id of the client whose token a client shows: its own, or the one behind the last `~`."""
    return client_id.rpartition(DERIVED)[2]


def issued_s(token: str) -> int:
    """Return the time at which a token was issued, in s since 1970 by the Master's clock; 0 for any other text.

    Nothing is verified: it is for comparing tokens that a Master has sent."""
    parts = token.split(".")
    return int(parts[2]) if len(parts) == 6 and parts[2].isdecimal() and len(parts[2]) <= 18 else 0


def _mac(key: ClientKey, head: str, client_id: str) -> bytes:
    # The head contains no blank, so the two parts cannot be divided in another way.
    return hmac.new(key.value, f"{head} {bound_id(client_id)}".encode(), hashlib.sha256).digest()


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
