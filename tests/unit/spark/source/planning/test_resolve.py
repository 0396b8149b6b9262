"""What places mean: edges, offsets, times and groups, by topic and partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Partition
from pytubemq.spark.source.options import NoSuchTime
from pytubemq.spark.source.planning.plan import Ends
from pytubemq.spark.source.planning.resolve import check_named, check_order, resolve, resolve_start
from pytubemq.spark.source.planning.stream_end import Ending
from pytubemq.spark.source.positions import AtGroup, AtOffset, AtTime, Edge, Positions

if TYPE_CHECKING:
    from collections.abc import Collection

P0, P1, OTHER = Partition(1, "demo", 0), Partition(1, "demo", 1), Partition(2, "other", 0)
ENDS = {P1: Ends(28, 280), P0: Ends(0, 2800), OTHER: Ends(56, 560)}
NOW_MS = 10_000


class Looks:
    """A cluster in which message n of every partition was appended at n seconds."""

    def __init__(self, confirmed: dict[Partition, int] | None = None) -> None:
        self.confirmed = confirmed or {}
        self.asked: list[object] = []

    def at_time(self, partitions: Collection[Partition], time_ms: int) -> dict[Partition, int | None]:
        self.asked.append(time_ms)
        offsets = {partition: -(-time_ms // 1000) * 28 for partition in partitions}
        return {
            partition: None if offset >= ENDS[partition].max_offset else max(offset, ENDS[partition].min_offset)
            for partition, offset in offsets.items()
        }

    def of_group(self, partitions: Collection[Partition], group: str) -> dict[Partition, int | None]:
        self.asked.append(group)
        return {partition: self.confirmed.get(partition) for partition in partitions}


def starts(positions: Positions, looks: Looks | None = None, rule: NoSuchTime = NoSuchTime.ERROR) -> dict[str, int]:
    return resolve_start(positions, ENDS, looks or Looks(), now_ms=NOW_MS, no_such_time=rule)


def test_edges_become_offsets_with_sorted_keys() -> None:
    assert list(starts(Positions(Edge.EARLIEST)).items()) == [("1:demo:0", 0), ("1:demo:1", 28), ("2:other:0", 56)]


def test_a_partitions_own_place_wins_over_its_topics_and_means_a_whole_message() -> None:
    positions = Positions(Edge.LATEST, {"demo": Edge.EARLIEST}, {P0: AtOffset(29)})
    assert starts(positions) == {"1:demo:0": 56, "1:demo:1": 28, "2:other:0": 560}


def test_times_are_asked_once_each_and_counted_from_now() -> None:
    looks = Looks()
    positions = Positions(AtTime(5000), {"other": AtTime(ago_ms=2000)})
    assert starts(positions, looks) == {"1:demo:0": 140, "1:demo:1": 140, "2:other:0": 224}
    assert sorted(map(str, looks.asked)) == ["5000", "8000"]


@pytest.mark.parametrize(("rule", "offset"), [(NoSuchTime.LATEST, 280), (NoSuchTime.EARLIEST, 28)])
def test_a_partition_without_a_message_that_new_follows_the_rule(rule: NoSuchTime, offset: int) -> None:
    assert starts(Positions(AtTime(15_000)), rule=rule) == {"1:demo:0": 420, "1:demo:1": offset, "2:other:0": 420}


def test_a_partition_without_a_message_that_new_is_an_error_by_default() -> None:
    with pytest.raises(ConfigError, match=r"(?s)1:demo:1 has no message.*startingTimestampStrategy"):
        starts(Positions(AtTime(15_000)))
    with pytest.raises(ConfigError, match="nor have 1 more"):
        starts(Positions(AtTime(50_000)))


def test_a_group_begins_where_it_is_and_at_the_first_message_where_it_is_nowhere() -> None:
    looks = Looks({P0: 280, P1: 5600})
    assert starts(Positions(AtGroup("g")), looks) == {"1:demo:0": 280, "1:demo:1": 280, "2:other:0": 56}


def test_a_group_that_has_confirmed_nothing_anywhere_is_named() -> None:
    with pytest.raises(ConfigError, match="group nobody has confirmed nothing in demo, other"):
        starts(Positions(AtGroup("nobody")))


def test_a_place_for_what_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="no partition 9:demo:0"):
        starts(Positions(Edge.EARLIEST, {}, {Partition(9, "demo", 0): AtOffset(0)}))
    with pytest.raises(ConfigError, match="topic 'third' is not among"):
        check_named(Positions(Edge.EARLIEST, {"third": Edge.LATEST}), ENDS)


def test_an_end_at_a_time_to_come_is_all_there_is() -> None:
    found = resolve(Positions(AtTime(15_000)), ENDS, Looks(), now_ms=NOW_MS)
    assert found == {"1:demo:0": 420, "1:demo:1": 280, "2:other:0": 420}
    assert found.open == {P1}


def test_a_streams_end_stays_and_a_time_to_come_is_asked_for_until_it_has_come() -> None:
    looks = Looks()
    ending = Ending(Positions(AtTime(15_000), {"other": Edge.LATEST}), looks, NOW_MS)
    assert ending.offsets(ENDS) == {"1:demo:0": 420, "2:other:0": 560}
    assert ending.offsets({**ENDS, OTHER: Ends(56, 5600)}) == {"1:demo:0": 420, "2:other:0": 560}
    later = {**ENDS, P1: Ends(28, 2800)}
    looks.at_time = lambda partitions, time_ms: dict.fromkeys(partitions, 420)  # type: ignore[method-assign]
    assert ending.offsets(later) == {"1:demo:0": 420, "1:demo:1": 420, "2:other:0": 560}


def test_a_partition_found_later_has_nothing_before_an_end_that_was_set_by_what_was_there() -> None:
    ending = Ending(Positions(Edge.LATEST), Looks(), NOW_MS)
    ending.offsets({P0: ENDS[P0]})
    assert ending.offsets(ENDS) == {"1:demo:0": 2800, "1:demo:1": 28, "2:other:0": 56}


def test_a_partition_does_not_end_before_it_begins() -> None:
    begins = Positions(Edge.EARLIEST, {"demo": AtOffset(280)}, {P1: AtOffset(560)})
    check_order(begins, Positions(Edge.LATEST, {"demo": AtOffset(560)}), ENDS)
    check_order(begins, Positions(Edge.EARLIEST, {"other": AtOffset(0)}), ENDS)  # edges are where they are
    with pytest.raises(ConfigError, match=r"partition 1:demo:1 ends before it begins: endingOffsets 532, .* 560"):
        check_order(begins, Positions(Edge.LATEST, {"demo": AtOffset(532)}), ENDS)
