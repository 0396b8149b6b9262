"""How nodes of a group divide partitions among themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core.share import Moves, next_moves, share_of
from pytubemq.errors import ConfigError
from pytubemq.model.ids import STORE_BASE, Partition

if TYPE_CHECKING:
    from random import Random

PARTITIONS = st.builds(
    Partition,
    st.integers(0, 9),
    st.sampled_from(["a", "b", "topic_c"]),
    st.builds(lambda store, number: store * STORE_BASE + number, st.integers(0, 2), st.integers(0, 6)),
)
SETS = st.sets(PARTITIONS, max_size=60)
NODES = st.integers(1, 9)


def shares(partitions: set[Partition], source_count: int) -> list[frozenset[Partition]]:
    """Everybody's share."""
    return [share_of(partitions, source_count=source_count, node_id=node) for node in range(source_count)]


@given(SETS, NODES)
def test_every_partition_has_exactly_one_node(partitions: set[Partition], source_count: int) -> None:
    dealt = shares(partitions, source_count)
    assert sorted(one for share in dealt for one in share) == sorted(partitions)


@given(SETS, NODES)
def test_loads_differ_by_at_most_one_over_all_and_per_topic(partitions: set[Partition], source_count: int) -> None:
    dealt = shares(partitions, source_count)
    for topic in (None, *{one.topic for one in partitions}):
        loads = [sum(topic in (None, one.topic) for one in share) for share in dealt]
        assert max(loads) - min(loads) <= 1


@given(st.lists(PARTITIONS, unique=True), NODES, st.randoms(use_true_random=False))
def test_all_nodes_agree_whatever_order_they_are_told_in(
    partitions: list[Partition], source_count: int, random: Random
) -> None:
    told = partitions.copy()
    random.shuffle(told)
    for node in range(source_count):
        one = share_of(partitions, source_count=source_count, node_id=node)
        assert one == share_of(told, source_count=source_count, node_id=node)


@given(st.dictionaries(PARTITIONS, st.booleans(), max_size=60), NODES, st.data())
def test_what_cannot_be_consumed_now_moves_nothing(
    configured: dict[Partition, bool], source_count: int, data: st.DataObject
) -> None:
    node = data.draw(st.integers(0, source_count - 1))
    everything = next_moves(dict.fromkeys(configured, True), (), source_count=source_count, node_id=node).connect
    moves = next_moves(configured, (), source_count=source_count, node_id=node)
    assert moves.connect == tuple(one for one in everything if configured[one])
    assert not moves.release
    # whoever holds its share keeps it while all of it is away
    away = next_moves(dict.fromkeys(configured, False), everything, source_count=source_count, node_id=node)
    assert away == Moves()


@given(SETS, SETS, NODES, st.data())
def test_moves_lead_to_the_share_and_then_end(
    configured: set[Partition], held: set[Partition], source_count: int, data: st.DataObject
) -> None:
    node = data.draw(st.integers(0, source_count - 1))
    usable = dict.fromkeys(configured, True)
    moves = next_moves(usable, held, source_count=source_count, node_id=node)
    after = (held - set(moves.release)) | set(moves.connect)
    assert after == share_of(configured, source_count=source_count, node_id=node)
    assert not next_moves(usable, after, source_count=source_count, node_id=node)


@given(st.integers(1, 5), st.integers(1, 8), st.integers(1, 8), NODES)
def test_the_growth_of_a_topic_on_all_its_brokers_moves_nothing(
    brokers: int, before: int, more: int, source_count: int
) -> None:
    def topic(partitions: int) -> set[Partition]:
        return {Partition(broker, "demo", number) for broker in range(brokers) for number in range(partitions)}

    for small, large in zip(
        shares(topic(before), source_count), shares(topic(before + more), source_count), strict=True
    ):
        assert small <= large


@pytest.mark.parametrize(("source_count", "node_id"), [(0, 0), (2, 2), (2, -1), (-2, -2)])
def test_a_node_that_is_none_is_refused_by_both_numbers(source_count: int, node_id: int) -> None:
    with pytest.raises(ConfigError, match=rf"node_id is {node_id} and source_count is {source_count}"):
        share_of([], source_count=source_count, node_id=node_id)
