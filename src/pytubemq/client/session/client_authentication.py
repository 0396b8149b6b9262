"""A client's signatures to the Master, and the tokens that it shows Brokers.

The invariants: each request to a Master is signed anew, so a Master of the original and ours accept it alike; a secret
leaves this process in no form but a signature.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pytubemq.model.ids import UNDEFINED
from pytubemq.security.signature import MAX_NONCE
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
from pytubemq.wire.protocol.messages.master import AuthenticateInfo, MasterCertificateInfo

if TYPE_CHECKING:
    from pytubemq.security.credentials import Credentials
    from pytubemq.wire.protocol.messages.master import MasterAuthorizedInfo

_MAX_CLIENTS: Final = 100_000
"""Clients of one connection to a cluster whose tokens are kept; beyond it the oldest gets its token again."""


class ClientAuthentication:
    """The tokens of the clients of one `Tube`, and their signatures if there are credentials."""

    def __init__(self, credentials: Credentials | None) -> None:
        self._credentials = credentials
        self._nonce = random.SystemRandom()
        self._visit_token = UNDEFINED
        self._own: dict[str, str] = {}
        self._infos: dict[str, AuthorizedInfo] = {}

    @property
    def visit_token(self) -> int:
        """The token that shows a Broker that the Master knows this client."""
        return self._visit_token

    def certificate(self) -> MasterCertificateInfo | None:
        """Return the signature of one request to a Master; None without credentials."""
        if self._credentials is None:
            return None
        timestamp_ms, nonce = time.time_ns() // 1_000_000, self._nonce.randint(0, MAX_NONCE)
        return MasterCertificateInfo(
            auth_info=AuthenticateInfo(
                user_name=self._credentials.user,
                timestamp=timestamp_ms,
                nonce=nonce,
                oth_params="",
                signature=self._credentials.sign(timestamp_ms=timestamp_ms, nonce=nonce),
            )
        )

    def signed(self, message: Any) -> Any:
        """Return a request to a Master with its signature; without credentials as it is."""
        certificate = self.certificate()
        return message if certificate is None else replace(message, auth_info=certificate)

    def learn(self, info: MasterAuthorizedInfo | None, client_id: str) -> None:
        """Store the tokens of a Master's response to a client."""
        if info is None:
            return
        if info.visit_authorized_token > 0 and info.visit_authorized_token != self._visit_token:
            self._visit_token = info.visit_authorized_token
            self._infos.clear()
        own = (info.auth_authorized_token or "").strip()
        if own and own != self._own.get(client_id):
            self._own.pop(client_id, None)
            if len(self._own) >= _MAX_CLIENTS:
                oldest = next(iter(self._own))
                del self._own[oldest]
                self._infos.pop(oldest, None)
            self._own[client_id] = own
            self._infos.pop(client_id, None)

    def token_of(self, client_id: str) -> str:
        """Return the token that the Master issued to a client; blank if it issued none."""
        return self._own.get(client_id, "")

    def set_visit_token(self, token: int) -> None:
        """Take over a visit token of another process."""
        self._visit_token = token
        self._infos.clear()

    def auth_info_of(self, client_id: str) -> AuthorizedInfo:
        """Return what a client's requests to Brokers carry; the same object until a token changes.

        A Java Master issues no token of the client's own; its Brokers take any text there, and Java consumers show the
        form that is made here.
        """
        info = self._infos.get(client_id)
        if info is None:
            own = self._own.get(client_id) or self._signature_text()
            info = self._infos[client_id] = AuthorizedInfo(
                visit_authorized_token=self._visit_token, auth_authorized_token=own
            )
        return info

    def _signature_text(self) -> str | None:
        certificate = self.certificate()
        if certificate is None or certificate.auth_info is None:
            return None
        info = certificate.auth_info
        return f"{info.user_name} {info.timestamp} {info.nonce} {info.signature}"
