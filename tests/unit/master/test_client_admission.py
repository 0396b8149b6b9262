"""Clients are bounded in number and in what they let the Master remember."""

from __future__ import annotations

import pytest

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.master.client_admission import ClientAdmission
from pytubemq.model.limits import MAX_DROPPED_FOR_ONE


def test_the_number_is_bounded_and_those_that_are_in_may_come_again() -> None:
    admission = ClientAdmission(max_clients=2, max_bytes=1000)
    for key in ("a", "b"):
        admission.check(key, 10)
        admission.enter(key, 10)
    with pytest.raises(Refused, match="has 2 clients, 2 are allowed") as refused:
        admission.check("c", 10)
    assert refused.value.refusal.code is Code.BAD_REQUEST
    admission.check("a", 20)
    admission.leave("b")
    admission.leave("b")
    admission.check("c", 10)


def test_who_is_in_stays_in_and_may_not_grow_beyond_what_is_allowed() -> None:
    admission = ClientAdmission(max_clients=10, max_bytes=100)
    admission.enter("a", 60)
    admission.enter("b", 20)
    admission.record_heartbeat("b")
    with pytest.raises(
        Refused, match="have reported 80 bytes of topics, filters and partitions, and this one 440 more"
    ):
        admission.record_report("a", 500)
    with pytest.raises(Refused, match="840 more"):
        admission.check("a", 900)
    assert (len(admission), admission.total_bytes) == (2, 80), "what it had before still counts"
    admission.record_report("a", 80)
    assert admission.total_bytes == 100
    admission.record_report("a", 70)
    assert admission.total_bytes == 90, "the last heartbeat counts, not the longest"
    admission.record_report("a", 5)
    assert admission.total_bytes == 80, "what was registered is remembered"
    admission.check("a", 60)
    admission.check("a", 80)


def test_many_small_clients_cannot_grow_together() -> None:
    admission = ClientAdmission(max_clients=1_000, max_bytes=100_000)
    for number in range(1_000):
        come(admission, str(number), ("10.0.0.9", number % 3))
        admission.record_heartbeat(str(number))
    refused = 0
    for number in range(1_000):
        try:
            admission.record_report(str(number), 2_000)
        except Refused:
            refused += 1
        assert admission.total_bytes <= 100_000
    assert refused
    assert admission.problem is not None


def test_bytes_are_shared_by_host_then_by_connection() -> None:
    now_s = 0.0
    admission = ClientAdmission(max_clients=100, max_bytes=1_000, now_s=lambda: now_s)
    gone: list[object] = []
    admission.on_dropped = gone.append
    for number in range(10):
        admission.enter(number, 100 - number, ("10.0.0.9", number % 2))
        admission.record_heartbeat(number)
    admission.enter("filler", 45, ("10.0.0.9", 1))
    admission.record_heartbeat("filler")
    assert admission.problem is not None
    admission.check("honest", 150, ("10.0.0.2", 7))
    admission.enter("honest", 150, ("10.0.0.2", 7))
    admission.record_heartbeat("honest")
    assert gone == [1, 0], "the largest of the connections with most, in turns"
    admission.check("of the same host", 100, ("10.0.0.9", 5))
    admission.enter("of the same host", 100, ("10.0.0.9", 5))
    admission.record_heartbeat("of the same host")
    assert gone == [1, 0, 3]
    admission.record_report("honest", 200)
    assert admission.total_bytes <= 1_000
    with pytest.raises(Refused):
        admission.check("too much", 600, ("10.0.0.2", 7))
    with pytest.raises(Refused):
        admission.check("more of the crowd", 300, ("10.0.0.9", 0))
    admission.leave(2)
    assert "refused within the last 60 s" in (admission.problem or "")
    now_s = 61.0
    assert admission.problem is None


def test_what_they_say_is_bounded_and_counts_until_they_leave() -> None:
    admission = ClientAdmission(max_clients=10, max_bytes=100)
    admission.enter("a", 60)
    admission.record_heartbeat("a")
    admission.record_report("stranger", 1000)
    assert admission.total_bytes == 60, "nothing counts of a client that is not in"
    with pytest.raises(Refused, match="60 bytes of topics, filters and partitions, and this one 41 more"):
        admission.check("b", 41)
    admission.check("b", 40)
    admission.enter("b", 40)
    assert admission.total_bytes == 100
    admission.enter("a", 10)
    assert admission.total_bytes == 50
    admission.leave("a")
    admission.leave("b")
    assert (len(admission), admission.total_bytes) == (0, 0)


def filled(origins: list[tuple[str, int]], *, most: int) -> ClientAdmission:
    """One client from each origin, and no room for more."""
    admission = ClientAdmission(max_clients=most, max_bytes=10_000)
    for number, origin in enumerate(origins):
        admission.check(number, 10, origin)
        admission.enter(number, 10, origin)
    assert len(admission) == most
    return admission


def come(admission: ClientAdmission, key: str, origin: tuple[str, int]) -> None:
    admission.check(key, 10, origin)
    admission.enter(key, 10, origin)


def test_a_newcomer_takes_the_place_of_one_from_where_most_come() -> None:
    admission = filled([("10.0.0.9", n % 2) for n in range(8)] + [("10.0.0.1", 5)] * 2, most=10)
    gone: list[object] = []
    admission.on_dropped = gone.append
    assert admission.problem == "all 10 places for producers and consumers are taken"
    for number in range(3):
        come(admission, f"n{number}", ("10.0.0.2", 7))
    assert gone == [6, 7, 4], "the newest of the fullest connection"
    assert len(admission) == 10
    assert admission.made_room == 3
    come(admission, "n3", ("10.0.0.2", 7))
    with pytest.raises(Refused, match="10 are allowed"):
        come(admission, "n4", ("10.0.0.2", 7))
    assert admission.made_room == 4, "shared alike, nobody makes room"


def test_connections_of_one_host_share_its_places_alike() -> None:
    admission = filled([("127.0.0.1", n % 5) for n in range(50)], most=50)
    come(admission, "honest", ("127.0.0.1", 77))
    come(admission, "honest 2", ("127.0.0.1", 77))
    with pytest.raises(Refused):
        come(admission, "flood", ("127.0.0.1", 4))


def test_those_that_only_registered_make_room_first() -> None:
    admission = filled([("10.0.0.9", 1)] * 6, most=6)
    gone: list[object] = []
    admission.on_dropped = gone.append
    for key in (5, 4, 2):
        admission.record_heartbeat(key)
    admission.record_report(3, 10)
    come(admission, "a", ("10.0.0.2", 2))
    come(admission, "b", ("10.0.0.3", 2))
    come(admission, "c", ("10.0.0.4", 2))
    assert gone == [1, 0, 5], "then the newest"


def test_where_there_is_no_room_for_what_is_said_only_those_that_never_beat_go() -> None:
    admission = ClientAdmission(max_clients=10, max_bytes=100)
    for key, size in (("a", 50), ("b", 30), ("c", 20)):
        admission.enter(key, size, ("10.0.0.9", 1))
    admission.record_heartbeat("a")
    assert admission.problem is not None
    come(admission, "new", ("10.0.0.9", 1))
    assert admission.total_bytes == 80, "b was the largest that never sent a heartbeat"
    assert admission.problem is None


def test_all_that_is_remembered_goes_with_the_clients() -> None:
    admission = filled([("10.0.0.9", n % 2) for n in range(8)], most=8)
    for key in range(8):
        admission.leave(key)
    assert (len(admission), admission.total_bytes) == (0, 0)
    shares = admission._shares
    assert not any((shares._all, shares._idle, shares._connections))
    assert (len(shares._hosts), len(admission._idle)) == (0, 0)
    assert not any((admission._host_bytes, admission._connection_bytes, admission._client_bytes))


class CountingKey:
    """A client's key that counts how often it is looked at."""

    looks = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        CountingKey.looks += 1
        return hash(self.number)


def looks_to_make_room(clients: int, *, short_of_bytes: bool) -> int:
    """Return how often keys are looked at when a registration replaces others, of so many that are registered.

    They make room for bytes: 20 of those that never sent a heartbeat; or for one place, where all sent one.
    """
    admission = ClientAdmission(max_clients=clients + short_of_bytes, max_bytes=clients * 10)
    for number in range(clients):
        key = CountingKey(number)
        admission.enter(key, 10, ("10.0.0.9", number % 7))
        if not short_of_bytes:
            admission.record_heartbeat(key)
    CountingKey.looks = 0
    admission.check("new", 200 if short_of_bytes else 0, ("10.0.0.2", 1))
    assert admission.made_room == (20 if short_of_bytes else 1)
    return CountingKey.looks


@pytest.mark.parametrize("short_of_bytes", [True, False])
def test_to_make_room_costs_the_same_beside_few_clients_and_many(short_of_bytes: bool) -> None:
    few, many = (looks_to_make_room(clients, short_of_bytes=short_of_bytes) for clients in (200, 5_000))
    assert many <= few + 100, f"{few} looks beside 200 clients, {many} beside 5000"


def test_one_registration_replaces_a_bounded_number_and_none_when_they_do_not_do() -> None:
    admission = ClientAdmission(max_clients=5_000, max_bytes=10_000)
    for number in range(1_000):
        admission.enter(number, 10, ("10.0.0.9", 1))
    with pytest.raises(Refused, match="this one 6000 more"):
        admission.check("new", 6_000, ("10.0.0.2", 1))
    assert (len(admission), admission.made_room) == (1_000, 0), "nobody goes for one that is refused"
    admission.check("new", 10 * MAX_DROPPED_FOR_ONE, ("10.0.0.2", 1))
    assert admission.made_room == MAX_DROPPED_FOR_ONE


def test_all_that_make_room_for_one_are_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    admission = ClientAdmission(max_clients=100, max_bytes=1_000)
    for number in range(100):
        admission.enter(number, 10, ("10.0.0.9", 1))
    admission.check("new", 300, ("10.0.0.2", 1))
    assert [record.getMessage() for record in caplog.records] == [
        "removed 30 clients to make room for new from 10.0.0.2; the first is 99"
    ]


def test_clients_that_come_again_and_again_leave_nothing_behind() -> None:
    admission = ClientAdmission(max_clients=10, max_bytes=1_000)
    for _ in range(1_000):
        admission.enter("a", 10)
    assert len(admission._idle._heap) < 100


def test_to_share_bytes_costs_the_same_beside_few_clients_and_many() -> None:
    looks = []
    for clients in (200, 5_000):
        admission = ClientAdmission(max_clients=clients + 1, max_bytes=clients * 10)
        for number in range(clients):
            key = CountingKey(number)
            admission.enter(key, 10, ("10.0.0.9", number % 7))
            admission.record_heartbeat(key)
        CountingKey.looks = 0
        admission.check("new", 200, ("10.0.0.2", 1))
        assert admission.made_room == 20
        looks.append(CountingKey.looks)
    assert looks[1] <= looks[0] + 100, looks
