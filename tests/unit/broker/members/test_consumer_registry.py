"""Who holds a partition and until when, with the time given."""

from __future__ import annotations

import pytest

from pytubemq.broker.members.consumer_registry import ConsumerRegistry, Registration, RegistryFullError
from pytubemq.broker.members.cursor import Cursor
from pytubemq.broker.registration_key import RegistrationKey

KEY = RegistrationKey("g", "demo", 0)
OTHER = RegistrationKey("g", "demo", 1)


def registry(**options: float) -> ConsumerRegistry:
    return ConsumerRegistry(lease_timeout_s=30.0, **options)  # type: ignore[arg-type]


def put(
    held: ConsumerRegistry,
    key: RegistrationKey = KEY,
    *,
    who: str = "c1",
    connection: int | None = 7,
    now_s: float = 0.0,
) -> Registration:
    return held.put(key, who, Cursor.at(0), codes=None, connection=connection, now_s=now_s)


def test_a_hold_ends_when_it_is_not_renewed() -> None:
    held = registry()
    registration = put(held)
    assert held.get(KEY, now_s=29.9) is registration
    held.renew(registration, connection=7, now_s=29.9)
    assert held.get(KEY, now_s=59.8) is registration
    assert held.get(KEY, now_s=59.9) is None
    assert len(held) == 0


def test_a_lost_connection_does_not_change_when_a_consumer_was_heard_of() -> None:
    held = registry()
    registration = put(held, now_s=1.0)
    held.renew(registration, connection=7, now_s=5.0)
    held.connection_lost(7, now_s=6.0, grace_s=3.0)
    assert (registration.heard_s, registration.lease_until_s) == (5.0, 9.0)


def test_expire_names_those_that_have_run_out() -> None:
    held = registry()
    first = put(held)
    second = put(held, OTHER, now_s=10.0)
    assert held.expire(now_s=30.0) == [first]
    assert list(held.registrations()) == [second]


def test_a_lost_connection_leaves_little_time() -> None:
    held = registry()
    registration = put(held)
    assert held.connection_lost(7, now_s=1.0, grace_s=3.0) == 1
    assert held.get(KEY, now_s=3.9) is registration
    assert held.get(KEY, now_s=4.0) is None


def test_who_does_not_notice_has_what_is_left_until_its_next_heartbeat() -> None:
    held = registry()
    registration = put(held)
    held.record_heartbeat(registration, connection=7, now_s=13.0)
    held.renew(registration, connection=7, now_s=21.9)
    assert held.connection_lost(7, now_s=22.0, grace_s=14.0, can_detect_loss=False) == 1
    assert held.get(KEY, now_s=26.9) is registration, "a heartbeat is due at 26, and fetches say nothing of it"
    assert held.get(KEY, now_s=27.0) is None


def test_a_heartbeat_that_may_have_broken_with_the_connection_gets_another_period() -> None:
    held = registry()
    registration = put(held)
    held.record_heartbeat(registration, connection=7, now_s=13.0)
    held.connection_lost(7, now_s=25.9, grace_s=14.0, can_detect_loss=False)
    assert held.get(KEY, now_s=39.8) is registration
    assert held.get(KEY, now_s=39.9) is None


def test_who_comes_back_on_another_connection_keeps_the_hold() -> None:
    held = registry()
    registration = put(held)
    held.connection_lost(7, now_s=1.0, grace_s=3.0)
    held.renew(registration, connection=8, now_s=2.0)
    assert held.get(KEY, now_s=31.9) is registration
    assert held.connection_lost(7, now_s=3.0, grace_s=3.0) == 0, "the old connection says nothing any more"
    assert held.connection_lost(8, now_s=3.0, grace_s=3.0) == 1


def test_a_connection_that_says_nothing_leaves_the_lease_alone() -> None:
    held = registry()
    registration = put(held, connection=None)
    assert held.connection_lost(7, now_s=1.0, grace_s=3.0) == 0
    assert held.get(KEY, now_s=29.0) is registration


def test_registering_again_replaces_the_hold_and_a_late_drop_of_the_old_one_does_nothing() -> None:
    held = registry()
    old = put(held)
    new = put(held, who="c2", connection=8)
    held.drop(old)
    assert held.get(KEY, now_s=1.0) is new
    assert held.connection_lost(7, now_s=1.0, grace_s=3.0) == 0


def test_the_number_of_holds_is_bounded() -> None:
    held = ConsumerRegistry(max_registrations=1)
    put(held)
    assert held.full
    with pytest.raises(RegistryFullError):
        put(held, OTHER)
    put(held, who="c2")  # in place of the first: no new room needed


def filled(places: list[tuple[str, int]]) -> tuple[ConsumerRegistry, list[Registration]]:
    """A registry that is full of holds from these hosts and connections."""
    held = registry(max_registrations=len(places))
    registrations = [
        held.put(
            RegistrationKey("g", "demo", at),
            f"c{at}",
            Cursor.at(0),
            codes=None,
            connection=connection,
            now_s=0.0,
            host=host,
        )
        for at, (host, connection) in enumerate(places)
    ]
    return held, registrations


def newcomer(held: ConsumerRegistry, host: str, connection: int) -> Registration:
    key = RegistrationKey("new", "demo", len(list(held.registrations())) + held.made_room)
    return held.put(key, "new", Cursor.at(0), codes=None, connection=connection, now_s=1.0, host=host)


def gone(held: ConsumerRegistry, registrations: list[Registration]) -> list[int]:
    return [
        registration.key.partition_id
        for registration in registrations
        if held.get(registration.key, now_s=1.0) is not registration
    ]


def test_the_host_with_most_makes_room_first_with_holds_that_never_fetched() -> None:
    held, registrations = filled([("a", 1), ("a", 1), ("a", 1), ("a", 1), ("b", 2)])
    for registration in registrations:
        held.record_heartbeat(registration, connection=registration.connection, now_s=0.5)
    held.renew(registrations[3], connection=1, now_s=0.5)
    newcomer(held, "b", 2)
    assert gone(held, registrations) == [2], "the newest of those that send heartbeats and do not fetch"
    assert len(held) == 5
    with pytest.raises(RegistryFullError):  # three of a, two of b
        newcomer(held, "b", 2)
    newcomer(held, "c", 3)
    assert gone(held, registrations) == [1, 2]
    assert held.problem is not None
    assert "all 5 are in use" in held.problem


def test_connections_of_one_host_share_its_places() -> None:
    held, registrations = filled([("a", 1), ("a", 1), ("a", 1)])
    newcomer(held, "a", 2)
    assert gone(held, registrations) == [2]
    with pytest.raises(RegistryFullError):
        newcomer(held, "a", 2)
    held.connection_lost(1, now_s=1.0, grace_s=3.0)
    held.renew(registrations[0], connection=2, now_s=1.0)
    newcomer(held, "a", 3)
    assert gone(held, registrations) == [2], "the connection that has come to have most gives one, which never fetched"


def test_a_group_reads_while_it_holds_a_partition() -> None:
    held = registry()
    assert not held.is_reading("g")
    registration = put(held)
    assert held.is_reading("g")
    held.drop(registration)
    held.drop(registration)
    assert not held.is_reading("g")
