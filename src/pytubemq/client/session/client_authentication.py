"""The tokens that clients send to Brokers.

The invariant: a client sends the newest tokens that a Master has issued to it, as one object until a token changes.
A process that works with the client token of another process sends that one for all of its clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.model.ids import UNDEFINED
from pytubemq.security.client_token import issued_s
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo

if TYPE_CHECKING:
    from pytubemq.net.client.request_signer import RequestSigner
    from pytubemq.wire.protocol.messages.master import MasterAuthorizedInfo

_MAX_CLIENTS: Final = 100_000
"""Clients of one connection to a cluster whose tokens are kept; beyond it the oldest gets its token again."""


class ClientAuthentication:
    """The tokens of the clients of one `Tube`."""

    def __init__(self, signer: RequestSigner) -> None:
        self._signer = signer
        self._visit_token = UNDEFINED
        self._own: dict[str, str] = {}
        self._infos: dict[str, AuthorizedInfo] = {}

    @property
    def visit_token(self) -> int:
        """The visit token, by which a Broker sees that the Master knows this client."""
        return self._visit_token

    def learn(self, info: MasterAuthorizedInfo | None, client_id: str) -> None:
        """Store the tokens of a Master's response to a client."""
        if info is None:
            return
        if info.visit_authorized_token > 0 and info.visit_authorized_token != self._visit_token:
            self._visit_token = info.visit_authorized_token
            self._infos.clear()
        own = (info.auth_authorized_token or "").strip()
        if self._signer.token:
            if own and own != self._signer.token:
                self.take_token(own)
            return
        if own and own != self._own.get(client_id):
            self._own.pop(client_id, None)
            if len(self._own) >= _MAX_CLIENTS:
                oldest = next(iter(self._own))
                del self._own[oldest]
                self._infos.pop(oldest, None)
            self._own[client_id] = own
            self._infos.pop(client_id, None)

    def take_token(self, token: str) -> bool:
        """Replace the token that this process was given, unless the given one is newer; return True if replaced."""
        if issued_s(token) < issued_s(self._signer.token):
            return False
        self._signer.token = token
        self._infos.clear()
        return True

    def token_of(self, client_id: str) -> str:
        """Return the client token of a client; blank if the Master has issued none."""
        return self._signer.token or self._own.get(client_id, "")

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
            own = self._signer.token or self._own.get(client_id) or self._signature_text()
            info = self._infos[client_id] = AuthorizedInfo(
                visit_authorized_token=self._visit_token, auth_authorized_token=own
            )
        return info

    def _signature_text(self) -> str | None:
        info = self._signer.new_signature()
        if info is None:
            return None
        return f"{info.user_name} {info.timestamp} {info.nonce} {info.signature}"
