"""The user and the secret with which a client or a Broker signs its requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.security.secret import Secret
from pytubemq.security.signature import sign

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and its secret, which no text of this shows."""

    user: str
    secret: Secret

    @classmethod
    def of(cls, user: str, secret: str | Secret) -> Self:
        """Return credentials from a user and its secret, as a text or as a `Secret`."""
        return cls(user, secret if isinstance(secret, Secret) else Secret(secret))

    def sign(self, *, timestamp_ms: int, nonce: int) -> str:
        """Return the signature of one request."""
        return sign(self.user, self.secret, timestamp_ms=timestamp_ms, nonce=nonce)
