"""Which partition a message goes to."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core.routing import SHIELD, Router
from pytubemq.model.ids import Partition
from pytubemq.model.limits import UNANSWERED_BROKER_S


def partitions(*counts: int) -> list[Partition]:
    """One Broker per count, numbered from 1."""
    return [Partition(broker, "demo", n) for broker, count in enumerate(counts, 1) for n in range(count)]


def router(*counts: int, dice: float = 0.0) -> Router:
    made = Router(rng=lambda: dice)
    made.update(partitions(*counts), 0.0)
    return made


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.floats(0, 1, exclude_max=True), st.integers(1, 4))
def test_messages_without_a_key_go_round_evenly(counts: list[int], dice: float, rounds: int) -> None:
    made = router(*counts, dice=dice)
    total = sum(counts)
    chosen = Counter(made.choose(0.0) for _ in range(total * rounds))
    assert chosen == dict.fromkeys(partitions(*counts), rounds)


def test_neighbours_in_the_round_lie_on_different_brokers() -> None:
    made = router(3, 3)
    brokers = [made.choose(0.0).broker_id for _ in range(6)]  # type: ignore[union-attr]
    assert all(one != other for one, other in itertools.pairwise(brokers))


@given(st.binary(min_size=0, max_size=20), st.integers(1, 20))
def test_a_key_goes_to_one_partition_also_past_a_shield(key: bytes, count: int) -> None:
    made = router(count, count)
    before = made.choose(0.0, key)
    made.record_failure(1, 0.0)
    assert made.choose(0.1, key) == before
    assert router(count, count, dice=0.7).choose(9.0, key) == before


def test_the_key_hash_never_changes_between_versions() -> None:
    made = router(10)
    assert [made.for_key(key).partition_id for key in (b"", b"a", b"flight-1", b"\xff")] == [0, 7, 4, 0]  # type: ignore[union-attr]


def test_a_broker_that_failed_is_left_out_for_a_while() -> None:
    made = router(2, 2)
    made.record_failure(1, 100.0)
    assert {made.choose(100.0).broker_id for _ in range(8)} == {2}  # type: ignore[union-attr]
    assert made.open_brokers(100.0) == {2}
    later = 100.0 + SHIELD.first_s
    assert {made.choose(later).broker_id for _ in range(8)} == {1, 2}  # type: ignore[union-attr]


def test_each_failure_in_a_row_doubles_the_shield_and_an_answer_ends_it() -> None:
    made = router(1, 1)
    made.record_failure(1, 0.0)
    made.record_failure(1, 0.0)
    assert made.open_brokers(SHIELD.first_s * 1.5) == {2}
    made.record_response(1, 0.1)
    assert made.open_brokers(0.1) == {1, 2}
    made.record_failure(1, 1.0)
    assert made.open_brokers(1.0 + SHIELD.first_s) == {1, 2}


def test_when_every_broker_has_failed_none_is_left_out() -> None:
    made = router(1, 1)
    made.record_failure(1, 0.0)
    made.record_failure(2, 0.0)
    assert {made.choose(0.0).broker_id for _ in range(4)} == {1, 2}  # type: ignore[union-attr]
    assert made.open_brokers(0.0) == frozenset()


def test_an_update_tells_what_is_gone_and_forgets_its_shield() -> None:
    made = router(2, 1)
    made.record_failure(2, 0.0)
    assert made.update(partitions(1), 0.0) == {Partition(1, "demo", 1), Partition(2, "demo", 0)}
    made.update(partitions(1, 1), 0.0)
    assert made.open_brokers(0.0) == {1, 2}


def test_without_partitions_there_is_no_choice() -> None:
    made = Router(rng=lambda: 0.5)
    assert made.choose(0.0) is None
    assert made.choose(0.0, b"key") is None


def test_a_partition_that_cannot_be_served_is_left_out_for_a_while_and_its_broker_is_not() -> None:
    made = router(2)
    first, second = partitions(2)
    made.record_partition_failure(first, 100.0)
    assert {made.choose(100.0) for _ in range(4)} == {second}
    assert made.is_left_out(first)
    assert made.open_brokers(100.0) == {1}
    later = 100.0 + SHIELD.first_s
    assert {made.choose(later) for _ in range(4)} == {first, second}
    made.record_partition_failure(first, later)
    assert made.choose(later + SHIELD.first_s) == second, "it is left out longer each time"


def test_when_no_partition_can_be_served_none_is_left_out() -> None:
    made = router(2)
    for partition in partitions(2):
        made.record_partition_failure(partition, 0.0)
    assert {made.choose(0.0) for _ in range(4)} == set(partitions(2))


def test_a_sound_partition_of_a_sound_broker_is_better_than_any_other() -> None:
    made = router(1, 2)
    made.record_failure(1, 0.0)
    made.record_partition_failure(Partition(2, "demo", 0), 0.0)
    assert {made.choose(0.0) for _ in range(4)} == {Partition(2, "demo", 1)}


def brokers(made: Router, now_s: float) -> set[int]:
    """Those that get messages without a key."""
    return {made.choose(now_s).broker_id for _ in range(12)}  # type: ignore[union-attr]


def test_a_broker_that_owes_a_response_for_too_long_is_passed_over_until_it_responds() -> None:
    made = router(2, 2, 2)
    late = 100.0 + UNANSWERED_BROKER_S
    assert not made.pass_over_silent({1: 100.0}, late - 0.01)
    assert brokers(made, late - 0.01) == {1, 2, 3}
    assert made.pass_over_silent({1: 100.0, 2: late}, late)
    assert brokers(made, late) == {2, 3}
    assert made.open_brokers(late) == {2, 3}
    assert not made.pass_over_silent({1: 100.0, 3: late + 600}, late + 600), (
        "nothing has changed, so nothing is computed anew"
    )
    assert brokers(made, late + 600) == {2, 3}, "time alone does not bring it back"
    made.record_response(1, late + 600)
    assert brokers(made, late + 600) == {1, 2, 3}


def test_a_broker_that_owes_nothing_any_more_gets_its_share_again() -> None:
    made = router(1, 1)
    made.pass_over_silent({1: 0.0}, UNANSWERED_BROKER_S)
    assert made.pass_over_silent({}, UNANSWERED_BROKER_S)
    assert brokers(made, UNANSWERED_BROKER_S) == {1, 2}


def test_when_every_broker_owes_a_response_none_is_passed_over() -> None:
    made = router(1, 1)
    made.pass_over_silent({1: 0.0, 2: 0.0}, UNANSWERED_BROKER_S)
    assert brokers(made, UNANSWERED_BROKER_S) == {1, 2}


def test_a_broker_that_does_not_respond_is_a_better_guess_than_one_that_failed() -> None:
    made = router(1, 1)
    made.record_failure(1, 10.0)
    made.pass_over_silent({2: 10.0 - UNANSWERED_BROKER_S}, 10.0)
    assert brokers(made, 10.0) == {2}
    made.record_partition_failure(Partition(2, "demo", 0), 10.0)
    assert brokers(made, 10.0) == {2}


def test_a_response_ends_silence_and_failures_together() -> None:
    made = router(1, 1)
    made.record_failure(1, 0.0)
    made.pass_over_silent({1: 0.0}, UNANSWERED_BROKER_S)
    made.record_response(1, UNANSWERED_BROKER_S)
    assert brokers(made, UNANSWERED_BROKER_S) == {1, 2}
    assert made.open_brokers(UNANSWERED_BROKER_S) == {1, 2}


@given(st.binary(max_size=20))
def test_a_key_goes_to_its_partition_while_its_broker_does_not_respond(key: bytes) -> None:
    made = router(2, 2)
    before = made.choose(0.0, key)
    made.pass_over_silent({1: 0.0}, UNANSWERED_BROKER_S)
    assert made.choose(UNANSWERED_BROKER_S, key) == before


@given(st.lists(st.floats(0.05, UNANSWERED_BROKER_S - 0.01), min_size=1, max_size=40))
def test_a_broker_that_responds_slowly_but_in_time_keeps_its_share(pauses_s: list[float]) -> None:
    made, heard_s = router(2, 2), 0.0
    for pause_s in pauses_s:
        made.pass_over_silent({1: heard_s}, heard_s + pause_s)
        assert brokers(made, heard_s + pause_s) == {1, 2}
        heard_s += pause_s
        made.record_response(1, heard_s)
