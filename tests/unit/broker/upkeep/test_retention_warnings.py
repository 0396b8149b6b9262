"""Which groups are about to lose messages to retention, and how soon."""

from __future__ import annotations

import pytest

from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.broker.upkeep.retention_warnings import Growth, NearLoss, near_losses
from pytubemq.model.offset import to_offset
from pytubemq.storage.log.retention import Expiring, ExpiringPartition

KEY = ("demo", 0)
BY_AGE = ExpiringPartition(100, 0, (Expiring(150, 60.0, None), Expiring(200, 120.0, None)))
BY_SIZE = ExpiringPartition(100, 0, (Expiring(150, None, 1_000),))


def found(
    position: int, partition: ExpiringPartition, *, rate: float | None = None, held: bool = True
) -> NearLoss | None:
    registrations = {RegistrationKey("g", "demo", 0)} if held else set()
    growth = {KEY: Growth(0, 0.0, rate)}
    return near_losses({("g", "demo", 0): to_offset(position)}, {KEY: partition}, growth, registrations).get(
        ("g", "demo")
    )


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (120, NearLoss(80, 1, 60.0, True)),
        (150, NearLoss(50, 1, 120.0, True)),
        (199, NearLoss(1, 1, 120.0, True)),
        (200, None),
        (50, NearLoss(100, 1, 60.0, True)),
    ],
)
def test_what_is_not_confirmed_counts_and_its_first_part_says_when(position: int, expected: NearLoss | None) -> None:
    assert found(position, BY_AGE) == expected


def test_by_size_the_growth_says_when_and_a_partition_that_does_not_grow_loses_nothing() -> None:
    assert found(120, BY_SIZE) is None
    assert found(120, BY_SIZE, rate=0.0) is None
    assert found(120, BY_SIZE, rate=50.0) == NearLoss(30, 1, 20.0, True)


def test_the_first_look_takes_the_growth_that_the_segments_show() -> None:
    assert found(120, BY_SIZE._replace(bytes_per_s=100.0)) == NearLoss(30, 1, 10.0, True)
    assert found(120, BY_SIZE._replace(bytes_per_s=100.0), rate=50.0) == NearLoss(30, 1, 20.0, True)
    assert found(120, BY_SIZE._replace(bytes_per_s=100.0), rate=0.0) is None


def test_who_has_lost_messages_and_has_no_consumer_is_left_out() -> None:
    assert found(99, BY_AGE, held=False) is None
    assert found(100, BY_AGE, held=False) == NearLoss(100, 1, 60.0, False)


def test_other_partitions_do_not_count() -> None:
    assert near_losses({("g", "demo", 1): 0, ("g", "else", 0): 0}, {KEY: BY_AGE}, {KEY: Growth(0, 0.0, None)}, ()) == {}
