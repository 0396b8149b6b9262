"""Identification of callers, by a signature or by a token that this Master has issued.

The invariants: a signature is verified with the user's secret, counts once, also across a restart, and for a short
time; a refusal says to the caller only what it may know, and takes the same time for an unknown user as for a wrong
secret. The log says the rest.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code, ConfigError
from pytubemq.security.client_token import ClientIdentity, issue_token, read_token
from pytubemq.security.refusals import RefusalReason
from pytubemq.security.replay_window import ReplayWindow
from pytubemq.security.secret import Secret
from pytubemq.security.signature import is_signature
from pytubemq.security.token_keys import accepted_keys, client_key
from pytubemq.security.visit_token import issue_visit_token
from pytubemq.storage.metastore.used_signatures import UsedSignatures

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.master.access.accounts import Accounts
    from pytubemq.net.clock import Clock
    from pytubemq.wire.protocol.messages.master import AuthenticateInfo, MasterCertificateInfo

logger = logging.getLogger(__name__)

USED_SIGNATURES: Final = "used-signatures"
"""The file of used signatures in the Master's data directory."""
_NOBODY: Final = Secret("the secret of a user that does not exist")
_HINT: Final = "give the client a user and its secret (`pytubemq user create` on the Master makes one)"
_WRONG: Final = (
    "the user or its secret is wrong; `pytubemq user list` shows the users and whether they are enabled, and "
    "`pytubemq user rotate NAME --yes` gives one another secret"
)


class Unidentified(Refused):
    """A caller that was not identified; `reason` is for the log, the text for the caller."""

    def __init__(self, kind: RefusalReason, text: str, reason: str) -> None:
        super().__init__(Code.CERTIFICATE_FAILURE, text)
        self.kind = kind
        self.reason = reason


class Authenticator:
    """The identification of callers of one Master."""

    def __init__(self, accounts: Accounts, root: bytes, clock: Clock) -> None:
        self._accounts = accounts
        self._root = root
        self._clock = clock
        self._window = ReplayWindow()
        self._used: UsedSignatures | None = None

    def open(self, data_dir: Path | None) -> None:
        """Remember the signatures that were used before a restart, and keep those used from now on; it blocks.

        Without a directory, or where its file cannot be written, they are in memory alone.
        """
        if data_dir is None:
            return
        path, now_ms, window = data_dir / USED_SIGNATURES, self._clock.wall_ms(), self._window
        try:
            used = UsedSignatures(path, most=window.max_remembered, now_ms=now_ms)
        except OSError as error:
            logger.warning(
                "used signatures cannot be kept in %s: %s; after the next restart one that someone has read on the "
                "network could be used once more for %g s: make the file writable, and start the Master again",
                path,
                error.strerror or error,
                2 * window.window_ms / 1000,
            )
            return
        window.restore(used.found, now_ms=now_ms)
        window.on_recorded = used.record
        self._used = used

    def close(self) -> None:
        """Close the file of used signatures. Idempotent."""
        self._window.on_recorded = None
        if self._used is not None:
            self._used.close()

    def identify(self, certificate: MasterCertificateInfo | None, client_id: str) -> ClientIdentity:
        """Return who a request is from.

        Raises:
            Unidentified: it has no signature and no token, or a wrong one.
        """
        if certificate is not None and certificate.auth_info is not None:
            return self._by_signature(certificate.auth_info)
        token = (certificate.authorized_token or "").strip() if certificate is not None else ""
        if not token:
            raise Unidentified(
                RefusalReason.UNSIGNED, f"this cluster requires authentication; {_HINT}", "no signature and no token"
            )
        return self._by_token(token, client_id)

    def issue(self, identity: ClientIdentity, client_id: str) -> str:
        """Return a token with which this client is identified from now on."""
        now_s = self._clock.wall_ms() / 1000
        return issue_token(client_key(self._root, now_s=now_s), identity, client_id, now_s=now_s)

    def issue_visit_token(self, identity: ClientIdentity, client_id: str) -> int:
        """Return a visit token with which Brokers identify this client."""
        return issue_visit_token(client_key(self._root, now_s=self._clock.wall_ms() / 1000), identity, client_id)

    def _by_signature(self, info: AuthenticateInfo) -> ClientIdentity:
        now_ms, window = self._clock.wall_ms(), self._window
        user = info.user_name.strip()
        if not user or not info.signature.strip():
            raise Unidentified(
                RefusalReason.UNSIGNED, f"the request is not signed; {_HINT}", "a blank user or signature"
            )
        if not window.is_timely(info.timestamp, now_ms=now_ms):
            off_s = (info.timestamp - now_ms) / 1000
            raise Unidentified(
                RefusalReason.CLOCK,
                f"the signature is from {abs(off_s):.0f} s {'ahead of' if off_s > 0 else 'behind'} the Master's clock, "
                f"{window.window_ms / 1000:g} s are allowed; set the clock of the client's machine, "
                "as with `timedatectl set-ntp true`",
                f"a signature of {user[:80]!r} that is {off_s:.0f} s off",
            )
        if window.is_full(user, now_ms=now_ms):
            raise Unidentified(
                RefusalReason.OVERLOAD,
                "the Master has too many signatures to remember, try again",
                "too many signatures",
            )
        try:
            secret = self._accounts.secret(user)
        except ConfigError as error:  # the Master's fault, and not for the caller
            logger.error("%s; %s", error.message, error.hint)
            secret = None
        valid = is_signature(info.signature, user, secret or _NOBODY, timestamp_ms=info.timestamp, nonce=info.nonce)
        epoch = self._accounts.epoch(user)
        if not valid or secret is None or epoch is None:
            raise Unidentified(
                RefusalReason.CREDENTIALS,
                _WRONG,
                f"a wrong signature of {user[:80]!r}" if secret else f"no user {user[:80]!r}",
            )
        if not window.record(user, info.timestamp, info.nonce, now_ms=now_ms):
            raise Unidentified(
                RefusalReason.REPLAYED,
                "this signature was used before; sign each request anew",
                f"a signature of {user!r} used twice",
            )
        return ClientIdentity(user, epoch)

    def _by_token(self, token: str, client_id: str) -> ClientIdentity:
        now_s = self._clock.wall_ms() / 1000
        identity = read_token(accepted_keys(self._root, now_s=now_s), token, client_id, now_s=now_s)
        if identity is None or not self._accounts.is_current(identity):
            who = "" if identity is None else f" of {identity.user!r}, who has another secret now or is disabled"
            raise Unidentified(
                RefusalReason.TOKEN, "the token is not valid any more; sign the next request", f"a worthless token{who}"
            )
        return identity
