"""Lists of partitions that are read in steps say what the parsers of their strings say."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

from pytubemq.errors import FormatError
from pytubemq.model.ids import Partition
from pytubemq.wire.text import read_partitions
from pytubemq.wire.text.partition_strings import (
    format_part_sub_info,
    format_required_partition,
    parse_part_sub_infos,
    parse_required_partition,
    parse_subscribed,
)
from pytubemq.wire.text.read_partitions import (
    part_sub_partitions,
    read_part_sub_infos,
    read_required,
    read_subscribed,
    required_offsets,
    subscribed_partitions,
)

if TYPE_CHECKING:
    from collections.abc import Generator

T = TypeVar("T")
WANTED = {Partition(1, topic, number): number - 3 for topic in "ab" for number in range(7)}
SUBSCRIBED = tuple(f"c@g#{p.broker_id}:127.0.0.1:8123#{p.topic}:{p.partition_id}" for p in WANTED)
INFOS = tuple(format_part_sub_info(topic, [(1, number) for number in range(7)]) for topic in "ab")
REQUIRED = format_required_partition(WANTED)


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_partitions, "STEP", 4)


def taken(steps: Generator[None, None, T]) -> tuple[int, T]:
    """Take all steps; return their number and the result."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


def test_what_is_read_in_steps_is_what_the_parsers_say() -> None:
    count, texts = taken(read_subscribed(SUBSCRIBED))
    assert (count, texts, subscribed_partitions(texts)) == (4, SUBSCRIBED, parse_subscribed(SUBSCRIBED))
    count, texts = taken(read_part_sub_infos(INFOS))
    assert (count, texts, part_sub_partitions(texts)) == (2, INFOS, parse_part_sub_infos(INFOS))
    count, text = taken(read_required(REQUIRED))
    assert (count, text, required_offsets(text)) == (4, REQUIRED, parse_required_partition(REQUIRED))
    assert required_offsets(REQUIRED) == WANTED
    assert subscribed_partitions(SUBSCRIBED) == part_sub_partitions(INFOS) == WANTED.keys()


def test_errors_are_raised_where_the_list_is_used() -> None:
    for texts, read, use in (
        (SUBSCRIBED, read_subscribed, subscribed_partitions),
        (INFOS, read_part_sub_infos, part_sub_partitions),
    ):
        _, found = taken(read((*texts, "none")))
        with pytest.raises(FormatError, match="none"):
            use(found)
    _, offsets = taken(read_required(f"{REQUIRED},1:a:8=x"))
    with pytest.raises(FormatError, match="not a list of offsets"):
        required_offsets(offsets)
