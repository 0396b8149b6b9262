"""The stream reader's questions about the newest offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from pytubemq.model.ids import Partition
from pytubemq.spark.source.options import parse_options
from pytubemq.spark.source.plan import Ends
from pytubemq.spark.source.stream import TubeMqStreamReader

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pytest

HERE = Partition(1, "demo", 0)


class Growing:
    """A cluster in whose only partition a message lies more at each question."""

    def __init__(self) -> None:
        self.asked = 0

    def ends(self, topics: Sequence[str], *, needed: Collection[Partition] = ()) -> dict[Partition, Ends]:
        self.asked += 1
        return {HERE: Ends(0, 28 * self.asked)}


def reader() -> tuple[TubeMqStreamReader, Growing]:
    made: Any = TubeMqStreamReader(parse_options({"master": "127.0.0.1:8715", "topic": "demo"}))
    made._cluster = cluster = Growing()
    return made, cluster


def test_every_batch_begins_with_a_new_question() -> None:
    stream, cluster = reader()
    start = {str(HERE): 0}
    first = stream.latestOffset(start, ReadAllAvailable())
    second = stream.latestOffset(first, ReadAllAvailable())
    assert second[str(HERE)] > first[str(HERE)]
    assert cluster.asked == 2


def test_the_questions_about_one_batch_share_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.spark.source.stream.FRESH_S", 3600.0)
    stream, cluster = reader()
    end = stream.latestOffset({str(HERE): 0}, ReadAllAvailable())
    assert stream.reportLatestOffset() == end
    assert cluster.asked == 1
