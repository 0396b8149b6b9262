"""The access tokens of an OIDC issuer at one Master.

The invariants: a token is verified at its first use, and again after a minute at most; keys that changed count at once,
also for tokens that were verified before; of a token only its hash is kept; memory is bounded.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pytubemq.model.limits import MAX_OIDC_TOKEN_CHARS, MAX_VERIFIED_TOKENS, OIDC_VERIFIED_S
from pytubemq.security.oidc.oidc_tokens import verify_token

if TYPE_CHECKING:
    from pytubemq.net.clock import Clock
    from pytubemq.security.oidc.issuer_keys import IssuerKeys
    from pytubemq.security.oidc.oidc_tokens import TokenRules


class KeySource(Protocol):
    """The place that has the issuer's keys, which may change."""

    @property
    def keys(self) -> IssuerKeys:
        """The keys in force."""
        ...

    @property
    def problem(self) -> str | None:
        """The reason why changed keys are not in force; None if they are."""
        ...


@dataclass(frozen=True, slots=True)
class _Verified:
    user: str
    until_s: float
    """On the clock that never jumps."""


class OidcTokens:
    """The tokens of one issuer."""

    def __init__(self, rules: TokenRules, source: KeySource, clock: Clock, *, most: int = MAX_VERIFIED_TOKENS) -> None:
        self._rules = rules
        self._source = source
        self._clock = clock
        self._most = most
        self._keys = source.keys
        self._verified: dict[bytes, _Verified] = {}
        """By the hash of the token, the one that was verified first at the beginning."""

    @property
    def problem(self) -> str | None:
        """The reason why changed keys are not in force; None if they are."""
        return self._source.problem

    def user_of(self, text: str) -> str:
        """Return the user that a token names, whether or not there is such a user.

        Raises:
            OidcTokenError: the token is refused.
        """
        if self._source.keys is not self._keys:
            self._keys = self._source.keys
            self._verified.clear()
        now_s = self._clock.now_s()
        key = hashlib.sha256(text[: MAX_OIDC_TOKEN_CHARS + 1].encode(errors="surrogatepass")).digest()
        known = self._verified.get(key)
        if known is not None and now_s < known.until_s:
            return known.user
        self._verified.pop(key, None)
        wall_s = self._clock.wall_ms() / 1000
        token = verify_token(text, self._keys, self._rules, now_s=wall_s)
        while len(self._verified) >= self._most:
            del self._verified[next(iter(self._verified))]
        until_s = now_s + min(OIDC_VERIFIED_S, token.expires_s - wall_s)
        self._verified[key] = _Verified(token.user, until_s)
        return token.user
