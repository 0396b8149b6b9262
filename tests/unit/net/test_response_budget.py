"""The budget of responses that nobody has read: who waits, who goes, and who never does."""

from __future__ import annotations

from pytubemq.model.limits import (
    KIB,
    MAX_FETCH_BYTES,
    MIB,
    PROVEN_READER_BYTES,
    RESPONSE_LEAST_BYTES,
    RESPONSE_PERIOD_S,
    STALLED_LEAST_BYTES,
    STALLED_PERIOD_S,
)
from pytubemq.net.response_budget import ResponseBudget


class Peer:
    """A connection as the budget sees it."""

    def __init__(self, budget: ResponseBudget, unsent_bytes: int = 0) -> None:
        self.unsent_bytes = unsent_bytes
        self.taken_bytes = 0
        self._budget = budget
        budget.record(self, 0.0)

    def take(self, size: int, now_s: float, *, more: int = 0) -> None:
        """Take some, and get some more."""
        self.taken_bytes += size
        self.unsent_bytes += more - size
        self._budget.record(self, now_s)


def budget(max_bytes: int = 10 * MIB) -> ResponseBudget:
    return ResponseBudget(max_bytes=max_bytes)


def test_what_is_held_is_counted_and_forgotten() -> None:
    total = budget()
    one, other = Peer(total, 3 * MIB), Peer(total, MIB)
    assert total.unsent_bytes == 4 * MIB
    one.take(3 * MIB, 1.0)
    assert total.unsent_bytes == MIB
    total.forget(other)
    total.forget(other)
    assert total.unsent_bytes == 0


def test_a_peer_that_takes_too_little_in_a_long_period_goes_and_one_that_takes_enough_stays() -> None:
    total = budget()
    trickling, slow = Peer(total, MIB), Peer(total, MIB)
    trickling.take(RESPONSE_LEAST_BYTES - 1, RESPONSE_PERIOD_S / 2)
    slow.take(RESPONSE_LEAST_BYTES, RESPONSE_PERIOD_S / 2)
    assert total.slow_readers(RESPONSE_PERIOD_S - 1) == []
    assert total.slow_readers(RESPONSE_PERIOD_S) == [trickling]
    total.forget(trickling)
    assert total.slow_readers(2 * RESPONSE_PERIOD_S - 1) == []
    assert total.slow_readers(2 * RESPONSE_PERIOD_S) == [slow]


def test_a_peer_that_has_taken_all_begins_anew() -> None:
    total = budget()
    peer = Peer(total, KIB)
    peer.take(KIB, RESPONSE_PERIOD_S - 1)
    peer.take(0, RESPONSE_PERIOD_S - 1, more=KIB)
    assert total.slow_readers(2 * RESPONSE_PERIOD_S - 2) == []


def test_while_the_budget_is_used_up_those_that_stand_still_go_and_no_more_than_need_be() -> None:
    total = budget()
    standing = [Peer(total, (3 + number) * MIB) for number in range(4)]
    reading = Peer(total, 20 * MIB)
    reading.take(STALLED_LEAST_BYTES, 1.0)
    assert total.is_used_up
    assert total.slow_readers(STALLED_PERIOD_S - 0.1) == []
    found = total.slow_readers(STALLED_PERIOD_S)
    assert found == standing[::-1], "the ones that hold most come first"
    assert reading not in found, "whoever reads stays, whatever it holds"
    for peer in found[:3]:
        total.forget(peer)
    total.forget(reading)
    assert not total.is_used_up
    assert total.slow_readers(2 * STALLED_PERIOD_S) == []


def test_only_so_many_go_that_half_of_the_budget_is_free() -> None:
    total = budget()
    peers = [Peer(total, MIB) for _ in range(12)]
    assert len(total.slow_readers(STALLED_PERIOD_S)) == 7
    assert len(peers) == 12


def test_the_worst_is_the_one_that_takes_nothing_and_holds_most() -> None:
    total = budget(1 * MIB)
    reading = Peer(total, 5 * MIB)
    reading.take(1, 0.5)
    assert total.worst_reader() is reading
    Peer(total, KIB)
    worst = Peer(total, 2 * KIB)
    assert total.is_overdrawn
    assert total.worst_reader() is worst


def test_reads_under_way_count_and_the_next_ones_wait_their_turn() -> None:
    total = budget(2 * MAX_FETCH_BYTES)
    order: list[int] = []
    total.reserve(MAX_FETCH_BYTES)
    assert not total.is_used_up
    total.reserve(MAX_FETCH_BYTES)
    assert total.is_used_up

    def begin(number: int) -> None:
        order.append(number)
        total.reserve(MAX_FETCH_BYTES)

    for number in range(3):
        total.wait(lambda number=number: begin(number))  # type: ignore[misc]
    total.admit()
    assert order == []
    total.release(MAX_FETCH_BYTES)
    assert order == [0]
    total.release(MAX_FETCH_BYTES)
    total.release(MAX_FETCH_BYTES)
    assert order == [0, 1, 2]


def test_those_that_have_taken_all_go_on_beside_a_crowd_that_does_not_read() -> None:
    total = budget(10 * MAX_FETCH_BYTES)
    honest, newcomer = Peer(total, KIB), Peer(total)
    honest.take(KIB, 1.0)
    honest.taken_bytes = PROVEN_READER_BYTES
    assert total.can_read(newcomer)
    deaf = [Peer(total, MAX_FETCH_BYTES) for _ in range(5)]
    assert total.is_tight
    assert not total.can_read(deaf[0]), "it has something to take first"
    assert total.can_read(newcomer)
    deaf += [Peer(total, MAX_FETCH_BYTES) for _ in range(5)]
    assert total.is_used_up
    assert not total.can_read(newcomer), "nothing shows yet that it reads"
    assert total.can_read(honest)
    deaf += [Peer(total, MAX_FETCH_BYTES) for _ in range(5)]
    assert not total.can_read(honest), "there is an end for everybody"
    assert len(deaf) == 15
