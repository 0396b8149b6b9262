"""Bearer tokens of users: their form, and their check.

The form: `tmq_<id, 16 hexadecimal digits>_<256 random bits, base64url>`. The id finds the record, which has the SHA-256
of the whole text; so much chance needs no salt and no slow hash.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.model.records import UserTokenRecord

PREFIX: Final = "tmq_"
ID_BYTES: Final = 8
TOKEN_BYTES: Final = 32


def bearer_token(token_id: str, random_text: str) -> str:
    """Return the text of a new token."""
    return f"{PREFIX}{token_id}_{random_text}"


def hash_token(text: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(text.encode()).hexdigest()


def find_token(text: str, tokens: Mapping[str, UserTokenRecord], *, now_ms: int) -> UserTokenRecord | None:
    """Return the record of a token; None if there is none, or it has expired."""
    token_id = text.removeprefix(PREFIX).partition("_")[0] if text.startswith(PREFIX) else ""
    record = tokens.get(token_id)
    stored = "" if record is None else record.token_hash
    if not hmac.compare_digest(hash_token(text), stored) or record is None:
        return None
    return None if 0 < record.expires_ms <= now_ms else record
