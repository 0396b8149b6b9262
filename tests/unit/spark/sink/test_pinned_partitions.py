"""The partitions of a batch stay the same for its replay, whatever becomes of the topic meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Partition
from pytubemq.spark.sink.pinned_partitions import next_pins, partitions_of, pinned

if TYPE_CHECKING:
    from pathlib import Path

TWO = tuple(Partition(1, "t", n) for n in range(2))
THREE = tuple(Partition(1, "t", n) for n in range(3))
OTHER = (Partition(2, "t", 0),)


def commit(checkpoint: Path, batch: int) -> None:
    (checkpoint / "commits").mkdir(exist_ok=True, parents=True)
    (checkpoint / "commits" / str(batch)).touch()
    (checkpoint / "commits" / f".{batch}.crc").touch()


@pytest.mark.parametrize("uri", [False, True])
def test_a_batch_that_may_have_been_tried_keeps_its_partitions(tmp_path: Path, uri: bool) -> None:
    checkpoint = tmp_path / "checkpoint"
    location = checkpoint.as_uri() if uri else str(checkpoint)
    assert partitions_of(0, pinned(location, "t", TWO)) == TWO
    grown = pinned(location, "t", THREE)  # nothing is committed, so batch 0 may be half written
    assert (partitions_of(0, grown), partitions_of(1, grown)) == (TWO, THREE)
    commit(checkpoint, 0)
    commit(checkpoint, 10)
    same = pinned(location, "t", THREE)
    assert partitions_of(11, same) == THREE
    back = pinned(location, "t", TWO)  # partitions are gone: there is no way to use them again
    assert partitions_of(11, back) == TWO
    assert pinned(location, "u", OTHER) == ((0, OTHER),)
    assert pinned(location, "t", TWO) == back


def test_a_change_of_mind_before_a_list_was_used_leaves_no_trace() -> None:
    four = (*THREE, Partition(1, "t", 3))
    pins = next_pins(next_pins(((0, TWO),), THREE, committed=5), four, committed=5)
    assert pins == ((0, TWO), (7, four))
    assert [partitions_of(batch, pins) for batch in (5, 6, 7)] == [TWO, TWO, four]


def test_a_checkpoint_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"tubemq-sink\.json"):
        pinned(str(tmp_path / "file"), "t", TWO)


def test_a_store_that_arrow_does_not_know_keeps_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert pinned("nosuch://bucket/checkpoint", "t", TWO) == ((0, TWO),)
    assert "add none to topic t" in caplog.text
