"""The public keys of an OIDC issuer, from its JWKS (RFC 7517).

The invariants: a key verifies one algorithm only, which its type determines, so no token can choose another; no key is
secret, so none can sign; an RSA key has a size that is safe, and cheap to verify with.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.model.limits import MAX_OIDC_KEYS
from pytubemq.model.names import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jwt import PyJWK

MIN_RSA_BITS: Final = 2048
MAX_RSA_BITS: Final = 8192
_ALGORITHMS: Final = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}
"""By type and curve of the key."""
_SECRET_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_HINT: Final = "save what the issuer publishes at its `jwks_uri`; its keys for RS256, ES256 and EdDSA are used"


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A key with the one algorithm that it verifies; `key_id` is blank if it has none."""

    key_id: str
    algorithm: str
    key: PyJWK = field(repr=False)


class IssuerKeys:
    """The keys of one issuer."""

    def __init__(self, keys: Mapping[str, TokenKey]) -> None:
        """Without an id there can be one key only."""
        self._keys = dict(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None) -> TokenKey | None:
        """Return the key that a token names; a token that names none (None) is of the only key."""
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)


def read_issuer_keys(data: bytes, where: str) -> IssuerKeys:
    """Return the keys of a JWKS; those for encryption and for other algorithms are left out.

    Args:
        data: the text of the file.
        where: what errors call it.

    Raises:
        ConfigError: it is malformed, has no usable key, one that is weak or secret, or two of the same id; or the extra
            `secure` is not installed.
    """
    found: dict[str, TokenKey] = {}
    for number, one in enumerate(_entries(data, where), 1):
        key = _key(one, f"key {number} of {where}")
        if key is None:
            continue
        if key.key_id in found:
            raise ConfigError(f"{where} has two keys with the id {shown(key.key_id)}", hint=_HINT)
        found[key.key_id] = key
    if not found:
        raise ConfigError(f"{where} has no key for RS256, ES256 or EdDSA", hint=_HINT)
    if "" in found and len(found) > 1:
        raise ConfigError(f"{where} has several keys, and one has no id (kid)", hint=_HINT)
    return IssuerKeys(found)


def _entries(data: bytes, where: str) -> list[dict[str, Any]]:
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError):
        whole = None
    keys = whole.get("keys") if isinstance(whole, dict) else None
    if not isinstance(keys, list) or not all(isinstance(one, dict) for one in keys):
        raise ConfigError(f'{where} is not a JWKS, as in {{"keys": [...]}}', hint=_HINT)
    if len(keys) > MAX_OIDC_KEYS:
        raise ConfigError(f"{where} has {len(keys):,} keys, at most {MAX_OIDC_KEYS} are read", hint="remove old ones")
    return keys


def _key(entry: dict[str, Any], where: str) -> TokenKey | None:
    """Return the key of an entry; None for one that verifies no signatures, or with another algorithm."""
    if not _SECRET_MEMBERS.isdisjoint(entry):
        raise ConfigError(
            f"{where} is secret: whoever can read the file could sign tokens",
            hint="the file must have public keys only; have the issuer make a new key, as this one may be known",
        )
    kind = entry.get("kty")
    algorithm = _ALGORITHMS.get((str(kind), None if kind == "RSA" else str(entry.get("crv"))))
    if algorithm is None or not _is_for(entry, algorithm):
        return None
    key_id = entry.get("kid", "")
    if not isinstance(key_id, str):
        raise ConfigError(f"{where} has an id (kid) that is not text", hint=_HINT)
    return TokenKey(key_id, algorithm, _parsed(entry, algorithm, where))


def _is_for(entry: Mapping[str, Any], algorithm: str) -> bool:
    """True if a key may verify signatures of this algorithm, by what the issuer says of it."""
    uses = entry.get("key_ops", ["verify"])
    names = [algorithm, "Ed25519"] if algorithm == "EdDSA" else [algorithm]
    verifies = isinstance(uses, list) and "verify" in uses
    return verifies and entry.get("use", "sig") == "sig" and entry.get("alg", algorithm) in names


def _parsed(entry: dict[str, Any], algorithm: str, where: str) -> PyJWK:
    try:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
        from jwt import PyJWK, PyJWTError
    except ImportError as error:
        raise ConfigError(
            "access tokens of an OIDC issuer need the packages pyjwt and cryptography, which are not installed",
            hint="pip install 'pytubemq[secure]'",
        ) from error
    try:
        key = PyJWK(entry, algorithm)
    except (PyJWTError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise ConfigError(f"{where} is malformed", hint=_HINT) from None  # the library's error may repeat all of it
    if isinstance(key.key, RSAPublicKey) and not MIN_RSA_BITS <= key.key.key_size <= MAX_RSA_BITS:
        raise ConfigError(
            f"{where} has {key.key.key_size} bits, and RSA keys must have {MIN_RSA_BITS} to {MAX_RSA_BITS}",
            hint="have the issuer make another key",
        )
    return key
