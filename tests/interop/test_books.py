"""The books themselves: each way in which a reader can be wrong is seen."""

from __future__ import annotations

import pytest

from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES

from .ledger import Index, Received, Sent, compare
from .message_set import expected, make

pytestmark = pytest.mark.interop

PARTITION = "1:topic:0"


def entry(index: int, digest: str | None = None) -> tuple[str, str, str]:
    return "set", str(index), digest or expected("set", index)[0]


def faults(
    *arrived: tuple[str | None, str | None, str],
    sent: int = 4,
    partition: str = PARTITION,
    doubtful: set[Index] | None = None,
    may_repeat: bool = False,
) -> list[str]:
    books, got = Sent("topic"), Received()
    for index in range(sent):
        books.add("set", index, PARTITION, 28 * index)
    got.add("member", partition, list(arrived))
    return compare(books.order(), got, doubtful=doubtful or set(), may_repeat=may_repeat)


def test_all_in_order_is_right() -> None:
    assert not faults(*map(entry, range(4)))


@pytest.mark.parametrize(
    ("arrived", "said"),
    [
        ((0, 1, 3), "did not come"),
        ((0, 2, 1, 3), "out of order"),
        ((0, 1, 2, 3, 2), "more than once"),
        ((0, 1, 2, 3, 9), "not to"),
    ],
)
def test_what_is_lost_shuffled_repeated_or_strange_is_said(arrived: tuple[int, ...], said: str) -> None:
    found = faults(*map(entry, arrived))
    assert len(found) == 1
    assert said in found[0]


def test_a_changed_message_is_said() -> None:
    assert "not as it was sent" in faults(*map(entry, range(3)), entry(3, "0" * 16))[0]


def test_a_message_without_its_attributes_is_said() -> None:
    assert "without its attributes" in faults(*map(entry, range(4)), (None, None, "0" * 16))[0]


def test_another_partition_is_said() -> None:
    found = faults(*map(entry, range(4)), partition="1:topic:1")
    assert any("nothing was expected there" in one for one in found)


def test_repeats_pass_where_they_may_and_order_still_counts() -> None:
    assert not faults(*map(entry, (0, 1, 0, 1, 2, 3)), may_repeat=True)
    assert faults(*map(entry, (1, 0, 1, 2, 3)), may_repeat=True)


def test_a_message_sent_twice_may_come_twice() -> None:
    assert not faults(*map(entry, (0, 1, 1, 2, 3)), doubtful={("set", 1)})


def test_a_message_sent_twice_may_also_lie_in_another_partition() -> None:
    doubtful: set[Index] = {("set", 7)}
    assert not faults(*map(entry, (0, 7, 1, 2, 3)), doubtful=doubtful)
    assert faults(*map(entry, (0, 8, 1, 2, 3)), doubtful=doubtful)


def test_filters_and_starts_choose_what_is_expected() -> None:
    books = Sent("topic")
    for index in range(40):
        books.add("set", index, PARTITION, index)
    chosen = books.order(frozenset({"t1"}), {PARTITION: 20})[PARTITION]
    assert chosen == [("set", index) for index in range(20, 40) if make("set", index).msg_type == "t1"]
    assert chosen


def test_a_set_has_every_kind_of_message() -> None:
    messages = [make("set", index) for index in range(5000)]
    sizes = {len(one.body) for one in messages}
    assert {1, 9_000, 70_000, DEFAULT_MAX_MESSAGE_BYTES - len("set=set,i=4999")} <= sizes
    assert {one.msg_type for one in messages} == {None, "t0", "t1", "t2", "t3"}
    assert any(not value.isascii() for one in messages for value in one.attributes.values())
    assert len({expected("set", index)[0] for index in range(5000)}) == 5000
