"""A range of a Java Broker: each of its messages once and in order, whatever the Broker does."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.client.reader.range_group import FetchedRange, PartitionPosition
from pytubemq.errors import (
    BadRequestError,
    ConnectionLostError,
    CorruptError,
    NotAllowedError,
    OccupiedError,
    OffsetMovedError,
    ThrottledError,
    TubeError,
    refused,
)
from pytubemq.model.ids import Partition
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.spark.source.java.group import NAMES, STRAYS, ends_group_names, group_names
from pytubemq.spark.source.java.reading import LEASE_S, LIMITED_S, RangePiece, RangeReading
from pytubemq.spark.source.planning.plan import Ends, OffsetRange
from pytubemq.spark.source.read.source_connection import OUTAGE_S
from tests.unit.spark.source.java.simulated import Store, record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.spark.source.java.reading import Hold

pytestmark = pytest.mark.anyio

P0 = Partition(1, "demo", 0)


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.renewed = 0

    async def sleep(self, wait_s: float) -> None:
        self.now_s += wait_s

    async def renew(self) -> None:
        self.renewed += 1


def reading(
    make: Callable[[str], Hold],
    start: int,
    end: int,
    *,
    clock: Clock | None = None,
    fail: bool = True,
    lost: list[tuple[int, int]] | None = None,
    names: Sequence[str] = ("g0", "g1"),
    wait_for_group: bool = False,
) -> RangeReading:
    time = clock or Clock()

    def on_loss(hole: OffsetRange, there: Ends) -> None:
        assert lost is not None
        lost.append((hole.start // OFFSET_UNIT, hole.end // OFFSET_UNIT))

    return RangeReading(
        OffsetRange(P0, start * OFFSET_UNIT, end * OFFSET_UNIT),
        hold=make,
        names=lambda: names,
        renew_token=time.renew,
        fail_on_data_loss=fail,
        on_loss=on_loss,
        wait_for_group=wait_for_group,
        sleep=time.sleep,
        now_s=lambda: time.now_s,
    )


async def ids(one: RangeReading) -> list[int]:
    found = []
    try:
        async for piece in one.pieces():
            found += [message.message_id for message in piece.records]
            check_piece(piece)
    finally:
        await one.close()
    return found


def check_piece(piece: RangePiece) -> None:
    assert piece.start < piece.end
    assert piece.dense == (len(piece.records) * OFFSET_UNIT == piece.end - piece.start)


def filled(owners: Sequence[int]) -> Store:
    store = Store()
    for owner in owners:
        store.append(owner)
    return store


# --- the range, whatever the splits ---------------------------------------------------------------------------------


@given(
    owners=st.lists(st.integers(0, 2), min_size=1, max_size=60),
    range_of=st.tuples(st.integers(0, 60), st.integers(0, 60)),
    steps=st.lists(st.integers(1, 25), min_size=1, max_size=30),
    later=st.lists(st.integers(0, 2), max_size=10),
    troubles=st.lists(st.sampled_from(["", "", "", "cut", "forgotten", "append"]), max_size=40),
    skips_rest=st.booleans(),
)
async def test_each_message_of_a_range_comes_once_and_in_order(
    owners: list[int],
    range_of: tuple[int, int],
    steps: list[int],
    later: list[int],
    troubles: list[str],
    skips_rest: bool,
) -> None:
    store = filled(owners)
    first, last = sorted(min(place, len(owners)) for place in range_of)
    store.skips_rest = skips_rest
    every_step = itertools.cycle(steps)
    store.steps = lambda: next(every_step)
    pending, coming = iter(troubles), iter(later)

    def trouble(_what: str) -> None:
        match next(pending, ""):
            case "cut":
                raise ConnectionLostError("cut")
            case "forgotten":
                store.owners.clear()
            case "append":
                if (owner := next(coming, None)) is not None:
                    store.append(owner)

    store.before_call = trouble
    found = await ids(reading(lambda name: store.hold(0, name), first, last, names=["a", "b", "c"]))
    assert found == store.between(0, first * OFFSET_UNIT, last * OFFSET_UNIT)


async def test_offsets_are_known_in_a_store_of_one_partition() -> None:
    store = filled([0] * 10)
    store.steps = lambda: 4
    one = reading(lambda name: store.hold(0, name), 3, 9)
    pieces = [piece async for piece in one.pieces()]
    assert [(piece.start // 28, piece.end // 28, piece.dense) for piece in pieces] == [(3, 7, True), (7, 9, True)]
    await one.close()
    assert store.owners == {}


# --- what is gone ---------------------------------------------------------------------------------------------------


async def test_rows_deleted_before_reading_began_are_an_error_or_a_hole() -> None:
    store = filled([0] * 10)
    store.kept_from = 4
    with pytest.raises(OffsetMovedError, match="data loss in partition 1:demo:0"):
        await ids(reading(lambda name: store.hold(0, name), 2, 8))
    lost: list[tuple[int, int]] = []
    assert await ids(reading(lambda name: store.hold(0, name), 2, 8, fail=False, lost=lost)) == [4, 5, 6, 7]
    assert lost == [(2, 4)]
    lost.clear()
    assert await ids(reading(lambda name: store.hold(0, name), 1, 3, fail=False, lost=lost)) == []
    assert lost == [(1, 3)]


async def test_rows_deleted_while_reading_are_a_hole_of_exactly_those_not_read() -> None:
    store = filled([0, 1] * 10)
    store.steps = lambda: 4
    calls = itertools.count()

    def retention(_what: str) -> None:
        if next(calls) == 3:
            store.kept_from = 10

    store.before_call = retention
    lost: list[tuple[int, int]] = []
    assert await ids(reading(lambda name: store.hold(0, name), 0, 20, fail=False, lost=lost)) == [
        0, 2, 4, 6, 10, 12, 14, 16, 18,
    ]  # fmt: skip
    assert lost == [(8, 10)]


async def test_rows_that_a_killed_broker_lost_are_an_error_or_a_hole() -> None:
    store = filled([0] * 10)
    store.steps = lambda: 3
    calls = itertools.count()

    def kill(_what: str) -> None:
        if next(calls) == 2:
            store.lose(4)
            raise ConnectionLostError("killed")

    store.before_call = kill
    with pytest.raises(OffsetMovedError, match="the Broker has"):
        await ids(reading(lambda name: store.hold(0, name), 0, 10))
    store = filled([0] * 10)
    store.steps, store.before_call, calls = (lambda: 3), kill, itertools.count()
    lost: list[tuple[int, int]] = []
    assert await ids(reading(lambda name: store.hold(0, name), 0, 10, fail=False, lost=lost)) == [0, 1, 2, 3, 4, 5]
    assert lost == [(6, 10)]


async def test_a_fetch_whose_end_was_deleted_before_it_was_found_is_lost_rather_than_guessed() -> None:
    store = filled([0, 1] * 10)
    store.steps = lambda: 12
    calls = itertools.count()

    def retention(_what: str) -> None:
        if next(calls) == 2:  # the registration that moves the reader to the range's end
            store.kept_from = 12

    store.before_call = retention
    with pytest.raises(OffsetMovedError):
        await ids(reading(lambda name: store.hold(0, name), 0, 8))


# --- others, limits, silence ----------------------------------------------------------------------------------------


async def test_a_name_held_by_another_is_passed_over_and_the_last_one_fails_the_task() -> None:
    store = filled([0] * 4)
    store.owners["g0"] = object()
    assert await ids(reading(lambda name: store.hold(0, name), 0, 4)) == [0, 1, 2, 3]
    store.owners["g1"] = object()
    clock = Clock()
    with pytest.raises(OccupiedError, match="read by others under every group"):
        await ids(reading(lambda name: store.hold(0, name), 0, 4, clock=clock))
    assert clock.now_s == 0


async def test_the_only_group_allowed_is_waited_for_as_long_as_a_dead_reader_holds_it() -> None:
    store = filled([0] * 4)
    store.owners["only"] = object()
    clock = Clock()

    def expire(_what: str) -> None:
        if clock.now_s > 30:
            store.owners.clear()
            store.before_call = lambda _: None

    store.before_call = expire
    made = reading(lambda name: store.hold(0, name), 0, 4, clock=clock, names=["only"], wait_for_group=True)
    assert await ids(made) == [0, 1, 2, 3]
    store.owners["only"] = object()
    clock = Clock()
    made = reading(lambda name: store.hold(0, name), 0, 4, clock=clock, names=["only"], wait_for_group=True)
    with pytest.raises(OccupiedError):
        await ids(made)
    assert LEASE_S < clock.now_s < 2 * LEASE_S


class Scripted:
    """A hold that answers as it is told."""

    def __init__(self, *answers: FetchedRange | TubeError, newest: int = 100) -> None:
        self._answers = itertools.chain(answers[:-1], itertools.repeat(answers[-1]))
        self._newest = newest
        self.ended = False

    async def begin(self, offset: int) -> PartitionPosition:
        return PartitionPosition(offset, self._newest * OFFSET_UNIT)

    async def fetch(self) -> FetchedRange:
        answer = next(self._answers)
        if isinstance(answer, TubeError):
            raise answer
        return answer

    async def end(self) -> None:
        self.ended = True


def taken(numbers: Sequence[int], start: int, end: int, *, wait_s: float = 0.0, newest: int = 100) -> FetchedRange:
    records = tuple(map(record, numbers))
    return FetchedRange(records, start * OFFSET_UNIT, end * OFFSET_UNIT, newest * OFFSET_UNIT, None, wait_s)


async def test_flow_control_is_obeyed_but_not_for_ever() -> None:
    clock = Clock()
    hold = Scripted(taken([], 0, 0, wait_s=2.0), taken([], 0, 0, wait_s=2.0), taken([0, 1], 0, 2))
    assert await ids(reading(lambda _: hold, 0, 2, clock=clock)) == [0, 1]
    assert clock.now_s == 4.0
    clock = Clock()
    hold = Scripted(taken([], 0, 0, wait_s=20.0))
    with pytest.raises(ThrottledError, match="let nothing through for 300 s"):
        await ids(reading(lambda _: hold, 0, 2, clock=clock))
    assert LIMITED_S < clock.now_s <= LIMITED_S + 20
    assert hold.ended


async def test_a_broker_that_has_a_range_and_says_nothing_about_it_fails_the_task() -> None:
    clock = Clock()
    with pytest.raises(CorruptError, match="returns nothing for the offsets 0 to 56"):
        await ids(reading(lambda _: Scripted(taken([], 0, 0)), 0, 2, clock=clock))
    assert OUTAGE_S < clock.now_s < OUTAGE_S + 2


async def test_an_outage_is_waited_for_and_then_raised_with_its_own_error() -> None:
    clock = Clock()
    with pytest.raises(ConnectionLostError, match="away"):
        await ids(reading(lambda _: Scripted(ConnectionLostError("away")), 0, 2, clock=clock))
    assert OUTAGE_S < clock.now_s < OUTAGE_S + 4


async def test_a_refusal_for_good_is_raised_at_once_and_a_new_token_is_fetched_for_an_unknown_one() -> None:
    clock = Clock()
    with pytest.raises(BadRequestError):
        await ids(reading(lambda _: Scripted(BadRequestError("no", code=400)), 0, 2, clock=clock))
    assert clock.now_s == 0
    hold = Scripted(NotAllowedError("who are you", code=415), taken([0, 1], 0, 2))
    assert await ids(reading(lambda _: hold, 0, 2, clock=clock)) == [0, 1]
    assert clock.renewed == 1


async def test_a_read_that_failed_in_the_middle_is_asked_for_anew() -> None:
    hold = Scripted(refused(0, "Ok"), taken([0, 1], 0, 2))
    assert await ids(reading(lambda _: hold, 0, 2)) == [0, 1]


@pytest.mark.parametrize(
    "odd", [taken([0, 1, 2], 0, 2), taken([0], 5, 6)], ids=["more messages than places", "from elsewhere"]
)
async def test_an_answer_that_does_not_fit_is_thrown_away_and_asked_for_anew(odd: FetchedRange) -> None:
    hold = Scripted(odd, taken([0, 1], 0, 2))
    assert await ids(reading(lambda _: hold, 0, 2)) == [0, 1]


# --- names ----------------------------------------------------------------------------------------------------------


def test_group_names_are_few_begin_by_the_attempt_and_are_the_users_own_if_one_is_given() -> None:
    query = "3f2a91c4-88aa-4c05-9bdd-0123456789ab"
    first, second = (list(group_names(read_group=None, query=query, attempt=n)) for n in (0, 1))
    assert first[0] == "pytubemq_spark_3f2a91c488aa4c05_0"
    assert second[0] == "pytubemq_spark_3f2a91c488aa4c05_1"
    assert set(first[:NAMES]) == set(second[:NAMES])
    assert len(first) == NAMES + STRAYS
    assert next(group_names(read_group=None, query=None, attempt=0)) == "pytubemq_spark_batch_0"
    assert list(group_names(read_group="billing", query=query, attempt=3)) == ["billing"]
    assert next(ends_group_names(read_group="billing")) == "billing_ends_0"
    assert next(ends_group_names(read_group=None)) == "pytubemq_spark_ends_0"
