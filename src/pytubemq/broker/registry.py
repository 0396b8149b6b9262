"""Which consumer holds which partition for its group, and until when: decisions only, `now_s` comes in.

The invariants: a partition has at most one holder per group; a hold that was not renewed in time is nobody's; the
number of holds is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.core.return_deadline import return_deadline_s
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import LEASE_TIMEOUT_S, MAX_REGISTRATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.broker.cursor import Cursor
    from pytubemq.broker.flow import Meter


class HoldKey(NamedTuple):
    """A partition as a group sees it."""

    group: str
    topic: str
    partition_id: int

    def __str__(self) -> str:
        return f"{self.group}:{self.topic}:{self.partition_id}"


@dataclass(slots=True, eq=False)
class Hold:
    """A consumer's hold on a partition. `connection` is the token of the connection it spoke on last, None once that is
    lost; `heard_s` is when that was; `priority_id` is the consumer's `qryPriorityId`, kept to be shown."""

    key: HoldKey
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
    """What it has read under the cluster's rules; None while there are none."""
    host: str = ""
    """From where it registered, to be shown."""
    has_reset_notices: bool = False
    """True if the consumer is to be notified when somebody moves its group (RESET_NOTICES)."""
    reset_epoch: int = 0
    """The largest known reset epoch of the group in this partition."""
    is_moved_away: bool = False
    """True if the group was moved since the registration: the consumer must register again to read or confirm."""


class RegistryFullError(Exception):
    """No room for another hold."""


@dataclass(slots=True)
class ConsumerRegistry:
    """All holds of one Broker."""

    lease_timeout_s: float = LEASE_TIMEOUT_S
    max_holds: int = MAX_REGISTRATIONS
    _holds: dict[HoldKey, Hold] = field(default_factory=dict)
    _by_connection: dict[int, set[HoldKey]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._holds)

    def get(self, key: HoldKey, *, now_s: float) -> Hold | None:
        """The live hold on a partition; one that has run out is dropped here."""
        hold = self._holds.get(key)
        if hold is not None and hold.lease_until_s <= now_s:
            self.drop(hold)
            return None
        return hold

    def put(
        self,
        key: HoldKey,
        consumer_id: str,
        cursor: Cursor,
        *,
        codes: frozenset[int] | None,
        connection: int | None,
        now_s: float,
        priority_id: int = UNDEFINED,
    ) -> Hold:
        """Give the partition to a consumer, in place of whoever had it (`get` tells who must be asked first).

        Raises:
            RegistryFullError: no room for another hold.
        """
        previous = self._holds.get(key)
        if previous is not None:
            self.drop(previous)
        elif len(self._holds) >= self.max_holds:
            raise RegistryFullError
        hold = Hold(
            key, consumer_id, cursor, now_s + self.lease_timeout_s, now_s, now_s, codes, priority_id=priority_id
        )
        self._holds[key] = hold
        self._seen_on(hold, connection)
        return hold

    def renew(self, hold: Hold, *, connection: int | None, now_s: float) -> None:
        """The holder was heard of."""
        hold.lease_until_s, hold.heard_s = now_s + self.lease_timeout_s, now_s
        if hold.connection != connection:
            self._seen_on(hold, connection)

    def drop(self, hold: Hold) -> None:
        """End a hold; one that was replaced already is left alone."""
        if self._holds.get(hold.key) is hold:
            del self._holds[hold.key]
        self._seen_on(hold, None)

    def beat(self, hold: Hold, *, connection: int | None, now_s: float) -> None:
        """Record a heartbeat of the holder."""
        self.renew(hold, connection=connection, now_s=now_s)
        hold.beat_s = now_s

    def connection_lost(self, connection: int, *, now_s: float, grace_s: float, can_detect_loss: bool = True) -> int:
        """Shorten the leases of the consumers on a broken connection to `grace_s` and return how many these are.

        A consumer that cannot detect the loss reconnects with its next heartbeat: `grace_s` counts from the last one.
        """
        keys = self._by_connection.pop(connection, set())
        for key in keys:
            hold = self._holds[key]
            hold.connection = None
            until_s = (
                now_s + grace_s
                if can_detect_loss
                else return_deadline_s(lost_s=now_s, beat_s=hold.beat_s, grace_s=grace_s)
            )
            hold.lease_until_s = min(hold.lease_until_s, until_s)
        return len(keys)

    def expire(self, *, now_s: float) -> list[Hold]:
        """Drop and return every hold that has run out."""
        gone = [hold for hold in self._holds.values() if hold.lease_until_s <= now_s]
        for hold in gone:
            self.drop(hold)
        return gone

    def holds(self) -> Iterable[Hold]:
        """All holds, those that have run out and are not yet dropped included."""
        return self._holds.values()

    def _seen_on(self, hold: Hold, connection: int | None) -> None:
        """Move a hold from the connection it was heard on to another."""
        if hold.connection is not None:
            keys = self._by_connection.get(hold.connection)
            if keys is not None:
                keys.discard(hold.key)
                if not keys:
                    del self._by_connection[hold.connection]
        hold.connection = connection
        if connection is not None:
            self._by_connection.setdefault(connection, set()).add(hold.key)
