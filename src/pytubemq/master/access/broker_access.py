"""Rules by which Brokers check callers on their own: users, permissions, and the keys of tokens.

The invariant: the version changes whenever anything in it does, so a Broker that has the current version has all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytubemq.model.records import PermissionRecord, UserRecord
from pytubemq.security.token_keys import CLIENT_KEY_PERIOD_S, accepted_keys
from pytubemq.wire.protocol.messages.master import AccessKey, AccessUser, BrokerAccess, EnableBrokerFunInfo

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.records import Record
    from pytubemq.net.clock import Clock


class BrokerChecks(Protocol):
    """The checks that a Master asks of its Brokers."""

    @property
    def version(self) -> int:
        """The version of `access`; 0 where there is none."""
        ...

    def note(self, records: Collection[Record]) -> bool:
        """Record that records changed; return True if Brokers need to know."""
        ...

    def access(self, known_version: int | None) -> BrokerAccess | None:
        """Return what a Broker needs that has `known_version`; None if that is nothing new, or it knows no such."""
        ...

    def switches(self, *, knows_access: bool) -> EnableBrokerFunInfo:
        """Return the original's switches for a Broker."""
        ...


class NoChecks:
    """The checks of a cluster without authentication: none."""

    version = 0

    def note(self, records: Collection[Record]) -> bool:
        """Return False."""
        return False

    def access(self, known_version: int | None) -> BrokerAccess | None:
        """Return None."""
        return None

    def switches(self, *, knows_access: bool) -> EnableBrokerFunInfo:
        """Return all switches off."""
        return _switches(on=False, consumers=False)


class AccessChecks:
    """The checks of a cluster with authentication."""

    def __init__(self, catalogue: Catalogue, root: bytes, clock: Clock, *, enforced: bool) -> None:
        self._catalogue = catalogue
        self._root = root
        self._clock = clock
        self._enforced = enforced
        self._changes = 0
        self._started_ms = clock.wall_ms()

    def note(self, records: Collection[Record]) -> bool:
        """Record that records changed; return True if Brokers need to know."""
        concerned = any(isinstance(record, UserRecord | PermissionRecord) for record in records)
        self._changes += concerned
        return concerned

    @property
    def version(self) -> int:
        """The version: another after each start, each change and each hour."""
        hour = int(self._clock.wall_ms() / 1000 // CLIENT_KEY_PERIOD_S)
        return self._started_ms + 1_000 * hour + self._changes

    def access(self, known_version: int | None) -> BrokerAccess | None:
        """Return users, permissions and keys, unless the Broker has them or does not know what they are."""
        version = self.version
        if known_version is None or known_version == version:
            return None
        now_s = self._clock.wall_ms() / 1000
        return BrokerAccess(
            version=version,
            enforced=self._enforced,
            keys=tuple(AccessKey(period=key.period, value=key.value) for key in accepted_keys(self._root, now_s=now_s)),
            users=tuple(
                AccessUser(
                    user=user.user,
                    epoch=user.secret_epoch,
                    permissions=tuple(
                        " ".join(words) for words in sorted(self._catalogue.permissions.get(user.user, ()))
                    ),
                )
                for user in self._catalogue.users.values()
                if user.user_enabled
            ),
        )

    def switches(self, *, knows_access: bool) -> EnableBrokerFunInfo:
        """Return the original's switches.

        A Java Broker is not told to authenticate consumers: a Java consumer signs there only after it was refused, so
        it would never get in. The visit token still keeps out whoever the Master has not let in.
        """
        return _switches(on=self._enforced, consumers=self._enforced and knows_access)


def _switches(*, on: bool, consumers: bool) -> EnableBrokerFunInfo:
    return EnableBrokerFunInfo(
        enable_consume_authenticate=consumers,
        enable_consume_authorize=consumers,
        enable_produce_authenticate=on,
        enable_produce_authorize=on,
        enable_visit_token_check=on,
    )
