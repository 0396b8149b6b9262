"""Access tokens of an issuer: who gets in, and the one reason for which each other token does not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pytubemq.model.limits import MAX_OIDC_TOKEN_CHARS, OIDC_LEEWAY_S
from pytubemq.security.oidc.issuer_keys import read_issuer_keys
from pytubemq.security.oidc.oidc_tokens import OidcTokenError, TokenRules, is_signed_token, verify_token
from tests.support.oidc import AUDIENCE, ISSUER, SigningKey, claims, ec_key, ed_key, jwks, rsa_key

if TYPE_CHECKING:
    from pytubemq.security.oidc.issuer_keys import IssuerKeys

NOW_S = 1_700_000_000.0
RSA, EC, ED = rsa_key(), ec_key(), ed_key()
KEYS = read_issuer_keys(jwks(RSA, EC, ED), "keys.json")
RULES = TokenRules(ISSUER, AUDIENCE)


def user_of(token: str, keys: IssuerKeys = KEYS, rules: TokenRules = RULES, now_s: float = NOW_S) -> str:
    assert is_signed_token(token)
    return verify_token(token, keys, rules, now_s=now_s).user


def refusal(token: str, keys: IssuerKeys = KEYS, rules: TokenRules = RULES, now_s: float = NOW_S) -> str:
    with pytest.raises(OidcTokenError) as refused:
        user_of(token, keys, rules, now_s)
    return refused.value.reason


def b64(data: bytes | dict[str, Any]) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unsigned(header: dict[str, Any], signature: bytes = b"", **others: Any) -> str:
    return f"{b64(header)}.{b64(claims(NOW_S, **others))}.{b64(signature)}"


@pytest.mark.parametrize("key", [RSA, EC, ED], ids=lambda key: key.algorithm)
def test_a_right_token_names_its_user(key: SigningKey) -> None:
    assert user_of(key.sign(claims(NOW_S))) == "ann"
    assert user_of(key.sign(claims(NOW_S, aud=["other", AUDIENCE]), typ="at+jwt")) == "ann"
    found = verify_token(key.sign(claims(NOW_S)), KEYS, RULES, now_s=NOW_S)
    assert found.expires_s == NOW_S + 300


@pytest.mark.parametrize("key", [RSA, EC, ED], ids=lambda key: key.algorithm)
def test_any_changed_character_is_noticed(key: SigningKey) -> None:
    token = key.sign(claims(NOW_S))
    for place in range(len(token)):
        if token[place] != ".":
            changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
            assert refusal(changed)


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"iss": "https://other.example"}, f"its issuer (iss) is not {ISSUER}"),
        ({"iss": ISSUER + "/"}, f"its issuer (iss) is not {ISSUER}"),
        ({"iss": [ISSUER]}, f"its issuer (iss) is not {ISSUER}"),
        ({"iss": None}, "it has no claim iss"),
        ({"aud": "other"}, f"its audience (aud) is not {AUDIENCE}"),
        ({"aud": ["other"]}, f"its audience (aud) is not {AUDIENCE}"),
        ({"aud": {AUDIENCE: 1}}, f"its audience (aud) is not {AUDIENCE}"),
        ({"aud": None}, "it has no claim aud"),
        ({"exp": None}, "it has no claim exp"),
        ({"exp": NOW_S - OIDC_LEEWAY_S}, "it expired 30 s ago"),
        ({"exp": "soon"}, "its claim exp is not a time in seconds"),
        ({"exp": str(int(NOW_S) + 60)}, "its claim exp is not a time in seconds"),
        ({"exp": True}, "its claim exp is not a time in seconds"),
        ({"exp": float("nan")}, "its claim exp is not a time in seconds"),
        ({"exp": float("inf")}, "its claim exp is not a time in seconds"),
        ({"exp": 10**400}, "its claim exp is not a time in seconds"),
        ({"exp": -1}, "its claim exp is not a time in seconds"),
        ({"nbf": NOW_S + OIDC_LEEWAY_S + 1}, "it counts only in 31 s (nbf): compare the clocks"),
        ({"nbf": None, "iat": NOW_S + OIDC_LEEWAY_S + 1}, "it counts only in 31 s (iat): compare the clocks"),
        ({"nbf": None, "iat": None}, "it has neither of the claims nbf and iat"),
        ({"nbf": [0]}, "its claim nbf is not a time in seconds"),
        ({"sub": None}, "its claim sub is missing"),
        ({"sub": ""}, "its claim sub is not a text"),
        ({"sub": 7}, "its claims are malformed"),
    ],
)
def test_wrong_claims_are_refused_with_their_reason(others: dict[str, Any], reason: str) -> None:
    assert refusal(EC.sign(claims(NOW_S, **others))) == reason


def test_clocks_may_differ_by_the_leeway() -> None:
    token = EC.sign(claims(NOW_S))
    assert user_of(token, now_s=NOW_S + 300 + OIDC_LEEWAY_S - 1) == "ann"
    assert "expired" in refusal(token, now_s=NOW_S + 300 + OIDC_LEEWAY_S)
    assert user_of(token, now_s=NOW_S - OIDC_LEEWAY_S) == "ann"
    assert "counts only" in refusal(token, now_s=NOW_S - OIDC_LEEWAY_S - 1)
    assert user_of(EC.sign(claims(NOW_S, nbf=None))) == "ann"  # many issuers give iat alone


def test_a_key_that_is_not_the_issuers_is_refused() -> None:
    assert refusal(ec_key("ec").sign(claims(NOW_S))) == "its signature is not of the key 'ec'"
    assert refusal(ec_key("other").sign(claims(NOW_S))) == (
        "it names the key 'other', which is not in the file of security.oidc_keys"
    )
    assert (
        refusal(EC.sign(claims(NOW_S), kid=None)) == "it names no key, which is not in the file of security.oidc_keys"
    )
    alone = read_issuer_keys(jwks(EC), "keys.json")
    assert user_of(EC.sign(claims(NOW_S), kid=None), alone) == "ann"
    assert refusal(ec_key().sign(claims(NOW_S), kid=None), alone) == "its signature is not of the key 'ec'"
    assert refusal(ec_key("e\n\x1b" * 500).sign(claims(NOW_S))).isprintable()


@pytest.mark.parametrize("name", ["none", "None", "NONE", "HS256", "RS512", "PS256", "ES384", "", None, 7, ["RS256"]])
def test_no_token_chooses_its_algorithm(name: Any) -> None:
    header = {"typ": "JWT", "kid": "rsa"} if name is None else {"typ": "JWT", "kid": "rsa", "alg": name}
    assert refusal(unsigned(header)) == f"its algorithm is {str(name)!r}, and its key is for RS256"
    assert refusal(unsigned({**header, "alg": "ES256"})) == "its algorithm is 'ES256', and its key is for RS256"


@pytest.mark.parametrize("form", ["pem", "der", "jwk"])
def test_the_public_key_is_no_secret_to_sign_with(form: str) -> None:
    public = RSA.private.public_key()
    secret = {
        "pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "jwk": json.dumps(RSA.public()).encode(),
    }[form]
    text = unsigned({"typ": "JWT", "kid": "rsa", "alg": "HS256"}).rpartition(".")[0]
    token = f"{text}.{b64(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"
    assert refusal(token) == "its algorithm is 'HS256', and its key is for RS256"


def test_a_key_in_the_token_is_not_looked_at() -> None:
    other = ec_key("ec")
    token = other.sign(claims(NOW_S), jwk=other.public(), jku="https://evil.example/keys", x5u="https://evil.example")
    assert refusal(token) == "its signature is not of the key 'ec'"


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"typ": "logout+jwt"}, "its type is 'logout+jwt', which is not that of an access token"),
        ({"typ": 7}, "its type is '7', which is not that of an access token"),
        ({"crit": ["exp"]}, "it is not a JWT"),
        ({"kid": ["ec"]}, "it is not a JWT"),
        ({"b64": False}, "it is not a JWT"),
        ({"b64": "no"}, "it has header fields that must be obeyed, and none are known (crit, b64)"),
        ({"b64": True, "crit": ["b64"]}, "it has header fields that must be obeyed, and none are known (crit, b64)"),
    ],
)
def test_odd_headers_are_refused(headers: dict[str, Any], reason: str) -> None:
    assert refusal(unsigned({"typ": "JWT", "alg": "ES256", "kid": "ec", **headers})) == reason


@pytest.mark.parametrize(
    "token",
    ["..", "a.b.c", "é.é.é", "\ud800.x.y", f"{b64(b'[' * 4000)}.e.f", f"{b64(b'[]')}.{b64(b'{}')}.", "=.=.=", " . . "],
    ids=range(8),
)
def test_what_is_no_jwt_is_refused(token: str) -> None:
    assert refusal(token) == "it is not a JWT"


def test_claims_that_are_no_object_are_refused() -> None:
    for payload in (b"[" * 3000, b"[]", b"", b"\xff", b'{"exp": ' + b"9" * 5000 + b"}"):
        text = f"{b64({'typ': 'JWT', 'alg': 'EdDSA', 'kid': 'ed'})}.{b64(payload)}"
        token = f"{text}.{b64(ED.private.sign(text.encode()))}"
        assert refusal(token) == "its claims are malformed"


def test_a_huge_token_is_not_parsed() -> None:
    token = EC.sign(claims(NOW_S, more="x" * MAX_OIDC_TOKEN_CHARS))
    assert refusal(token) == f"it has {len(token):,} characters, at most 8,192 are read"


def test_another_claim_may_name_the_user_and_a_mapping_lets_nobody_else_in() -> None:
    by_mail = TokenRules(ISSUER, AUDIENCE, "email")
    token = EC.sign(claims(NOW_S, sub="7f3c", email="ann@example.org"))
    assert user_of(token, rules=by_mail) == "ann@example.org"
    assert refusal(EC.sign(claims(NOW_S)), rules=by_mail) == "its claim email is missing"
    mapped = TokenRules(ISSUER, AUDIENCE, "email", {"ann@example.org": "ann"})
    assert user_of(token, rules=mapped) == "ann"
    other = EC.sign(claims(NOW_S, email="admin"))
    assert refusal(other, rules=mapped) == "its claim email is 'admin', which security.oidc_users does not name"
