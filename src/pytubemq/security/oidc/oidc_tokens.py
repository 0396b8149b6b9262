"""Access tokens of an OIDC issuer: signed JWTs (RFC 7519), and whom they name.

The invariants: nothing of a token counts before its signature is verified by a key that the settings pin, with the
algorithm of that key; issuer, audience, expiry and start are there and right; a token beyond the limit is not parsed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pytubemq.model.limits import MAX_OIDC_TOKEN_CHARS, OIDC_LEEWAY_S
from pytubemq.model.names import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.security.oidc.issuer_keys import IssuerKeys, TokenKey

_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""Types of a JWT that grants access; others, as of a logout, are signed with the same keys."""
_LATEST_S: Final = 1e11
"""A time beyond the year 5000, which only an error can mean."""


class OidcTokenError(Exception):
    """A refused access token; `reason` is for this server's log and audit trail, and not for the caller."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The demands on a token.

    Args:
        issuer: the exact value of `iss`.
        audience: a value of `aud`.
        user_claim: the claim that names the user.
        users: users by values of that claim; if there are any, no other value gets in.
    """

    issuer: str
    audience: str
    user_claim: str = "sub"
    users: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """Whom a verified token names; `expires_s` is its expiry in seconds since 1970."""

    user: str
    expires_s: float


def is_signed_token(text: str) -> bool:
    """True if a text has the form of a signed JWT, which no other token here has: three parts with dots between."""
    return text.count(".") == 2


def verify_token(text: str, keys: IssuerKeys, rules: TokenRules, *, now_s: float) -> VerifiedToken:
    """Return whom an access token names; `now_s` are seconds since 1970.

    Raises:
        OidcTokenError: it is refused.
    """
    if len(text) > MAX_OIDC_TOKEN_CHARS:
        raise OidcTokenError(f"it has {len(text):,} characters, at most {MAX_OIDC_TOKEN_CHARS:,} are read")
    claims = _verified_claims(text, _key_of(text, keys), rules)
    expires_s = _check_times(claims, now_s)
    value = claims.get(rules.user_claim)
    if not isinstance(value, str) or not value:
        raise OidcTokenError(f"its claim {rules.user_claim} is {'missing' if value is None else 'not a text'}")
    user = rules.users.get(value) if rules.users else value
    if user is None:
        raise OidcTokenError(f"its claim {rules.user_claim} is {shown(value)}, which security.oidc_users does not name")
    return VerifiedToken(user, expires_s)


def _key_of(text: str, keys: IssuerKeys) -> TokenKey:
    """Return the key that the header names. Raises OidcTokenError: there is none, or not for such a token."""
    import jwt

    try:
        header = jwt.get_unverified_header(text)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise OidcTokenError("it is not a JWT") from None
    if "crit" in header or header.get("b64", True) is not True:
        raise OidcTokenError("it has header fields that must be obeyed, and none are known (crit, b64)")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise OidcTokenError(f"its type is {shown(str(kind))}, which is not that of an access token")
    key = keys.find(header.get("kid"))
    if key is None:
        named = "no key" if header.get("kid") is None else f"the key {shown(str(header['kid']))}"
        raise OidcTokenError(f"it names {named}, which is not in the file of security.oidc_keys")
    if header.get("alg") != key.algorithm:
        raise OidcTokenError(f"its algorithm is {shown(str(header.get('alg')))}, and its key is for {key.algorithm}")
    return key


def _verified_claims(text: str, key: TokenKey, rules: TokenRules) -> dict[str, Any]:
    """Return the claims of a token of the right signature, issuer and audience. Raises OidcTokenError."""
    import jwt

    try:
        return jwt.decode(
            text,
            key.key,
            algorithms=[key.algorithm],
            issuer=rules.issuer,
            audience=rules.audience,
            # Times are judged by the Master's clock, below.
            options={"require": ["exp", "iss", "aud"], "verify_exp": False, "verify_nbf": False, "verify_iat": False},
        )
    except jwt.InvalidSignatureError:
        raise OidcTokenError(f"its signature is not of the key {shown(key.key_id)}") from None
    except jwt.MissingRequiredClaimError as error:
        raise OidcTokenError(f"it has no claim {error.claim}") from None
    except jwt.InvalidIssuerError:
        raise OidcTokenError(f"its issuer (iss) is not {rules.issuer}") from None
    except jwt.InvalidAudienceError:
        raise OidcTokenError(f"its audience (aud) is not {rules.audience}") from None
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise OidcTokenError("its claims are malformed") from None


def _check_times(claims: Mapping[str, Any], now_s: float) -> float:
    """Return the expiry. Raises OidcTokenError: it is over, the token counts later, or a time is missing.

    A token that does not say from when it counts (nbf), as those of many issuers, counts from when it was made (iat).
    """
    start = "nbf" if "nbf" in claims else "iat"
    expires_s, starts_s = _time(claims, "exp"), _time(claims, start)
    if now_s >= expires_s + OIDC_LEEWAY_S:
        raise OidcTokenError(f"it expired {now_s - expires_s:,.0f} s ago")
    if now_s < starts_s - OIDC_LEEWAY_S:
        raise OidcTokenError(f"it counts only in {starts_s - now_s:,.0f} s ({start}): compare the clocks")
    return expires_s


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if value is None:
        raise OidcTokenError("it has neither of the claims nbf and iat" if name == "iat" else f"it has no claim {name}")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST_S:
        raise OidcTokenError(f"its claim {name} is not a time in seconds")
    return float(value)
