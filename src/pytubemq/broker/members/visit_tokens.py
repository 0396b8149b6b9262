"""Admission of clients by the visit tokens that the Master gives to them.

The invariants: no token is required unless the Master requires it; while the Master cannot be reached, and shortly
after a registration, an unknown token counts as one that is too new (the original's rules, since tokens change and
reach clients and Brokers at different times); no token is ever logged or returned.
"""

from __future__ import annotations

import hmac
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code

if TYPE_CHECKING:
    from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
    from pytubemq.wire.protocol.messages.master import EnableBrokerFunInfo

_TOKENS_KEPT: Final = 6
_MAX_TEXT_CHARS: Final = 1024
NEW_TOKENS_S: Final = 120.0
"""The time after a registration in which every token passes (the original's visitTokenCheckInValidTimeMs)."""


@dataclass(slots=True)
class VisitTokens:
    """The checks of clients that the Master requires. `now_s` comes in."""

    tokens_checked: bool = False
    producers_named: bool = False
    consumers_named: bool = False
    """True if a client must send an `authAuthorizedToken`; its content is not verified, as in the original."""
    in_touch: bool = False
    """True if the Master responded to the last heartbeat."""
    _registered_s: float = 0.0
    _tokens: deque[bytes] = field(default_factory=lambda: deque(maxlen=_TOKENS_KEPT))

    def record_registration(self, asked: EnableBrokerFunInfo | None, *, now_s: float) -> None:
        """Record a registration, with the checks that the Master requires (none, if it does not name any)."""
        self._registered_s = now_s
        self.in_touch = True
        # A Master without these settings requires nothing.
        self.tokens_checked = asked is not None and bool(asked.enable_visit_token_check)
        self.producers_named = asked is not None and asked.enable_produce_authenticate
        self.consumers_named = asked is not None and asked.enable_consume_authenticate

    def learn(self, text: str) -> None:
        """Replace the Master's tokens, separated by commas; malformed ones are skipped."""
        # The Master is not trusted with the Broker's memory.
        for item in text[:_MAX_TEXT_CHARS].split(","):
            token = item.strip().encode()
            # Tokens are signed numbers. The last six stay known, as a client may still have an older one.
            if token.removeprefix(b"-").isdigit() and token not in self._tokens:
                self._tokens.append(token)

    def knows(self, token: int) -> bool:
        """True if a token is one of the latest that the Master gave out. Takes the same time for every wrong one."""
        shown = b"%d" % token
        # A list and no generator: the time it takes must not show which token came close.
        return any([hmac.compare_digest(shown, known) for known in self._tokens])

    @property
    def asks_producers(self) -> bool:
        """True if a producer's request must be checked."""
        return self.tokens_checked or self.producers_named

    def check_producer(self, info: AuthorizedInfo | None, *, now_s: float) -> None:
        """Refuse a producer that is not admitted, with 415."""
        self._check(info, named=self.producers_named, now_s=now_s)

    def check_consumer(self, info: AuthorizedInfo | None, *, now_s: float) -> None:
        """Refuse a consumer that is not admitted, with 415."""
        self._check(info, named=self.consumers_named, now_s=now_s)

    def _check(self, info: AuthorizedInfo | None, *, named: bool, now_s: float) -> None:
        # While there is no Master, its new tokens reach clients and not this Broker.
        is_checked = self.tokens_checked and self.in_touch and now_s - self._registered_s > NEW_TOKENS_S
        if is_checked and not self.knows(info.visit_authorized_token if info is not None else 0):
            raise Refused(
                Code.CERTIFICATE_FAILURE,
                "the visit token is not one the Master gives out; register at the Master and use its token",
            )
        if named and not (info is not None and (info.auth_authorized_token or "").strip()):
            raise Refused(
                Code.CERTIFICATE_FAILURE,
                "the cluster asks its clients to authenticate, and the request has no authAuthorizedToken",
            )
