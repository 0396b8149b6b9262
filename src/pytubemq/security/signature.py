"""Signatures of the protocol: a user proves that it has its secret.

The invariant: a comparison of signatures takes the same time whether the first or the last character differs.

The form is the original's: `urlencode(base64(HMAC-SHA1(key = secret, text = user + timestamp + nonce)))`, numbers as
decimal text. It covers none of the request's other fields, so a signature is valid for one request and a short time:
see `replay_window`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus

if TYPE_CHECKING:
    from pytubemq.security.secret import Secret

MAX_NONCE: Final = 2**31 - 2
"""The largest nonce; the original's client draws one from 0 to this."""
MAX_SIGNATURE_CHARS: Final = 96
"""No signature is longer: 28 characters in base64, each of which may be escaped as three."""


def sign(user: str, secret: Secret, *, timestamp_ms: int, nonce: int) -> str:
    """Return the signature of a user at a time, in ms since 1970."""
    text = f"{user}{timestamp_ms}{nonce}".encode()
    digest = hmac.new(secret.reveal().encode(), text, hashlib.sha1).digest()
    return quote_plus(base64.b64encode(digest))


def is_signature(signature: str, user: str, secret: Secret, *, timestamp_ms: int, nonce: int) -> bool:
    """True if `signature` is the user's for this time and nonce. Takes the same time for every wrong one."""
    expected = sign(user, secret, timestamp_ms=timestamp_ms, nonce=nonce).encode()
    return hmac.compare_digest(signature[:MAX_SIGNATURE_CHARS].encode(), expected)
