"""A Master's identification of callers, with two users."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytubemq.master.access.accounts import Accounts
from pytubemq.master.access.authenticator import Authenticator
from pytubemq.master.catalogue.catalogue import Catalogue
from pytubemq.model.records import UserRecord
from pytubemq.security.sealing import Sealer
from pytubemq.security.secret import Secret
from pytubemq.security.signature import sign
from pytubemq.wire.protocol.messages.master import AuthenticateInfo, MasterCertificateInfo
from tests.unit.master.groups.room import StandingClock

if TYPE_CHECKING:
    from pytubemq.security.client_token import ClientIdentity

ROOT = bytes(range(32))
SECRETS = {"ann": Secret("a" * 43), "bob": Secret("b" * 43)}


class Place:
    """An authenticator with two users."""

    def __init__(self) -> None:
        self.clock = StandingClock()
        self.catalogue = Catalogue(self.clock)
        self.sealer = Sealer(ROOT, os.urandom)
        for name, secret in SECRETS.items():
            self.catalogue.users[name] = UserRecord(name, sealed_secret=self.sealer.seal(name, secret))
        self.authenticator = Authenticator(Accounts(self.catalogue, self.sealer), ROOT, self.clock)

    def signed(self, user: str = "ann", nonce: int = 1, shift_ms: int = 0) -> AuthenticateInfo:
        timestamp_ms = self.clock.wall_ms() + shift_ms
        return AuthenticateInfo(
            user_name=user,
            timestamp=timestamp_ms,
            nonce=nonce,
            oth_params="",
            signature=sign(user, SECRETS.get(user, Secret("?")), timestamp_ms=timestamp_ms, nonce=nonce),
        )

    def identify(self, info: AuthenticateInfo | None, token: str = "", client_id: str = "c") -> ClientIdentity:
        certificate = MasterCertificateInfo(auth_info=info, authorized_token=token)
        return self.authenticator.identify(certificate, client_id)
