"""Passwords of people who use HTTP, as they are stored: hashed, so that nobody can read them back.

The invariants: equal passwords have different hashes; a check takes the same time whichever character is wrong, and as
long for a user that does not exist.

The form: `scrypt:<log2 n>:<r>:<p>:<salt, base64>:<hash, base64>`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytubemq.security.secret import Secret

SALT_BYTES: Final = 16
MAX_PASSWORD_CHARS: Final = 1024
_LOG2_N, _R, _P = 15, 8, 1
"""32 MiB of memory and some 60 ms a check."""
_MAX_MEMORY_BYTES: Final = 64 << 20


def hash_password(password: Secret, *, salt: bytes) -> str:
    """Return the text to store for a password; `salt` is SALT_BYTES random bytes."""
    digest = _scrypt(password, salt, _LOG2_N, _R, _P)
    return f"scrypt:{_LOG2_N}:{_R}:{_P}:{_text(salt)}:{_text(digest)}"


def is_password(password: Secret, stored: str) -> bool:
    """True if a password is the one that was stored; False also for a text that is not a stored password."""
    try:
        name, log2_n, r, p, salt, digest = stored.split(":")
        if name != "scrypt" or (int(log2_n), int(r), int(p)) != (_LOG2_N, _R, _P):
            raise ValueError
        expected, raw_salt = base64.b64decode(digest, validate=True), base64.b64decode(salt, validate=True)
    except (ValueError, binascii.Error):
        expected, raw_salt = b"", bytes(SALT_BYTES)  # hash all the same: the time does not tell that there is none
    return hmac.compare_digest(_scrypt(password, raw_salt, _LOG2_N, _R, _P), expected)


def _scrypt(password: Secret, salt: bytes, log2_n: int, r: int, p: int) -> bytes:
    text = password.reveal()[:MAX_PASSWORD_CHARS].encode()
    return hashlib.scrypt(text, salt=salt, n=1 << log2_n, r=r, p=p, maxmem=_MAX_MEMORY_BYTES, dklen=32)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
