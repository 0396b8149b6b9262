"""Users, their secrets and their permissions, as the records have them now.

The invariant: a change of a record counts from the next request on; a secret is opened when it is needed and shown to
nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.security.permissions import Permission, parse_permission

if TYPE_CHECKING:
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.security.client_token import ClientIdentity
    from pytubemq.security.sealing import Sealer
    from pytubemq.security.secret import Secret


class Accounts:
    """The users of a cluster."""

    def __init__(self, catalogue: Catalogue, sealer: Sealer) -> None:
        self._catalogue = catalogue
        self._sealer = sealer
        self._opened: dict[str, tuple[str, Secret]] = {}
        """Opened secrets by user, each with the sealed text that it belongs to."""
        self._permissions: dict[str, tuple[Permission, ...]] = {}
        self._read_at = 0
        """The state of the records of which `_permissions` are."""

    def epoch(self, user: str) -> int | None:
        """Return the epoch of a user's secret; None if there is no such user or it is disabled."""
        record = self._catalogue.users.get(user)
        return record.secret_epoch if record is not None and record.user_enabled else None

    def secret(self, user: str) -> Secret | None:
        """Return a user's secret; None if it has none, does not exist or is disabled.

        Raises:
            ConfigError: the stored secret does not open with this Master's key.
        """
        record = self._catalogue.users.get(user)
        if record is None or not record.user_enabled or not record.sealed_secret:
            return None
        opened = self._opened.get(user)
        if opened is None or opened[0] != record.sealed_secret:
            opened = self._opened[user] = record.sealed_secret, self._sealer.open(user, record.sealed_secret)
        return opened[1]

    def is_current(self, identity: ClientIdentity) -> bool:
        """True if a user is enabled and has not got another secret since."""
        return self.epoch(identity.user) == identity.epoch

    def permissions(self, user: str) -> tuple[Permission, ...]:
        """Return what a user is allowed; records that name no permission are left out when they are loaded."""
        if self._read_at != self._catalogue.changes:
            self._permissions.clear()
            self._read_at = self._catalogue.changes
        known = self._permissions.get(user)
        if known is None:
            granted = self._catalogue.permissions.get(user, ())
            known = self._permissions[user] = tuple(parse_permission(*words) for words in granted)
        return known
