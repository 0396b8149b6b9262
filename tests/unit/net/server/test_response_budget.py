"""The budget of responses that nobody has read: who waits, who goes, and who never does."""

from __future__ import annotations

from functools import partial

from pytubemq.model.limits import (
    CROWDED_DEBT_S,
    CROWDED_PERIOD_S,
    KIB,
    MAX_FETCH_BYTES,
    MAX_FRAME_BYTES,
    MIB,
    PROVEN_READER_BYTES,
    RESPONSE_LEAST_BYTES,
    RESPONSE_PERIOD_S,
    SMALL_READ_BYTES,
    STALLED_LEAST_BYTES,
    STALLED_PERIOD_S,
)
from pytubemq.net.server.response_budget import ReadSize, ResponseBudget

BIG = ReadSize(MAX_FETCH_BYTES, MAX_FETCH_BYTES)
FEW = ReadSize(KIB, KIB)


class Peer:
    """A connection as the budget sees it."""

    def __init__(self, budget: ResponseBudget, unsent_bytes: int = 0) -> None:
        self.unsent_bytes = unsent_bytes
        self.delivered_bytes = 0
        self._budget = budget
        budget.record(self, 0.0)

    def take(self, size: int, now_s: float, *, more: int = 0) -> None:
        """Take some, and get some more."""
        self.delivered_bytes += size
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
    assert (total.is_used_up, total.slow_readers(STALLED_PERIOD_S - 0.1)) == (True, [])
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
    assert total.slowest_reader() is reading
    Peer(total, KIB)
    worst = Peer(total, 2 * KIB)
    assert total.is_overdrawn
    assert total.slowest_reader() is worst


def test_reads_under_way_count_and_the_next_ones_wait_their_turn() -> None:
    total = budget(2 * MAX_FETCH_BYTES)
    order: list[int] = []
    used_up: list[bool] = []
    for _ in range(2):
        total.reserve(MAX_FETCH_BYTES)
        used_up.append(total.is_used_up)
    assert used_up == [False, True]

    def begin(number: int) -> None:
        order.append(number)
        total.reserve(MAX_FETCH_BYTES)

    for number in range(3):
        total.wait(Peer(total), BIG, partial(begin, number))
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
    honest.delivered_bytes = PROVEN_READER_BYTES
    assert total.grant(newcomer, BIG)
    deaf = [Peer(total, MAX_FETCH_BYTES) for _ in range(5)]
    assert total.is_tight
    assert not total.grant(deaf[0], BIG), "it has something to take first"
    assert total.grant(newcomer, BIG)
    deaf += [Peer(total, MAX_FETCH_BYTES) for _ in range(5)]
    assert total.is_used_up
    assert not total.grant(newcomer, BIG), "nothing shows yet that it reads"
    assert total.grant(honest, BIG)
    deaf += [Peer(total, MAX_FETCH_BYTES) for _ in range(5)]
    assert not total.grant(honest, BIG), "there is an end for everybody"
    assert len(deaf) == 15


def test_small_reads_of_those_that_owe_nothing_go_on_beside_a_crowd_that_does_not_read() -> None:
    total = budget(10 * MAX_FETCH_BYTES)
    small = Peer(total)
    deaf = [Peer(total, MAX_FETCH_BYTES) for _ in range(12)]
    assert total.is_used_up
    assert total.grant(small, ReadSize(MAX_FETCH_BYTES, SMALL_READ_BYTES)) == SMALL_READ_BYTES
    assert not total.grant(small, ReadSize(MAX_FETCH_BYTES, SMALL_READ_BYTES + 1))
    assert not total.grant(deaf[0], FEW)
    deaf += [Peer(total, MAX_FETCH_BYTES) for _ in range(3)]
    assert not total.grant(small, FEW), "there is an end for everybody"


def test_those_that_owe_nothing_do_not_wait_behind_those_that_do() -> None:
    total = budget(10 * MAX_FETCH_BYTES)
    order: list[str] = []
    deaf = [Peer(total, MAX_FETCH_BYTES) for _ in range(16)]
    newcomer, small = Peer(total), Peer(total)
    for peer in deaf:
        total.wait(peer, BIG, lambda: order.append("deaf"))
    total.wait(newcomer, BIG, lambda: order.append("newcomer"))
    total.wait(small, FEW, lambda: order.append("small"))
    total.admit()
    assert order == [], "all is used up"
    for peer in deaf[:2]:
        total.forget(peer)
    total.admit(1)
    assert order == ["small"], "it may use the share beyond the limit"
    for peer in deaf[2:7]:
        total.forget(peer)
    total.admit(2)
    assert order == ["small", "newcomer"]
    deaf[7].take(MAX_FETCH_BYTES, 1.0)
    total.admit()
    assert order == ["small", "newcomer", "deaf"], "who has read all joins the others"
    for peer in deaf[8:13]:
        total.forget(peer)
    total.admit()
    assert order[3:] == ["deaf"] * 3, "there is room again for who owes"
    total.admit()
    assert len(order) == 6, "nobody is resumed twice, and who has ended is never"


def test_only_those_that_have_proven_that_they_read_get_much_at_once_while_it_is_tight() -> None:
    total = budget(10 * MAX_FETCH_BYTES)
    honest, newcomer = Peer(total), Peer(total)
    honest.delivered_bytes = PROVEN_READER_BYTES
    assert total.grant(newcomer, BIG) == MAX_FRAME_BYTES
    assert Peer(total, 6 * MAX_FETCH_BYTES).unsent_bytes
    assert total.grant(newcomer, BIG) == SMALL_READ_BYTES
    assert total.grant(honest, BIG) == MAX_FRAME_BYTES


def test_while_someone_waits_that_owes_nothing_all_that_stand_still_go() -> None:
    total = budget()
    peers = [Peer(total, MIB) for _ in range(12)]
    total.wait(Peer(total), BIG, lambda: None)
    assert total.slow_readers(CROWDED_PERIOD_S - 0.1) == []
    assert len(total.slow_readers(CROWDED_PERIOD_S)) == len(peers)


def test_while_someone_waits_a_trickle_is_too_slow_for_who_owes_much() -> None:
    total = budget()
    fast, trickling, little = Peer(total, 20 * MIB), Peer(total, 20 * MIB), Peer(total, 100 * KIB)

    def pass_period(now_s: float) -> list[object]:
        fast.take(int(20 * MIB * STALLED_PERIOD_S / CROWDED_DEBT_S), now_s - 1)
        trickling.take(2 * STALLED_LEAST_BYTES, now_s - 1)
        little.take(STALLED_LEAST_BYTES, now_s - 1, more=STALLED_LEAST_BYTES)
        return list(total.slow_readers(now_s))

    assert pass_period(STALLED_PERIOD_S) == [], "nobody waits"
    total.wait(Peer(total), BIG, lambda: None)
    assert pass_period(2 * STALLED_PERIOD_S) == [trickling]
