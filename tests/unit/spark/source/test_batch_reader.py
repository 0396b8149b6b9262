"""The batch reader's decisions on the driver: what is refused before a task is made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError, OffsetMovedError
from pytubemq.model.ids import Partition
from pytubemq.spark.source.batch import TubeMqReader
from pytubemq.spark.source.options import parse_options
from pytubemq.spark.source.planning.plan import BrokerKind, Ends
from pytubemq.spark.source.read.task import RangePartition

if TYPE_CHECKING:
    from pathlib import Path

HERE, THERE = Partition(1, "demo", 0), Partition(1, "demo", 1)


class Sight:
    """A topic of two partitions with ten messages and none."""

    def __init__(self, options: object) -> None:
        pass

    def ends(self) -> dict[Partition, Ends]:
        return {HERE: Ends(0, 280), THERE: Ends(0, 0)}

    def kind(self, partition: Partition) -> BrokerKind:
        return BrokerKind.OURS

    def known(self) -> None:
        return None


@pytest.fixture(autouse=True)
def sight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.spark.source.batch.Survey", Sight)


def planned(**options: str) -> list[tuple[str, int, int]]:
    reader = TubeMqReader(parse_options({"master": "127.0.0.1:8715", "topic": "demo"} | options))
    found = [one for part in reader.partitions() if isinstance(part, RangePartition) for one in part.ranges]
    return [(str(one.partition), one.start, one.end) for one in found]


def test_a_begin_behind_the_end_is_data_loss_in_a_batch_as_in_a_stream(tmp_path: Path) -> None:
    assert planned(startingOffsets=json.dumps({str(HERE): 280})) == []
    beyond = json.dumps({str(HERE): 28_000})
    with pytest.raises(OffsetMovedError, match=r"data loss in partition 1:demo:0: rows 280 to 28000 .* has 0 to 280"):
        planned(startingOffsets=beyond)
    assert planned(startingOffsets=beyond, failOnDataLoss="false") == []
    assert planned(startingOffsets=beyond, failOnDataLoss="report", lossDirectory=str(tmp_path)) == []
    [told] = tmp_path.glob("*.json")
    assert json.loads(told.read_text())["rows"] == 990


def test_a_batch_that_ends_before_it_begins_is_refused() -> None:
    offsets = {"startingOffsets": json.dumps({"demo": 140}), "endingOffsets": json.dumps({str(HERE): 112})}
    with pytest.raises(ConfigError, match="partition 1:demo:0 ends before it begins"):
        planned(**offsets, failOnDataLoss="false")
