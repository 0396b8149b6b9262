"""The registrations of consumers for partitions, and their leases: decisions only, `now_s` comes in.

The invariants: a partition has at most one consumer per group; a registration that was not renewed in time has no
effect; the number of registrations is bounded. At the bound a new one replaces one of the host, then the connection,
that has most, if that has clearly more than the new one's own: first those that never fetched. So no peer can keep all
others out, and where all have a fair share none goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.core.fair_places import FairPlaces
from pytubemq.core.key_counts import KeyCounts
from pytubemq.core.return_deadline import return_deadline_s
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import LEASE_TIMEOUT_S, MAX_REGISTRATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.broker.members.cursor import Cursor
    from pytubemq.broker.members.flow_control import Meter
    from pytubemq.broker.registration_key import RegistrationKey


class Origin(NamedTuple):
    """The host and the connection of a registration."""

    host: str
    connection: int | None


NOWHERE: Final = Origin("", None)


@dataclass(slots=True, eq=False)
class Registration:
    """A consumer's registration for a partition. `connection` is the token of its latest connection, None once that is
    lost; `heard_s` is the time of its latest request; `priority_id` is the consumer's `qryPriorityId`, for display."""

    key: RegistrationKey
    consumer_id: str
    cursor: Cursor
    lease_until_s: float
    heard_s: float
    beat_s: float
    """The time when its last heartbeat or registration arrived."""
    codes: frozenset[int] | None = None
    connection: int | None = None
    priority_id: int = UNDEFINED
    meter: Meter | None = None
    """Its recent reads under the cluster's rules; None if there are no rules."""
    origin: Origin = NOWHERE
    """The origin of the registration; the host is displayed."""
    is_used: bool = False
    """True once it was renewed by a fetch or a confirm, not only by heartbeats."""
    has_reset_notices: bool = False
    """True if the consumer is to be notified when somebody moves its group (RESET_NOTICES)."""
    reset_epoch: int = 0
    """The largest known reset epoch of the group in this partition."""
    is_moved_away: bool = False
    """True if the group was moved since the registration: the consumer must register again to read or confirm."""
    user: str | None = None
    """The user whose consumer it is; None if it registered where access was not enforced."""

    def is_of(self, consumer_id: str, user: str | None) -> bool:
        """True if it is this user's consumer. Any user's will do where one of the two is not known."""
        return self.consumer_id == consumer_id and (self.user is None or user is None or self.user == user)


class RegistryFullError(Exception):
    """An error for a registry without room for another registration."""


@dataclass(slots=True)
class ConsumerRegistry:
    """The registrations of consumers at one Broker."""

    lease_timeout_s: float = LEASE_TIMEOUT_S
    max_registrations: int = MAX_REGISTRATIONS
    _registrations: dict[RegistrationKey, Registration] = field(default_factory=dict)
    _by_connection: dict[int, set[RegistrationKey]] = field(default_factory=dict)
    _places: FairPlaces[RegistrationKey, int | None] = field(default_factory=FairPlaces)
    """The registrations by origin; one that never fetched is idle."""
    _groups: KeyCounts[str] = field(default_factory=KeyCounts)
    """Number of registrations by group."""
    made_room: int = 0
    """Registrations that had to make room for others."""

    def __len__(self) -> int:
        return len(self._registrations)

    @property
    def full(self) -> bool:
        """True if a new registration needs another to go."""
        return len(self._registrations) >= self.max_registrations

    def is_reading(self, group: str) -> bool:
        """True if the group has registered a partition here."""
        return self._groups[group] > 0

    @property
    def problem(self) -> str | None:
        """The reason why a new consumer may be refused; None if there is room."""
        if not self.full:
            return None
        host, count = self._places.largest_host()
        return (
            f"registrations are full: all {self.max_registrations} are in use, {count} of them from "
            f"{host or 'nowhere'}; a new one replaces one of the host that has most"
        )

    def get(self, key: RegistrationKey, *, now_s: float) -> Registration | None:
        """Return the live registration for a partition; one that has expired is dropped here."""
        registration = self._registrations.get(key)
        # Here too and not only in `expire`, which runs once a second: an expired one must have no effect.
        if registration is not None and registration.lease_until_s <= now_s:
            self.drop(registration)
            return None
        return registration

    def put(
        self,
        key: RegistrationKey,
        consumer_id: str,
        cursor: Cursor,
        *,
        codes: frozenset[int] | None,
        connection: int | None,
        now_s: float,
        priority_id: int = UNDEFINED,
        host: str = "",
    ) -> Registration:
        """Give the partition to a consumer, in place of its previous one (`get` returns that).

        Raises:
            RegistryFullError: no room for another registration, and none has to make room.
        """
        origin = Origin(host, connection)
        previous = self._registrations.get(key)
        # Its room goes to the new one, so a consumer that registers again is never refused for want of it.
        if previous is not None:
            self.drop(previous)
        elif self.full:
            # Before the new one is entered: if nobody has to make room, nothing has changed.
            self.drop(self._for_room(origin))
            self.made_room += 1
        registration = Registration(
            key, consumer_id, cursor, now_s + self.lease_timeout_s, now_s, now_s, codes, priority_id=priority_id,
            # A consumer that has registered again keeps what it has shown; another one has to show it anew.
            origin=origin, is_used=previous is not None and previous.is_used and previous.consumer_id == consumer_id,
        )  # fmt: skip
        self._registrations[key] = registration
        self._enter(registration)
        self._seen_on(registration, connection)
        return registration

    def renew(self, registration: Registration, *, connection: int | None, now_s: float) -> None:
        """Renew a registration, since its consumer fetches or confirms."""
        # Only the first time, as this runs for every fetch.
        if not registration.is_used:
            registration.is_used = True
            if self._registrations.get(registration.key) is registration:
                self._places.record_use(registration.key, registration.origin)
        self._record_use(registration, connection=connection, now_s=now_s)

    def _record_use(self, registration: Registration, *, connection: int | None, now_s: float) -> None:
        registration.lease_until_s, registration.heard_s = now_s + self.lease_timeout_s, now_s
        if registration.connection != connection:
            self._seen_on(registration, connection)
            # One that was replaced meanwhile is counted nowhere, and must not be entered again.
            if (
                self._registrations.get(registration.key) is registration
                and registration.origin.connection != connection
            ):
                self._leave(registration)
                registration.origin = Origin(registration.origin.host, connection)
                self._enter(registration)

    def drop(self, registration: Registration) -> None:
        """End a registration; one that was replaced already is ignored."""
        if self._registrations.get(registration.key) is registration:
            del self._registrations[registration.key]
            self._leave(registration)
        # Of a replaced one too, or the end of its connection would shorten the lease of its successor.
        self._seen_on(registration, None)

    def record_heartbeat(self, registration: Registration, *, connection: int | None, now_s: float) -> None:
        """Record a heartbeat of the consumer."""
        self._record_use(registration, connection=connection, now_s=now_s)
        registration.beat_s = now_s

    def connection_lost(self, connection: int, *, now_s: float, grace_s: float, can_detect_loss: bool = True) -> int:
        """Shorten the leases of the consumers on a broken connection to `grace_s` and return how many these are.

        A consumer that cannot detect the loss reconnects with its next heartbeat: `grace_s` counts from the last one.
        """
        keys = self._by_connection.pop(connection, set())
        for key in keys:
            registration = self._registrations[key]
            registration.connection = None
            until_s = (
                now_s + grace_s
                if can_detect_loss
                else return_deadline_s(lost_s=now_s, beat_s=registration.beat_s, grace_s=grace_s)
            )
            # Never longer: a broken connection must not keep a silent consumer alive.
            registration.lease_until_s = min(registration.lease_until_s, until_s)
        return len(keys)

    def expire(self, *, now_s: float) -> list[Registration]:
        """Drop and return every expired registration."""
        gone = [registration for registration in self._registrations.values() if registration.lease_until_s <= now_s]
        for registration in gone:
            self.drop(registration)
        return gone

    def registrations(self) -> Iterable[Registration]:
        """Return all registrations, including expired ones that are not yet dropped."""
        return self._registrations.values()

    def _seen_on(self, registration: Registration, connection: int | None) -> None:
        """Move a registration from its previous connection to another."""
        if registration.connection is not None:
            keys = self._by_connection.get(registration.connection)
            if keys is not None:
                keys.discard(registration.key)
                if not keys:
                    del self._by_connection[registration.connection]
        registration.connection = connection
        if connection is not None:
            self._by_connection.setdefault(connection, set()).add(registration.key)

    # --- room ---------------------------------------------------------------------------------------------------

    def _for_room(self, origin: Origin) -> Registration:
        """Return the registration that makes room for one from `origin`.

        Raises:
            RegistryFullError: nobody has clearly more than the new one's own.
        """
        key = self._places.displaced_by(origin)
        if key is None:
            raise RegistryFullError
        return self._registrations[key]

    def _enter(self, registration: Registration) -> None:
        self._groups.add(registration.key.group)
        self._places.enter(registration.key, registration.origin, is_idle=not registration.is_used)

    def _leave(self, registration: Registration) -> None:
        self._groups.remove(registration.key.group)
        self._places.leave(registration.key, registration.origin)
