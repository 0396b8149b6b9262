"""Callers over HTTP, and what they are allowed.

The invariants: a refused sign-in says the same, and takes about the same time, for an unknown user as for a wrong
password; passwords are checked off the loop, a few at a time; refused sign-ins, also with access tokens of an OIDC
issuer, are in the audit trail, at a bounded rate.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass
from enum import Enum, unique
from math import ceil
from typing import TYPE_CHECKING, Final

from pytubemq.errors import StorageError
from pytubemq.master.access.http.attempts import Attempts
from pytubemq.master.access.http.bearer import TOKEN_BYTES, find_token
from pytubemq.master.access.http.web_sessions import WebSessions
from pytubemq.master.catalogue.audit_trail import REFUSED, NotedCall, as_text
from pytubemq.model.limits import MAX_SIGN_INS, MAX_USER_CHARS
from pytubemq.model.names import escaped, shown
from pytubemq.net.server.peer_warnings import PeerWarnings
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.security.oidc.oidc_tokens import OidcTokenError
from pytubemq.security.passwords import is_password
from pytubemq.security.permissions import CLUSTER_NAME, Operation, Permission, ResourceKind, is_allowed

if TYPE_CHECKING:
    from pytubemq.master.access.accounts import Accounts
    from pytubemq.master.access.http.oidc import OidcTokens
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.net.clock import Clock
    from pytubemq.security.secret import Secret

logger = logging.getLogger(__name__)

OPERATOR: Final = "@http.token"
"""The name of whoever has the server's own token; no user can have it."""
SIGN_IN: Final = "sign in"
_CHECKS_AT_A_TIME: Final = 2
_NOTED_REFUSALS: Final = 30
_NOTING_PERIOD_S: Final = 600.0


@unique
class Proof(Enum):
    """The way in which a caller has shown who it is."""

    SESSION = "the session of a browser"
    BEARER_TOKEN = "a bearer token of a user"
    OIDC_TOKEN = "an access token of the OIDC issuer"
    HTTP_TOKEN = "the server's own token, `http.token`"


@dataclass(frozen=True, slots=True)
class HttpIdentity:
    """An identified caller, and what it is allowed."""

    user: str
    proof: Proof
    permissions: tuple[Permission, ...] = ()

    def allows(self, operation: Operation, kind: ResourceKind, name: str) -> bool:
        """True if the caller may do this."""
        return is_allowed(self.permissions, operation, kind, name)

    @property
    def is_admin(self) -> bool:
        """True if the caller may change users and permissions."""
        return self.allows(Operation.ADMIN, ResourceKind.CLUSTER, CLUSTER_NAME)


OPERATOR_IDENTITY: Final = HttpIdentity(
    OPERATOR,
    Proof.HTTP_TOKEN,
    (Permission(Operation.ADMIN, ResourceKind.CLUSTER, "*"), Permission(Operation.DESCRIBE, ResourceKind.CLUSTER, "*")),
)
"""Whoever has the server's own token is an administrator."""


class SignInRefusedError(Exception):
    """A wrong user or password."""


class TooManySignInsError(Exception):
    """A sign-in that comes too soon; `retry_after_s` is a whole number."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(retry_after_s)
        self.retry_after_s = retry_after_s


class HttpAccess:
    """The callers of one Master over HTTP."""

    def __init__(
        self, catalogue: Catalogue, accounts: Accounts | None, clock: Clock, *, mode: AuthenticationMode
    ) -> None:
        """Without `accounts` nobody can be identified, as where authentication is off."""
        self.mode = AuthenticationMode.OFF if accounts is None else mode
        self.oidc: OidcTokens | None = None
        """The tokens of an OIDC issuer; None where none are accepted."""
        self.sessions = WebSessions(lambda: secrets.token_urlsafe(TOKEN_BYTES))
        self._catalogue = catalogue
        self._accounts = accounts
        self._clock = clock
        self._attempts = Attempts()
        self._checks = asyncio.Semaphore(_CHECKS_AT_A_TIME)
        self._signing_in = 0
        self._noted_since_s = float("-inf")
        self._noted = 0
        self._warnings = PeerWarnings(logger, "http access")

    # --- who calls ----------------------------------------------------------------------------------------------

    def by_token(self, text: str) -> HttpIdentity | None:
        """Return whose bearer token this is; None if it is nobody's (any more)."""
        record = find_token(text, self._catalogue.user_tokens, now_ms=self._clock.wall_ms())
        return None if record is None else self._identity(record.user, Proof.BEARER_TOKEN)

    async def by_oidc_token(self, text: str, host: str) -> HttpIdentity | None:
        """Return whose access token of the OIDC issuer this is; None if it is refused, which the trail says, too."""
        if self.oidc is None or self._accounts is None:
            return None
        try:
            user = self.oidc.user_of(text)
        except OidcTokenError as error:
            await self._note_token(host, error.reason)
            return None
        identity = self._identity(user, Proof.OIDC_TOKEN)
        if identity is None:
            state = "is disabled" if user in self._catalogue.users else "does not exist at this Master"
            await self._note_token(host, f"user {shown(user, MAX_USER_CHARS)} {state}", user)
        return identity

    def by_session(self, token: str) -> HttpIdentity | None:
        """Return whose session this is; None if it has ended."""
        session = self.sessions.find(token, self._catalogue.users.get, self._clock.now_s())
        return None if session is None else self._identity(session.user, Proof.SESSION)

    def _identity(self, user: str, proof: Proof) -> HttpIdentity | None:
        record = self._catalogue.users.get(user)
        if self._accounts is None or record is None or not record.user_enabled:
            return None
        return HttpIdentity(user, proof, self._accounts.permissions(user))

    # --- signing in ---------------------------------------------------------------------------------------------

    async def sign_in(self, user: str, password: Secret, host: str) -> str:
        """Open a session; return its token.

        Raises:
            SignInRefusedError: the user or the password is wrong, or the user has none or is disabled.
            TooManySignInsError: too many wrong passwords, or too many checks at the same time.
        """
        now_s, key = self._clock.now_s(), user[: MAX_USER_CHARS + 1]  # a longer name is no user's
        if wait_s := self._attempts.wait_s(key, host, now_s):
            raise TooManySignInsError(ceil(wait_s))
        if self._signing_in >= MAX_SIGN_INS:
            raise TooManySignInsError(1)
        self._attempts.begin(key, host, now_s)
        known = self._catalogue.users.get(user)
        stored = "" if known is None else known.password_hash
        self._signing_in += 1
        try:
            async with self._checks:
                valid = await asyncio.to_thread(is_password, password, stored)
        finally:
            self._signing_in -= 1
        record = self._catalogue.users.get(user)  # as it is now: it may have been disabled meanwhile
        if not valid or record is None or not record.user_enabled or record.password_hash != stored:
            self.warn(f"sign-in of {user[:64]!r} from {host} refused")
            await self._note_refusal(f"user {_plain(user)}", host)
            raise SignInRefusedError
        self._attempts.succeeded(user, host)
        return self.sessions.open(record, self._clock.now_s())

    async def _note_token(self, host: str, reason: str, user: str = "") -> None:
        self.warn(f"an access token of the OIDC issuer from {host} is refused: {reason}")
        await self._note_refusal(f"user {_plain(user)}" if user else "OIDC token", host, reason)

    async def _note_refusal(self, target: str, host: str, reason: str = "") -> None:
        now_s = self._clock.now_s()
        if now_s - self._noted_since_s >= _NOTING_PERIOD_S:
            left_out, self._noted, self._noted_since_s = max(0, self._noted - _NOTED_REFUSALS), 0, now_s
        else:
            left_out = 0
        self._noted += 1
        if self._noted > _NOTED_REFUSALS:
            return
        more: dict[str, object] = {"reason": reason} if reason else {}
        if left_out:
            more["not recorded before this one"] = left_out
        await self.note(
            NotedCall(user="", host=host, action=SIGN_IN, target=target, outcome=REFUSED, after=as_text(more))
        )

    async def note(self, call: NotedCall) -> None:
        """Store an entry of the audit trail about what changed no record; the log says if that fails."""
        try:
            await self._catalogue.note(self._catalogue.audit.entry(call))
        except StorageError as error:
            who = call.user or "?"
            logger.error("the audit trail lacks %s by %s from %s: %s", call.action, who, call.host, error.message)

    # --- what is allowed ----------------------------------------------------------------------------------------

    def warn(self, text: str) -> None:
        """Log what was, or would be, refused; the number of lines is bounded."""
        self._warnings.warning(escaped(text), self._clock.now_s())


def _plain(user: str) -> str:
    """Return a name from outside for the trail, where a comma separates targets."""
    return escaped(user[:64]).replace(",", "?") or "?"
