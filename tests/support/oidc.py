"""An OIDC issuer: its keys, the file of the public ones, and the tokens that it signs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER: Final = "https://issuer.example/realms/tube"
AUDIENCE: Final = "tubemq"


@dataclass(frozen=True)
class SigningKey:
    """A private key with its id and algorithm."""

    key_id: str
    algorithm: str
    private: Any

    def public(self) -> dict[str, Any]:
        """The entry of the public key in a JWKS."""
        algorithms: dict[str, Any] = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}
        algorithm = algorithms[self.algorithm]
        entry = json.loads(algorithm.to_jwk(self.private.public_key()))
        return {**entry, "kid": self.key_id, "use": "sig", "alg": self.algorithm}

    def sign(self, claims: dict[str, Any], **headers: Any) -> str:
        """A token; a header of None is left out."""
        named = {"kid": self.key_id, **headers}
        wanted = {name: value for name, value in named.items() if value is not None}
        return jwt.PyJWS().encode(json.dumps(claims).encode(), self.private, self.algorithm, wanted)


def rsa_key(key_id: str = "rsa", bits: int = 2048) -> SigningKey:
    return SigningKey(key_id, "RS256", rsa.generate_private_key(public_exponent=65537, key_size=bits))


def ec_key(key_id: str = "ec") -> SigningKey:
    return SigningKey(key_id, "ES256", ec.generate_private_key(ec.SECP256R1()))


def ed_key(key_id: str = "ed") -> SigningKey:
    return SigningKey(key_id, "EdDSA", ed25519.Ed25519PrivateKey.generate())


def jwks(*keys: SigningKey) -> bytes:
    """The file with the public keys."""
    return json.dumps({"keys": [key.public() for key in keys]}).encode()


def claims(now_s: float, **others: Any) -> dict[str, Any]:
    """Claims that are right at this time; one of None is left out."""
    found: dict[str, Any] = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann"}
    found |= {"iat": int(now_s), "nbf": int(now_s), "exp": int(now_s) + 300, **others}
    return {name: value for name, value in found.items() if value is not None}
