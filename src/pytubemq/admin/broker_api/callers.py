"""The callers of a Broker's HTTP.

The invariant: a Broker has neither passwords nor tokens of users, so where access is enforced only its own token
counts.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from pytubemq.model.names import escaped
from pytubemq.net.server.peer_warnings import PeerWarnings
from pytubemq.security.authentication_mode import AuthenticationMode

if TYPE_CHECKING:
    from pytubemq.broker.service import BrokerService
    from pytubemq.master.access.http.http_access import HttpIdentity

logger = logging.getLogger(__name__)


class BrokerCallers:
    """The callers of one Broker: whoever has the server's own token, and nobody else."""

    def __init__(self, broker: BrokerService) -> None:
        self._broker = broker
        self._warnings = PeerWarnings(logger, "http access")

    @property
    def mode(self) -> AuthenticationMode:
        """Enforced where the Master enforces access, else off."""
        return AuthenticationMode.ENFORCED if self._broker.enforces_access else AuthenticationMode.OFF

    def by_token(self, text: str) -> HttpIdentity | None:
        """Return None: no user's token is known here."""
        return None

    async def by_oidc_token(self, text: str, host: str) -> HttpIdentity | None:
        """Return None: no issuer is known here."""
        return None

    def by_session(self, token: str) -> HttpIdentity | None:
        """Return None: nobody signs in here."""
        return None

    def warn(self, text: str) -> None:
        """Log what was refused; the number of lines is bounded."""
        self._warnings.warning(escaped(text), time.monotonic())
