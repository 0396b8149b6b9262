"""The keys of an issuer: what is used, what is left out, and what is refused with its reason."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from pytubemq.errors import ConfigError
from pytubemq.model.limits import MAX_OIDC_KEYS
from pytubemq.security.oidc.issuer_keys import read_issuer_keys
from tests.support.oidc import ec_key, ed_key, jwks, rsa_key

if TYPE_CHECKING:
    from collections.abc import Callable

RSA, EC, ED = rsa_key(), ec_key(), ed_key()


def as_file(*entries: Any) -> bytes:
    return json.dumps({"keys": entries}).encode()


def test_each_key_is_for_the_algorithm_of_its_type() -> None:
    keys = read_issuer_keys(jwks(RSA, EC, ED), "keys.json")
    found = {name: getattr(keys.find(name), "algorithm", None) for name in ("rsa", "ec", "ed", "nosuch")}
    assert found == {"rsa": "RS256", "ec": "ES256", "ed": "EdDSA", "nosuch": None}
    assert keys.find(None) is None  # which of them?
    alone = read_issuer_keys(as_file({**EC.public(), "kid": "one"}), "keys.json")
    assert alone.find(None) is alone.find("one") is not None


def test_keys_for_other_uses_are_left_out() -> None:
    p384 = json.loads(ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP384R1()).public_key()))
    others = [
        {**RSA.public(), "kid": "1", "use": "enc"},
        {**RSA.public(), "kid": "2", "alg": "RS512"},
        {**RSA.public(), "kid": "3", "alg": "PS256"},
        {**RSA.public(), "kid": "4", "alg": ["RS256"]},
        {**EC.public(), "kid": "5", "key_ops": ["encrypt"]},
        {**EC.public(), "kid": "6", "key_ops": "verify"},
        {**p384, "kid": "7"},
        {"kty": "new", "kid": "8"},
        {"kid": "9"},
    ]
    keys = read_issuer_keys(as_file(*others, ED.public()), "keys.json")
    assert len(keys) == 1
    with pytest.raises(ConfigError, match=r"keys.json has no key for RS256, ES256 or EdDSA"):
        read_issuer_keys(as_file(*others), "keys.json")


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    data = jwks(EC)
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(ConfigError, match="need the packages pyjwt and cryptography") as refused:
        read_issuer_keys(data, "keys.json")
    assert refused.value.hint == "pip install 'pytubemq[secure]'"


def _secret_rsa() -> dict[str, Any]:
    return {**json.loads(RSAAlgorithm.to_jwk(RSA.private)), "kid": "rsa"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (lambda: b"", "is not a JWKS"),
        (lambda: b"\xff", "is not a JWKS"),
        (lambda: b"[" * 100_000, "is not a JWKS"),
        (lambda: b'{"keys": {}}', "is not a JWKS"),
        (lambda: b'{"keys": [1]}', "is not a JWKS"),
        (lambda: as_file(), "has no key"),
        (lambda: as_file(_secret_rsa()), "key 1 of keys.json is secret"),
        (lambda: as_file({"kty": "oct", "k": "c2VjcmV0", "kid": "x"}), "key 1 of keys.json is secret"),
        (lambda: jwks(rsa_key(bits=1024)), "has 1024 bits, and RSA keys must have 2048 to 8192"),
        (lambda: jwks(EC, ec_key()), "two keys with the id 'ec'"),
        (lambda: as_file({**EC.public(), "kid": ""}, ED.public()), "one has no id"),
        (lambda: as_file({**EC.public(), "kid": 7}), "key 1 of keys.json has an id"),
        (lambda: as_file({**EC.public(), "x": "AAAA"}), "key 1 of keys.json is malformed"),
        (lambda: as_file({**EC.public(), "y": None}), "key 1 of keys.json is malformed"),
        (lambda: as_file({"kty": "RSA", "kid": "x"}), "key 1 of keys.json is malformed"),
        (lambda: as_file({"kty": "RSA", "kid": "x", "n": 5, "e": []}), "key 1 of keys.json is malformed"),
        (lambda: as_file({**ED.public(), "x": "!"}), "key 1 of keys.json is malformed"),
        (lambda: jwks(*(ec_key(str(number)) for number in range(MAX_OIDC_KEYS + 1))), "has 65 keys"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_reason(data: Callable[[], bytes], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        read_issuer_keys(data(), "keys.json")
    assert refused.value.hint
    secret = json.loads(RSAAlgorithm.to_jwk(RSA.private))["d"]
    assert secret not in str(refused.value)
