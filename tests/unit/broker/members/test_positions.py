"""What counts towards the bound on kept positions."""

from __future__ import annotations

from typing import Any

import pytest

from pytubemq.broker.members.positions import Positions
from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.storage.format.record import FORGOTTEN


class Store:
    """Knows what is durable."""

    def __init__(self) -> None:
        self.durable: dict[RegistrationKey, int] = {}

    @property
    def position_count(self) -> int:
        return len(self.durable)

    def confirmed(self, group: str, topic: str, partition_id: int) -> int | None:
        return self.durable.get(RegistrationKey(group, topic, partition_id))


class Path:
    """Keeps what is submitted until it is told how that ends."""

    def __init__(self) -> None:
        self.under_way: list[Any] = []

    def submit(self, submission: Any) -> None:
        self.under_way.append(submission)


def test_only_positions_that_are_not_durable_yet_take_room_while_they_are_written() -> None:
    store, path = Store(), Path()
    positions = Positions(store, path, most=2)  # type: ignore[arg-type]
    known, second, third = (RegistrationKey(group, "demo", 0) for group in ("known", "second", "third"))
    store.durable[known] = 0
    positions.commit(known, 28, lambda refusal: None)
    assert (positions.full, positions.has_room(second)) == (False, True), "the confirm under way replaces a position"
    positions.commit(second, 0, lambda refusal: None)
    assert positions.full, "one kept, one to be"
    assert not positions.has_room(third)
    assert positions.has_room(known)
    assert positions.has_room(second)
    path.under_way[1].refuse((Code.SERVER_RECEIVE_OVERFLOW, "full"))
    assert not positions.full, "a refused confirm leaves no trace"


def test_a_chosen_place_counts_at_once_for_who_reads_and_leaves_no_trace_when_it_is_refused() -> None:
    store, path = Store(), Path()
    positions = Positions(store, path)  # type: ignore[arg-type]
    key = RegistrationKey("g", "demo", 0)
    store.durable[key] = 28
    ends: list[object] = []
    positions.choose(key, 280, ends.append)
    assert (positions.current(key), positions.start_position(key)) == (280, 28)
    begun: list[int] = []
    assert positions.when_decided(key, lambda: begun.append(1)), "who begins waits for the outcome"
    path.under_way[0].refuse((Code.SERVER_RECEIVE_OVERFLOW, "full"))
    assert ends == [(Code.SERVER_RECEIVE_OVERFLOW, "full")]
    assert (positions.current(key), positions.start_position(key), positions.unwritten) == (28, 28, 0)
    assert begun == [1]
    positions.choose(key, None, ends.append)
    assert (positions.current(key), positions.start_position(key)) == (None, 28)
    assert path.under_way[1].confirmation.offset == FORGOTTEN
    del store.durable[key]
    path.under_way[1].complete([])
    assert ends[1] is None
    assert positions.current(key) is None


def test_choosing_the_place_where_it_is_or_is_not_takes_no_write() -> None:
    store, path = Store(), Path()
    positions = Positions(store, path)  # type: ignore[arg-type]
    key = RegistrationKey("g", "demo", 0)
    ends: list[object] = []
    positions.choose(key, None, ends.append)
    store.durable[key] = 28
    positions.choose(key, 28, ends.append)
    assert ends == [None, None]
    assert path.under_way == []


def test_only_so_many_registrations_wait_for_confirms_in_flight() -> None:
    store, path = Store(), Path()
    positions = Positions(store, path, most_deferred=2)  # type: ignore[arg-type]
    keys = [RegistrationKey("g", "demo", number) for number in range(3)]
    for key in keys:
        positions.commit(key, 28, lambda refusal: None)
    begun: list[int] = []
    assert positions.when_decided(keys[0], lambda: begun.append(0))
    assert positions.when_decided(keys[1], lambda: begun.append(1))
    with pytest.raises(Refused, match="2 registrations wait for confirms"):
        positions.when_decided(keys[2], lambda: begun.append(2))
    path.under_way[0].refuse((Code.SERVER_RECEIVE_OVERFLOW, "full"))
    assert positions.when_decided(keys[2], lambda: begun.append(3)), "one has gone on, so there is room"
    for submission in path.under_way[1:]:
        submission.refuse((Code.SERVER_RECEIVE_OVERFLOW, "full"))
    assert begun == [0, 1, 3]


def test_the_number_of_positions_is_known_without_a_look_at_each_write() -> None:
    class Counting(Store):
        looks = 0

        def confirmed(self, group: str, topic: str, partition_id: int) -> int | None:
            self.looks += 1
            return super().confirmed(group, topic, partition_id)

    store, path = Counting(), Path()
    positions = Positions(store, path, most=1)  # type: ignore[arg-type]
    known = RegistrationKey("known", "demo", 0)
    store.durable[known] = 28
    for number in range(100):
        positions.choose(RegistrationKey(f"g{number}", "demo", 0), 0, lambda refusal: None)
    positions.choose(known, None, lambda refusal: None)
    store.looks = 0
    assert (positions.count, positions.full, store.looks) == (100, True, 0)
    for number, submission in enumerate(path.under_way[:100]):
        store.durable[RegistrationKey(f"g{number}", "demo", 0)] = 0
        submission.complete([])
    del store.durable[known]
    path.under_way[100].complete([])
    assert positions.count == 100
    positions.choose(known, 0, lambda refusal: None)
    positions.choose(known, None, lambda refusal: None)
    assert positions.count == 100
    path.under_way[101].refuse((Code.SERVER_RECEIVE_OVERFLOW, "full"))
    path.under_way[102].refuse((Code.SERVER_RECEIVE_OVERFLOW, "full"))
    assert positions.count == 100
