"""Keys for tokens, derived from one root key for each period of time.

The invariants: whoever has the root key derives the same keys at any time, so a Master that starts again, or another
one with the same root key, accepts the tokens of the one before; who has the keys of some periods can derive no other.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

ROOT_KEY_BYTES: Final = 32
CLIENT_KEY_PERIOD_S: Final = 3_600
"""The time for which tokens of clients are issued with one key."""
CLIENT_KEYS_BEFORE: Final = 3
"""Keys of so many earlier periods are still accepted: more than a token's life, two hours, needs."""
VISIT_PERIOD_S: Final = 240
"""The time for which one visit token is the fresh one (the original's: 4/5 of visitTokenValidPeriodMs)."""


@dataclass(frozen=True, slots=True)
class ClientKey:
    """The key of one period; Brokers get those of the periods whose tokens are accepted."""

    period: int
    value: bytes

    def __repr__(self) -> str:
        return f"ClientKey({self.period})"


def client_key(root: bytes, *, now_s: float) -> ClientKey:
    """Return the key that tokens are issued with now."""
    return _client_key(root, int(now_s // CLIENT_KEY_PERIOD_S))


def accepted_keys(root: bytes, *, now_s: float) -> tuple[ClientKey, ...]:
    """Return the keys whose tokens are accepted now, the newest first; the next period's too, as clocks differ."""
    newest = int(now_s // CLIENT_KEY_PERIOD_S) + 1
    return tuple(_client_key(root, period) for period in range(newest, newest - CLIENT_KEYS_BEFORE - 2, -1))


def visit_tokens(root: bytes, *, now_s: float) -> tuple[int, int]:
    """Return the visit tokens that are valid and fresh now, each a positive number of 63 bits.

    Clients get the valid one, which every Broker knows; Brokers get both (`MasterService.proto`)."""
    period = int(now_s // VISIT_PERIOD_S)
    return _visit_token(root, period - 1), _visit_token(root, period)


def _client_key(root: bytes, period: int) -> ClientKey:
    return ClientKey(period, _derive(root, b"client token", period))


def _visit_token(root: bytes, period: int) -> int:
    return max(1, int.from_bytes(_derive(root, b"visit token", period)[:8], "big") >> 1)


def _derive(root: bytes, purpose: bytes, period: int) -> bytes:
    return hmac.new(root, b"pytubemq " + purpose + b" %d" % period, hashlib.sha256).digest()
