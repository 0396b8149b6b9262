"""Sessions of people who signed in with a password.

The invariants: only the hash of a session's token is kept; a session ends when it was idle or open for too long, when
it is closed, and as soon as its user is disabled, removed, or has another secret or password; their number is bounded.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import MAX_HTTP_SESSIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.model.records import UserRecord

IDLE_S: Final = 30 * 60.0
LONGEST_S: Final = 12 * 3600.0
MAX_SESSIONS_OF_USER: Final = 20


@dataclass(slots=True)
class WebSession:
    """One session. `epoch` and `password_hash` are the user's at the time of the sign-in."""

    user: str
    epoch: int
    password_hash: str
    opened_s: float
    used_s: float

    def is_of(self, record: UserRecord | None) -> bool:
        """True if the user is still the one that signed in, enabled and with the same password."""
        return (
            record is not None
            and record.user_enabled
            and record.secret_epoch == self.epoch
            and record.password_hash == self.password_hash
        )


class WebSessions:
    """The sessions at one Master; times in seconds of one clock."""

    def __init__(self, new_token: Callable[[], str], *, most: int = MAX_HTTP_SESSIONS) -> None:
        """`new_token` returns a random text that nobody can guess."""
        self._new_token = new_token
        self._most = most
        self._sessions: dict[str, WebSession] = {}
        """By the hash of the token, the one that was used last at the end."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, record: UserRecord, now_s: float) -> str:
        """Open a session of a user; return its token."""
        self._drop_expired(now_s)
        own = [key for key, session in self._sessions.items() if session.user == record.user]
        for key in own[: max(0, len(own) + 1 - MAX_SESSIONS_OF_USER)]:
            del self._sessions[key]
        while len(self._sessions) >= self._most:
            del self._sessions[next(iter(self._sessions))]
        token = self._new_token()
        self._sessions[_hash(token)] = WebSession(record.user, record.secret_epoch, record.password_hash, now_s, now_s)
        return token

    def find(self, token: str, users: Callable[[str], UserRecord | None], now_s: float) -> WebSession | None:
        """Return the session of a token, which counts as used now; None if there is none (any more)."""
        key = _hash(token)
        session = self._sessions.pop(key, None)
        if session is None or _is_over(session, now_s) or not session.is_of(users(session.user)):
            return None
        session.used_s = now_s
        self._sessions[key] = session
        return session

    def close(self, token: str) -> None:
        """End a session. Idempotent."""
        self._sessions.pop(_hash(token), None)

    def _drop_expired(self, now_s: float) -> None:
        for key in [key for key, session in self._sessions.items() if _is_over(session, now_s)]:
            del self._sessions[key]


def _is_over(session: WebSession, now_s: float) -> bool:
    return now_s - session.used_s >= IDLE_S or now_s - session.opened_s >= LONGEST_S


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
