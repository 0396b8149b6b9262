"""Signatures of requests to a Master, or a client token instead of them.

The invariants: each request is signed anew, since a signature is accepted once; the secret leaves this process only as
a signature. Every request to a Master has the field `auth_info`, so all are signed alike.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytubemq.security.signature import MAX_NONCE
from pytubemq.wire.protocol.messages.master import AuthenticateInfo, MasterCertificateInfo

if TYPE_CHECKING:
    from pytubemq.security.credentials import Credentials


class RequestSigner:
    """The signatures of one user; without credentials and token requests are sent unsigned."""

    def __init__(self, credentials: Credentials | None = None, *, token: str = "") -> None:
        """`token`: the client token of another process of the user, for a client without credentials."""
        self._credentials = credentials
        self.token = token if credentials is None else ""
        self._rng = random.SystemRandom()

    def new_signature(self) -> AuthenticateInfo | None:
        """Return a signature of now; None without credentials."""
        if self._credentials is None:
            return None
        timestamp_ms, nonce = time.time_ns() // 1_000_000, self._rng.randint(0, MAX_NONCE)
        return AuthenticateInfo(
            user_name=self._credentials.user,
            timestamp=timestamp_ms,
            nonce=nonce,
            oth_params="",
            signature=self._credentials.sign(timestamp_ms=timestamp_ms, nonce=nonce),
        )

    def signed(self, message: Any) -> Any:
        """Return a request to a Master with a signature, or with the token."""
        if self.token:
            return replace(message, auth_info=MasterCertificateInfo(authorized_token=self.token))
        signature = self.new_signature()
        return message if signature is None else replace(message, auth_info=MasterCertificateInfo(auth_info=signature))
