"""Secrets of users as they are stored: encrypted with a key that is not in the database.

The invariants: whoever has the database alone has no secret; a sealed secret opens only with the same key and for the
same user, and any changed byte is noticed.

The form: `1:<base64 of a nonce of 12 bytes and AES-256-GCM's output>`, with the user's name authenticated.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.security.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_VERSION: Final = "1:"
_NONCE_BYTES: Final = 12


class Sealer:
    """Encrypts and decrypts secrets with a key derived from the root key."""

    def __init__(self, root: bytes, random_bytes: Callable[[int], bytes]) -> None:
        """Raise ConfigError if the extra `secure` is not installed."""
        self._cipher = _cipher(hmac.new(root, b"pytubemq sealed secrets", hashlib.sha256).digest())
        self._random_bytes = random_bytes

    def seal(self, user: str, secret: Secret) -> str:
        """Return the secret of a user, encrypted."""
        nonce = self._random_bytes(_NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, secret.reveal().encode(), user.encode())
        return _VERSION + base64.b64encode(nonce + sealed).decode()

    def open(self, user: str, sealed: str) -> Secret:
        """Return the secret of a user.

        Raises:
            ConfigError: it was sealed with another key or for another user, or is damaged.
        """
        from cryptography.exceptions import InvalidTag

        try:
            if not sealed.startswith(_VERSION):
                raise ValueError
            text = sealed.removeprefix(_VERSION)
            raw = base64.b64decode(text, validate=True)
            if base64.b64encode(raw).decode() != text:  # the last character has bits that decoding ignores
                raise ValueError
            return Secret(self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], user.encode()).decode())
        except (InvalidTag, ValueError, binascii.Error):
            raise ConfigError(
                f"the stored secret of user {user} does not open with this Master's key",
                hint="restore the key file that belongs to this data, or give the user a new secret:  "
                f"pytubemq user rotate {user}",
            ) from None  # what the cipher says helps nobody


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise ConfigError(
            "users with secrets need the package cryptography, which is not installed",
            hint="pip install 'pytubemq[secure]'",
        ) from error
    return AESGCM(key)
