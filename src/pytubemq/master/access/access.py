"""The parts of access control of one Master, made for its mode and joined to each other."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.master.access.accounts import Accounts
from pytubemq.master.access.authenticator import Authenticator
from pytubemq.master.access.broker_access import AccessChecks, BrokerChecks, NoChecks
from pytubemq.master.access.guard import AccessGuard, Guard, OpenGuard
from pytubemq.master.access.http.http_access import HttpAccess
from pytubemq.master.access.late_signers import LateSigners
from pytubemq.master.access.sessions import Sessions
from pytubemq.master.access.tokens import AccessTokens, OpenTokens, Tokens
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.security.sealing import Sealer

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.settings import MasterSettings
    from pytubemq.net.clock import Clock

_VISIT_TOKEN_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Access:
    """The access control of one Master."""

    guard: Guard
    tokens: Tokens
    checks: BrokerChecks
    sessions: Sessions
    http: HttpAccess
    late_signers: LateSigners | None = None
    """None where nobody has to sign."""
    sealer: Sealer | None = None
    """None where no secret can be kept."""
    authenticator: Authenticator | None = None
    """None where nobody is identified."""

    async def open(self, data_dir: Path | None) -> None:
        """Read what must outlive a restart of the Master and is no record."""
        if self.authenticator is not None:
            await asyncio.to_thread(self.authenticator.open, data_dir)

    def close(self) -> None:
        """Close what was opened. Idempotent."""
        if self.authenticator is not None:
            self.authenticator.close()


def make_access(catalogue: Catalogue, settings: MasterSettings, clock: Clock) -> Access:
    """Create the access control that the settings ask for.

    Raises:
        ConfigError: the extra `secure` is not installed.
    """
    sessions, root, mode = Sessions(), settings.root_key, settings.authentication
    if root is None or mode is AuthenticationMode.OFF:
        token = max(1, int.from_bytes(os.urandom(_VISIT_TOKEN_BYTES), "big") >> 1)
        sealer = None if root is None else Sealer(root, os.urandom)
        http = HttpAccess(catalogue, None, clock, mode=mode)
        return Access(OpenGuard(), OpenTokens(token), NoChecks(), sessions, http, sealer=sealer)
    sealer = Sealer(root, os.urandom)
    accounts = Accounts(catalogue, sealer)
    authenticator = Authenticator(accounts, root, clock)
    enforced = mode is AuthenticationMode.ENFORCED
    return Access(
        AccessGuard(authenticator, accounts, sessions, clock, mode=mode),
        AccessTokens(authenticator, sessions, root, clock),
        AccessChecks(catalogue, root, clock, enforced=enforced),
        sessions,
        HttpAccess(catalogue, accounts, clock, mode=mode),
        LateSigners(clock) if enforced else None,
        sealer,
        authenticator,
    )
